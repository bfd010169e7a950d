package flowtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/receipt"
)

// A life is what happened to one customer at a made-up provider within the last weeks, in the events that it told.
type life struct {
	*testing.T
	random *rand.Rand
	seed   string
	// connected is the connected account that it is a life of, "" for the provider's own.
	connected string
	customer  string // the provider's
	now       time.Time
	events    []told
	plan      string
	trial     time.Time
	cancels   bool
	status    string
	period    time.Time // its end
	bills     []*paidBill
	count     int // of all bills
}

// paidBill is an invoice that was paid, and what happened to the money.
type paidBill struct {
	seed string
	at   time.Time
	free bool
	// charged is set once the charge was told of; repaid is what stands as paid back of it.
	charged bool
	refund  string // its status, "" for none
	repaid  int64
	dispute string // its status, "" for none
}

// told is an event, and what a person who reads it knows from then on.
type told struct {
	forge.Event
	invoice, status string // of an invoice
	attempt         int
	subscription    string // the subscription's status, "" for an event about none
	money, is       string // a refund or a dispute, and its status
	seenAt          time.Time
	due             int64
	moved           []string // the balance transactions of a dispute
}

// price is what each invoice of a life comes to.
const price = 4900

// account is ours.
func (l *life) account() string { return "acct-" + l.seed }

// accounts are where what happened may be booked and told: a payment is its customer's until its invoice is known.
func (l *life) accounts() []string { return []string{l.account(), l.customer} }

// scope is what the keys of effects begin with, after their kind.
func (l *life) scope() string {
	if l.connected == "" {
		return ":stripe:live:"
	}
	return ":stripe:live:" + l.connected + ":"
}

func newLife(t *testing.T, random *rand.Rand, seed string) *life {
	l := &life{T: t, random: random, seed: seed, now: time.Now().Add(-30 * 24 * time.Hour).Truncate(time.Second), plan: "starter"}
	if random.IntN(3) == 0 {
		l.connected = "acct_" + seed
	}
	status := "active"
	if random.IntN(2) == 0 {
		status, l.trial = "trialing", time.Now().Add(5*24*time.Hour).Truncate(time.Second)
	}
	l.subscription("customer.subscription.created", status)
	l.bill(0, true, status == "trialing")
	for range 12 {
		l.now = l.now.Add(time.Duration(1+random.IntN(45)) * time.Hour)
		if status == "trialing" {
			switch random.IntN(3) {
			case 0:
				l.subscription("customer.subscription.trial_will_end", status)
				continue
			case 1:
				status, l.trial = "active", time.Time{}
				l.subscription("customer.subscription.updated", status)
				continue
			}
		}
		switch random.IntN(9) {
		case 0, 1:
			l.plan = []string{"starter", "pro", "enterprise"}[random.IntN(3)]
			l.subscription("customer.subscription.updated", status)
		case 2:
			l.cancels = !l.cancels
			l.subscription("customer.subscription.updated", status)
		case 3, 4:
			l.bill(random.IntN(3), random.IntN(3) > 0, false)
		case 5:
			if random.IntN(2) == 0 {
				l.subscription("customer.subscription.deleted", "canceled")
				l.now = l.now.Add(time.Hour)
				l.repay() // money can move after the end
				return l
			}
		default:
			l.repay()
		}
	}
	return l
}

func (l *life) tell(of told, eventType, seed string, edit func(object map[string]any)) {
	l.Helper()
	account := l.account()
	if l.connected != "" {
		account = "stranger-" + l.seed // what a connected account says of itself does not count
	}
	e, err := forge.New(forge.Params{
		Provider: stripe.Provider, EventID: fmt.Sprintf("evt_%s_%d", l.seed, l.random.Uint32()), Type: eventType, Seed: seed, Account: account,
		Plan: l.plan, Live: true, Email: l.seed + "@example.com", At: l.now, ConnectedAccount: l.connected, Amount: price,
	}, "")
	if err != nil {
		l.Fatal(err)
	}
	of.Event = change(l.T, e, func(body map[string]any) {
		object := body["data"].(map[string]any)["object"].(map[string]any)
		edit(object)
		if of.money != "" {
			of.money = object["id"].(string)
		}
		moved, _ := object["balance_transactions"].([]any)
		for _, m := range moved {
			of.moved = append(of.moved, m.(map[string]any)["id"].(string))
		}
	})
	of.seenAt = l.now
	l.events = append(l.events, of)
}

func (l *life) subscription(eventType, status string) {
	l.now, l.status = l.now.Add(time.Second), status
	l.period = l.now.AddDate(0, 1, 0)
	l.tell(told{subscription: status}, eventType, l.seed, func(object map[string]any) {
		object["status"], object["cancel_at_period_end"], object["trial_end"] = status, l.cancels, nil
		if !l.trial.IsZero() {
			object["trial_end"] = l.trial.Unix()
		}
		l.customer = object["customer"].(string)
	})
}

// bill is an invoice: so many attempts fail, and then it is paid, or not.
func (l *life) bill(fail int, paid, free bool) {
	l.count++
	seed := fmt.Sprintf("%s-%d", l.seed, l.count)
	name := func(object map[string]any) string { return object["id"].(string) }
	attempt := func(eventType, status string, n int) {
		l.now = l.now.Add(time.Duration(1+l.random.IntN(3)) * time.Hour)
		of := told{status: status, attempt: n, due: price}
		if free {
			of.due = 0
		}
		l.tell(of, eventType, seed, func(object map[string]any) {
			object["attempt_count"] = n
			if free {
				object["amount_due"], object["amount_paid"] = 0, 0
			}
			of.invoice = name(object)
		})
		l.events[len(l.events)-1].invoice = of.invoice
	}
	for n := range fail {
		attempt("invoice.payment_failed", "open", n+1)
	}
	if paid {
		attempt("invoice.paid", "paid", fail+1)
		l.bills = append(l.bills, &paidBill{seed: seed, at: l.now, free: free})
	}
}

// repay is what happens to the money of a bill that was paid: it is paid back, in part or in full, which may fail after
// all; or it is disputed, and the dispute won or lost.
func (l *life) repay() {
	b := l.bills[l.random.IntN(len(l.bills))]
	if b.free {
		return
	}
	if !b.charged {
		b.charged = true
		l.money(b, "charge.succeeded", "")
		l.now = l.now.Add(time.Minute)
		l.money(b, "invoice_payment.paid", "")
	}
	l.now = l.now.Add(time.Duration(1+l.random.IntN(5)) * time.Hour)
	switch l.random.IntN(2) {
	case 0:
		l.refund(b)
	default:
		l.dispute(b)
	}
}

func (l *life) refund(b *paidBill) {
	switch b.refund {
	case "":
		b.repaid = []int64{price, price / 2}[l.random.IntN(2)]
		if l.random.IntN(2) == 0 {
			l.money(b, "refund.created", "pending")
			l.now = l.now.Add(time.Hour)
		}
		b.refund = "succeeded"
		l.money(b, "refund.updated", b.refund)
	case "succeeded":
		b.refund = "failed"
		l.money(b, "refund.failed", b.refund)
	}
}

func (l *life) dispute(b *paidBill) {
	switch b.dispute {
	case "":
		b.dispute = "needs_response"
		l.money(b, "charge.dispute.created", b.dispute)
	case "needs_response":
		b.dispute = "under_review"
		l.money(b, "charge.dispute.updated", b.dispute)
	case "under_review":
		if b.dispute = "lost"; l.random.IntN(2) == 0 {
			b.dispute = "won"
			l.money(b, "charge.dispute.funds_reinstated", b.dispute)
			l.now = l.now.Add(time.Second)
		}
		l.money(b, "charge.dispute.closed", b.dispute)
	}
}

// money tells of a charge, or of a refund or a dispute with its status.
func (l *life) money(b *paidBill, eventType, status string) {
	of := told{is: status}
	if status != "" {
		of.money = "to be known"
	}
	l.tell(of, eventType, b.seed, func(object map[string]any) {
		if status != "" {
			object["status"] = status
		}
		if object["object"] == "refund" {
			object["amount"] = b.repaid
		}
	})
}

// wantState is what the workspace is to be in the end, by the model's rules and the policy of the rig.
func (l *life) wantState() string {
	newest := l.bills[len(l.bills)-1] // they are paid one after the other
	if l.status == "canceled" || l.cancels && l.period.Before(time.Now()) || newest.refund == "succeeded" && newest.repaid == price {
		return billing.WorkspaceSuspended
	}
	for _, b := range l.bills {
		if b.dispute != "" && b.dispute != "won" {
			return billing.WorkspaceSuspended
		}
	}
	return billing.WorkspaceActive
}

// deliver puts the events into the order in which they come: some are late, and some come twice.
func (l *life) deliver() []told {
	delivered := slices.Clone(l.events)
	for i := range delivered {
		if j := i + l.random.IntN(4); j < len(delivered) {
			delivered[i], delivered[j] = delivered[j], delivered[i]
		}
	}
	for _, e := range l.events {
		if l.random.IntN(6) == 0 {
			delivered = append(delivered, e)
		}
	}
	return delivered
}

// knows is what is known once some events have come.
type knows struct {
	closed map[string]bool // invoices that are not open any more
	// ended is set once the subscription has ended; status is that of the newest event, as of when.
	ended  bool
	status string
	as     time.Time
	// seen are the statuses that refunds and disputes were seen with, newest is when the last of each was.
	seen   map[string][]string
	newest map[string]time.Time
}

func (k *knows) learn(e told) {
	switch {
	case e.invoice != "":
		k.closed[e.invoice] = k.closed[e.invoice] || e.status != "open"
	case e.subscription != "":
		k.ended = k.ended || e.subscription == "canceled"
		if e.seenAt.After(k.as) {
			k.status, k.as = e.subscription, e.seenAt
		}
	case e.money != "":
		if e.seenAt.After(k.newest[e.money]) {
			k.newest[e.money], k.seen[e.money] = e.seenAt, append(k.seen[e.money], e.is)
		} else {
			k.seen[e.money] = append([]string{e.is}, k.seen[e.money]...)
		}
	}
}

// judgeNews looks at the news about a refund or a dispute that were told while no more was known than this, and at those
// before: each is told once, and what is told of a dispute is what it is by the newest that is known.
func (k *knows) judgeNews(before, now []string) (wrong []string) {
	for _, line := range now {
		kind, rest, _ := strings.Cut(line, " ")
		object, status, _ := strings.Cut(rest, " ")
		_, says, _ := strings.Cut(kind, ".")
		seen := k.seen[object]
		switch {
		case slices.ContainsFunc(before, func(earlier string) bool { return strings.HasPrefix(earlier, kind+" "+object+" ") }):
			wrong = append(wrong, line+" twice")
		case !slices.Contains(seen, says):
			wrong = append(wrong, line+" though it was not seen so")
		case strings.HasPrefix(kind, "dispute.") && seen[len(seen)-1] != status:
			wrong = append(wrong, line+" though it is "+seen[len(seen)-1])
		}
		before = append(slices.Clip(before), line)
	}
	return wrong
}

// judge looks at the notices that went out while no more was known than this, and at those before.
func (k *knows) judge(scope string, before, now []string) (wrong []string) {
	for _, key := range now {
		kind, rest, _ := strings.Cut(key, scope)
		object, number, _ := strings.Cut(rest, ":")
		switch {
		case slices.Contains(before, key):
			wrong = append(wrong, key+" twice")
		case (kind == "action-required-notice" || kind == "dunning-notice") && (k.closed[object] || k.ended):
			wrong = append(wrong, key+" though it is paid, or its subscription has ended")
		case kind == "trial-ending-notice" && (k.status != "trialing" || k.ended):
			wrong = append(wrong, key+" though the trial is over")
		case kind == "subscription-changed-notice" && k.ended:
			wrong = append(wrong, key+" though it has ended")
		case kind == "subscription-ended-notice" && !k.ended:
			wrong = append(wrong, key+" though it goes on")
		}
		for _, earlier := range before {
			old, older := strings.CutPrefix(earlier, kind+scope+object+":")
			n, _ := strconv.Atoi(strings.TrimPrefix(number, "v"))
			if o, _ := strconv.Atoi(strings.TrimPrefix(old, "v")); older && o > n {
				wrong = append(wrong, fmt.Sprintf("%s after %s", key, earlier))
			}
		}
	}
	return wrong
}

const noticesSQL = `
select key from effects where kind in ('action-required-notice', 'dunning-notice', 'trial-ending-notice', 'subscription-changed-notice', 'subscription-ended-notice')
   and state = 'done' and event_id like 'evt_' || $1 || '\_%' order by done_at`

const moneyNewsSQL = `
select concat_ws(' ', type, coalesce(data->>'refund', data->>'dispute'), data->>'status') from outbox
 where account = any($1) and (type like 'refund.%' or type like 'dispute.%') order by id`

// Lives of customers, told late, in disorder and twice, by us and by connected accounts that are mapped to accounts of
// ours: no notice goes out that is untrue by what is known, none older than one before it, no news in a wrong order, of an
// account, a refund or a dispute; what is paid, paid back and disputed is booked once, and what is paid receipted; the
// workspace is in the end what the account may use; and the rows are what the facts come to, also when all bodies are
// erased. PAWL_LIVES says how many, PAWL_SEED which.
func TestGeneratedLives_NoticesAndNewsInOrder(t *testing.T) {
	t.Parallel()
	number := func(env string, otherwise uint64) uint64 {
		said, given := os.LookupEnv(env)
		if !given {
			return otherwise
		}
		n, err := strconv.ParseUint(said, 10, 64)
		if err != nil {
			t.Fatalf("%s is %q: want a number", env, said)
		}
		return n
	}
	seed := number("PAWL_SEED", uint64(time.Now().UnixNano()))
	t.Logf("PAWL_SEED=%d, and the fixed seed 1", seed)
	var lives []*life
	for n := range number("PAWL_LIVES", 12) {
		of := seed + n/2
		if n%2 == 0 {
			of = 1 + n/2
		}
		lives = append(lives, newLife(t, rand.New(rand.NewPCG(of, 3)), fmt.Sprintf("life%d-%s", of, uuid.NewString()[:8])))
	}
	r := newRig(t, func(c *config.Config) {
		c.Policy.FullRefund, c.Policy.Dispute, c.Policy.DisputeLost = "end", "hold", "end"
		mapped := map[string]string{}
		for _, l := range lives {
			if l.connected != "" {
				mapped[l.connected] = l.account()
			}
		}
		mapAccounts(c, mapped)
	})
	queues, known, mails, news := map[*life][]told{}, map[*life]*knows{}, map[*life][]string{}, map[*life][]string{}
	for _, l := range lives {
		queues[l], known[l] = l.deliver(), &knows{closed: map[string]bool{}, seen: map[string][]string{}, newest: map[string]time.Time{}}
	}
	for more := true; more; {
		more = false
		var sent []string
		for _, l := range lives {
			if len(queues[l]) == 0 {
				continue
			}
			e := queues[l][0]
			queues[l], more = queues[l][1:], true
			known[l].learn(e)
			r.receive(e.Event)
			sent = append(sent, e.ID)
		}
		r.come("they have ended, or are parked", sent, receipt.Processed, receipt.NeedsReview)
		r.settled()
		for _, l := range lives {
			all, told := r.rows(noticesSQL, l.seed), r.rows(moneyNewsSQL, l.accounts())
			for _, wrong := range slices.Concat(known[l].judge(l.scope(), mails[l], all[len(mails[l]):]), known[l].judgeNews(news[l], told[len(news[l]):])) {
				t.Errorf("%s: %s\nwhat happened was %s", l.seed, wrong, l)
			}
			mails[l], news[l] = all, told
		}
	}
	r.footprint() // waits for the outbox
	for _, l := range lives {
		r.checkLife(l, mails[l])
	}
	r.exec(`delete from receipt_bodies`)
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild without bodies differs: %q", lines)
	}
}

// settled waits until the clock has done what is due.
func (r *rig) settled() {
	r.Helper()
	r.until("nothing is due", func() bool {
		return len(r.rows(`select d.object from due d join receipts r on r.id = d.receipt_id where d.at <= now() and r.status not in ('needs_review', 'dead')
			union all select event_id from receipts where status in ('processing', 'retrying')`)) == 0
	})
}

// checkLife looks at what was done outside in a life.
func (r *rig) checkLife(l *life, notices []string) {
	r.Helper()
	account := l.account()
	paid, moved, once := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, e := range l.events {
		if e.status == "paid" && e.due > 0 {
			paid[e.invoice] = true
		}
		switch {
		case e.is == "succeeded" || e.is == "failed":
			moved[e.money+" "+e.is], once["refund."+e.is+" "+e.money] = true, true
		case e.is != "" && e.is != "pending":
			once["dispute."+e.is+" "+e.money] = true
		}
		for _, m := range e.moved {
			moved[m] = true
		}
	}
	of := func(service string) (lines []entry) {
		for _, e := range r.journal(service) {
			if slices.Contains(l.accounts(), e.Account) && (e.First || service == "email") {
				lines = append(lines, e)
			}
		}
		return lines
	}
	if got := len(of("finance")); got != len(paid)+len(moved) {
		r.Errorf("%s: %d entries of %d paid invoices, and of %q\nwhat happened was %s", l.seed, got, len(paid), slices.Sorted(maps.Keys(moved)), l)
	}
	if got := len(of("email")); got != len(paid)+len(notices) {
		r.Errorf("%s: %d mails, want %d receipts and %q\nwhat happened was %s", l.seed, got, len(paid), notices, l)
	}
	types := map[string]string{}
	for _, line := range r.rows(`select event_id::text || ' ' || type from outbox where account = any($1)`, l.accounts()) {
		id, kind, _ := strings.Cut(line, " ")
		types[id] = kind
	}
	version, ended := 0.0, false
	for _, e := range of("events") {
		switch types[e.Key] {
		case "access.changed":
			v, _ := e.Body["version"].(float64)
			if v <= version {
				r.Errorf("%s: told version %v after %v", l.seed, v, version)
			}
			version = v
		case "subscription.ended":
			ended = true
		case "subscription.changed":
			if ended {
				r.Errorf("%s: told that the subscription has changed after it had ended", l.seed)
			}
		default:
			what := fmt.Sprintf("%s %v%v", types[e.Key], e.Body["refund"], e.Body["dispute"])
			delete(once, strings.ReplaceAll(what, "<nil>", ""))
		}
	}
	if len(once) > 0 {
		r.Errorf("%s: nobody was told of %q\nwhat happened was %s", l.seed, slices.Sorted(maps.Keys(once)), l)
	}
	workspace, state := of("workspaces"), "never there"
	if len(workspace) > 0 {
		state = fmt.Sprint(workspace[len(workspace)-1].Body["state"])
	}
	if state != l.wantState() && (state != "never there" || l.wantState() != billing.WorkspaceSuspended) {
		r.Errorf("%s: the workspace is %s, want %s\nwhat happened was %s", l.seed, state, l.wantState(), l)
	}
	if held := r.rows(`select target_version::text from accounts where id = $1`, account); !slices.Equal(held, []string{fmt.Sprint(version)}) {
		r.Errorf("%s: told last of version %v, and it is %v", l.seed, version, held)
	}
}

// rebuild folds all facts anew and says what differs.
func (r *rig) rebuild() (lines []string) {
	r.Helper()
	conn, err := pgx.ConnectConfig(r.Context(), r.Pool.Config().ConnConfig)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(r.Context())) }()
	found, err := billing.Check(r.Context(), conn, billing.Scope{}, process.BillingPolicy(r.Config), time.Now(), nil)
	if err != nil {
		r.Fatal(err)
	}
	for _, d := range found {
		lines = append(lines, fmt.Sprintf("%s: %v, folded %v", d, d.Is, d.Folded))
	}
	return lines
}

func (l *life) String() string {
	var said []string
	for _, e := range l.events {
		said = append(said, fmt.Sprintf("%s %s %s%s@%s", e.ID, e.Type, e.invoice+e.money, e.subscription+e.is, e.seenAt.Format("0102T150405")))
	}
	return strings.Join(said, "\n  ")
}
