package flowtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
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
	shown     map[string]any // the subscription as its last event has shown it
	// blind is set while events do not say what was before.
	blind         bool
	begun, period time.Time // when it began, and the end of its period
	bills         []*paidBill
	count         int // of all bills
}

// paidBill is an invoice that was paid, and what happened to the money.
type paidBill struct {
	seed    string
	invoice string
	at      time.Time
	free    bool
	// charged is set once the charge was told of; repaid is what stands as paid back of it.
	charged bool
	refund  string // its status, "" for none
	repaid  int64
	dispute string // its status, "" for none
}

// told is an event, and what a person who reads it knows from then on.
type told struct {
	forge.Event
	n               int    // counts the events of the life, in their order
	invoice, status string // of an invoice
	attempt         int
	subscription    string // the subscription's status, "" for an event about none
	plan            string
	cancels, blind  bool
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
		l.pass(time.Duration(1+random.IntN(45)) * time.Hour)
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
		switch random.IntN(11) {
		case 0, 1, 2:
			l.change()
		case 9:
			l.changes()
		case 10:
			l.circle()
		case 3, 4:
			l.bill(random.IntN(3), random.IntN(3) > 0, false)
		case 5:
			if random.IntN(2) == 0 {
				l.subscription("customer.subscription.deleted", "canceled")
				l.pass(time.Hour)
				l.repay() // money can move after the end
				return l
			}
		default:
			l.repay()
		}
	}
	switch random.IntN(3) {
	case 0:
		l.changesUntold()
	case 1:
		l.circle()
	}
	return l
}

// pass has time pass, or none: what belongs together often happens in one second.
func (l *life) pass(d time.Duration) {
	if l.random.IntN(4) > 0 {
		l.now = l.now.Add(d)
	}
}

// change is a change of the subscription's plan, or of whether it is to end.
func (l *life) change() {
	if l.random.IntN(3) == 0 {
		l.cancels = !l.cancels
	} else {
		l.plan = []string{"starter", "pro", "enterprise"}[l.random.IntN(3)]
	}
	l.subscription("customer.subscription.updated", l.status)
}

// changes are several of one second.
func (l *life) changes() {
	for range 2 + l.random.IntN(3) {
		l.change()
	}
}

// circle are several of one second that end where they began.
func (l *life) circle() {
	l.now = l.now.Add(time.Second)
	plan, cancels := l.plan, l.cancels
	l.changes()
	l.plan, l.cancels = plan, cancels
	l.subscription("customer.subscription.updated", l.status)
}

// changesUntold are several of one second that do not say what was before, so that nothing tells their order.
func (l *life) changesUntold() {
	l.now, l.blind = l.now.Add(time.Second), true
	l.changes()
	l.now, l.blind = l.now.Add(time.Second), false
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
		data := body["data"].(map[string]any)
		object := data["object"].(map[string]any)
		edit(object)
		if eventType == "customer.subscription.updated" {
			data["previous_attributes"] = differing(l.shown, object)
			if l.blind {
				delete(data, "previous_attributes")
			}
		}
		if of.subscription != "" {
			l.shown = object
		}
		if of.money != "" {
			of.money = object["id"].(string)
		}
		moved, _ := object["balance_transactions"].([]any)
		for _, m := range moved {
			of.moved = append(of.moved, m.(map[string]any)["id"].(string))
		}
	})
	of.seenAt, of.n = l.now, len(l.events)+1
	l.events = append(l.events, of)
}

// differing returns what of before is not so any more, as Stripe tells it.
func differing(before, now map[string]any) map[string]any {
	changed := map[string]any{}
	for name, was := range before {
		if !reflect.DeepEqual(was, now[name]) {
			changed[name] = was
		}
	}
	return changed
}

func (l *life) subscription(eventType, status string) {
	if l.status = status; l.period.IsZero() {
		l.begun, l.period = l.now, l.now.AddDate(0, 2, 0)
	}
	l.tell(told{subscription: status, plan: l.plan, cancels: l.cancels, blind: l.blind}, eventType, l.seed, func(object map[string]any) {
		object["status"], object["cancel_at_period_end"], object["trial_end"] = status, l.cancels, nil
		if !l.trial.IsZero() {
			object["trial_end"] = l.trial.Unix()
		}
		item := object["items"].(map[string]any)["data"].([]any)[0].(map[string]any)
		for _, of := range []map[string]any{object, item} {
			for name, at := range map[string]time.Time{"created": l.begun, "start_date": l.begun, "current_period_start": l.begun, "current_period_end": l.period} {
				if _, there := of[name]; there {
					of[name] = at.Unix()
				}
			}
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
		l.pass(time.Duration(1+l.random.IntN(3)) * time.Hour)
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
		l.bills = append(l.bills, &paidBill{seed: seed, invoice: l.events[len(l.events)-1].invoice, at: l.now, free: free})
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
		l.pass(time.Minute)
		l.money(b, "invoice_payment.paid", "")
	}
	l.pass(time.Duration(1+l.random.IntN(5)) * time.Hour)
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
			l.pass(time.Hour)
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
			l.pass(time.Second)
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

// left is the event that shows the subscription as it is known to be in the end. Where nothing tells the order of the last
// second's changes and nobody can be asked, that is the state that grants more.
func (l *life) left(keyed bool) (last told) {
	grants := func(e told) []int {
		ends := 1
		if e.cancels {
			ends = 0
		}
		return []int{slices.Index([]string{"trialing", "active"}, e.subscription), slices.Index([]string{"starter", "pro", "enterprise"}, e.plan), ends}
	}
	for _, e := range l.events {
		untold := e.blind && last.blind && e.seenAt.Equal(last.seenAt) && !keyed
		if e.subscription != "" && (!untold || slices.Compare(grants(e), grants(last)) > 0) {
			last = e
		}
	}
	return last
}

// wantState is what the workspace is to be in the end, by the model's rules and the policy of the rig.
func (l *life) wantState(keyed bool) string {
	newest := slices.MaxFunc(l.bills, func(a, b *paidBill) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.invoice, b.invoice)) })
	if l.status == "canceled" || l.left(keyed).cancels && l.period.Before(time.Now()) {
		return fold.WorkspaceSuspended
	}
	for _, b := range l.bills { // each is for a month from its own time on
		if !b.takenBack() && b.at.Add(28*aDay).After(newest.at) {
			return fold.WorkspaceActive
		}
	}
	return fold.WorkspaceSuspended
}

// takenBack reports whether the money of a bill was refunded in full, or is disputed or lost.
func (b *paidBill) takenBack() bool {
	return b.refund == "succeeded" && b.repaid == price || b.dispute != "" && b.dispute != "won"
}

// wantSubscription is what is known of the subscription in the end.
func (l *life) wantSubscription(keyed bool) string {
	last := l.left(keyed)
	want := last.subscription + " " + last.plan
	if last.cancels && last.subscription != "canceled" {
		want += " ends"
	}
	return want
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
	as     int
	// seen is what was told of refunds and disputes, each in its order.
	seen map[string][]told
}

// fetched is what is known since the provider was asked for the subscription, at a time after all that happened.
func (k *knows) fetched(status string) {
	k.ended, k.status, k.as = k.ended || status == "canceled", status, math.MaxInt
}

func (k *knows) learn(e told) {
	switch {
	case e.invoice != "":
		k.closed[e.invoice] = k.closed[e.invoice] || e.status != "open"
	case e.subscription != "":
		k.ended = k.ended || e.subscription == "canceled"
		if e.n > k.as {
			k.status, k.as = e.subscription, e.n
		}
	case e.money != "":
		k.seen[e.money] = append(k.seen[e.money], e)
		slices.SortFunc(k.seen[e.money], compareMoney)
	}
}

// compareMoney is the model's order of what is told of one object: by second, then by rank, then by event.
func compareMoney(a, b told) int {
	rank := func(e told) int {
		switch {
		case strings.HasSuffix(e.Type, ".created"):
			return 0
		case strings.HasSuffix(e.Type, ".closed"):
			return 2
		}
		return 1
	}
	return cmp.Or(a.seenAt.Compare(b.seenAt), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.ID, b.ID))
}

// judgeNews looks at the news about a refund or a dispute that were told while no more was known than this, and at those
// before: each is told once, and what is told of a dispute is what it is by the newest that is known.
func (k *knows) judgeNews(before, now []string) (wrong []string) {
	for _, line := range now {
		kind, rest, _ := strings.Cut(line, " ")
		object, status, _ := strings.Cut(rest, " ")
		_, says, _ := strings.Cut(kind, ".")
		var seen []string
		for _, e := range k.seen[object] {
			seen = append(seen, e.is)
		}
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
select key from effects where kind in ('action-required-notice', 'dunning-notice', 'trial-ending-notice', 'subscription-changed-notice', 'subscription-ended-notice',
   'access-ended-notice')
   and state = 'done' and event_id like 'evt_' || $1 || '\_%' order by done_at`

const moneyNewsSQL = `
select concat_ws(' ', type, coalesce(data->>'refund', data->>'dispute'), data->>'status') from outbox
 where account = any($1) and (type like 'refund.%' or type like 'dispute.%') order by id`

const fetchedSQL = `
select data->'Subscription'->>'Status' from facts where origin = 'fetched' and kind = 'subscription_seen' and event_id like 'fetched:evt_' || $1 || '\_%'`

const tiesSQL = `
select count(*)::text from (select from facts where kind = 'subscription_seen' and event_type = 'customer.subscription.updated' group by object, occurred_at having count(*) > 1) ties`

const subscriptionsSQL = `
select concat_ws(' ', status, plan, case when state ? 'PlannedEnd' then 'ends' end) from subscriptions where account = $1`

// Lives of customers, told late, in disorder and twice, by us and by connected accounts that are mapped to accounts of
// ours, with much that happens in one second; each is played with a provider that can be asked, and with none: no notice
// goes out that is untrue by what is known, none older than one before it, no news in a wrong order, of an account, a
// refund or a dispute; what is paid, paid back and disputed is booked once, and what is paid receipted; in the end the
// subscription is what the provider has, or what the model takes where nobody can be asked, and the workspace is what the
// account may use; and the rows are what the facts come to, also when all bodies are erased. PAWL_LIVES says how many, both
// ways together, and [schematest.Seed] which.
func TestGeneratedLives_NoticesAndNewsInOrder(t *testing.T) {
	t.Parallel()
	seed := schematest.Seed(t, 1001)
	for name, keyed := range map[string]bool{"the provider can be asked": true, "nobody can be asked": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lives []*life
			for n := range number(t, "PAWL_LIVES", schematest.OrLong[uint64](4, 12)) / 2 {
				of := seed + n/2
				if n%2 == 0 {
					of = 1 + n/2
				}
				lives = append(lives, newLife(t, rand.New(rand.NewPCG(of, 3)), fmt.Sprintf("life%d-%s", of, uuid.NewString()[:8])))
			}
			play(t, keyed, lives)
		})
	}
}

// play has lives told, an event of each at a time, and judges what comes of it.
func play(t *testing.T, keyed bool, lives []*life) {
	r := newRigWith(t, keyed, func(c *config.Config) {
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
		queues[l], known[l] = l.deliver(), &knows{closed: map[string]bool{}, seen: map[string][]told{}}
		for _, e := range l.events {
			r.tell(e.Event)
		}
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
			wrong := known[l].judge(l.scope(), mails[l], all[len(mails[l]):])
			if fetched := r.rows(fetchedSQL, l.seed); len(fetched) > 0 && known[l].as < math.MaxInt {
				// What went out meanwhile is true by what was known before, or since.
				known[l].fetched(fetched[0])
				since := known[l].judge(l.scope(), mails[l], all[len(mails[l]):])
				wrong = slices.DeleteFunc(wrong, func(w string) bool { return !slices.Contains(since, w) })
			}
			for _, wrong := range append(wrong, known[l].judgeNews(news[l], told[len(news[l]):])...) {
				t.Errorf("%s: %s\nwhat happened was %s", l.seed, wrong, l)
			}
			mails[l], news[l] = all, told
		}
	}
	r.footprint() // waits for the outbox
	for _, l := range lives {
		r.checkLife(l, keyed, mails[l])
	}
	t.Logf("seconds with two changes and more of a subscription: %v, asked for: %v", r.rows(tiesSQL), r.rows(`select count(*)::text from facts where origin = 'fetched' and kind = 'subscription_seen'`))
	r.exec(`delete from receipt_bodies`)
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild without bodies differs: %q", lines)
	}
}

// number is what the environment says, or something else where it says nothing.
func number(t *testing.T, env string, otherwise uint64) uint64 {
	t.Helper()
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

// settled waits until the clock has done what is due.
func (r *rig) settled() {
	r.Helper()
	r.until("nothing is due", func() bool {
		return len(r.rows(`select d.object from due d join receipts r on r.id = d.receipt_id where d.at <= now() and r.status not in ('needs_review', 'dead')
			union all select event_id from receipts where status in ('processing', 'retrying')`)) == 0
	})
}

// checkLife looks at what was done outside in a life.
func (r *rig) checkLife(l *life, keyed bool, notices []string) {
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
	if state != l.wantState(keyed) && (state != "never there" || l.wantState(keyed) != fold.WorkspaceSuspended) {
		r.Errorf("%s: the workspace is %s, want %s\nwhat happened was %s", l.seed, state, l.wantState(keyed), l)
	}
	if got := r.rows(subscriptionsSQL, account); !slices.Equal(got, []string{l.wantSubscription(keyed)}) {
		r.Errorf("%s: the subscription is %q, want %q\nwhat happened was %s", l.seed, got, l.wantSubscription(keyed), l)
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
	found, err := billing.Check(r.Context(), conn, billing.Scope{}, process.BillingPolicy(r.Config), time.Time{}, nil)
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
