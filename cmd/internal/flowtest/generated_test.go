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
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A life is the random history of one customer over the last weeks, as a list of the provider's events.
type life struct {
	*testing.T
	random *rand.Rand
	seed   string
	// connected is the connected account of the customer, or "" for the provider's own account.
	connected string
	customer  string // the ID at the provider
	now       time.Time
	events    []told
	plan      string
	trial     time.Time
	cancels   bool
	status    string
	shown     map[string]any // the subscription as the last event shows it
	// blind is set while the events omit previous_attributes.
	blind         bool
	begun, period time.Time // the start of the subscription, and the end of its current period
	bills         []*paidBill
	count         int // the number of bills
}

// paidBill is a paid invoice with its refund and its dispute, if any.
type paidBill struct {
	seed    string
	invoice string
	at      time.Time
	free    bool
	// charged is set once an event about the charge exists. repaid is the refunded amount in the last event.
	charged bool
	refund  string // its status, or ""
	repaid  int64
	dispute string // its status, or ""
}

// told is an event with the facts that pawl must derive from it.
type told struct {
	forge.Event
	n               int    // the position in the life
	invoice, status string // the invoice of the event, with its status
	attempt         int
	subscription    string // the status of the subscription, or "" for an event about another object
	plan            string
	cancels, blind  bool
	money, is       string // the refund or dispute of the event, with its status
	seenAt          time.Time
	due             int64
	moved           []string // the balance transactions of a dispute
}

// price is the amount of each invoice.
const price = 4900

// account returns our account ID.
func (l *life) account() string { return "acct-" + l.seed }

// accounts returns the accounts that can own entries and events. A payment belongs to its customer's account until
// its invoice is known.
func (l *life) accounts() []string { return []string{l.account(), l.customer} }

// scope returns the part of an effect's key after the kind.
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
				l.repay() // money can move after the end of the subscription
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

// pass advances the time by d, or sometimes not at all, because related events often happen in the same second.
func (l *life) pass(d time.Duration) {
	if l.random.IntN(4) > 0 {
		l.now = l.now.Add(d)
	}
}

// change changes the plan, or schedules or revokes the end of the subscription.
func (l *life) change() {
	if l.random.IntN(3) == 0 {
		l.cancels = !l.cancels
	} else {
		l.plan = []string{"starter", "pro", "enterprise"}[l.random.IntN(3)]
	}
	l.subscription("customer.subscription.updated", l.status)
}

// changes makes several changes within one second.
func (l *life) changes() {
	for range 2 + l.random.IntN(3) {
		l.change()
	}
}

// circle makes several changes within one second that restore the first state.
func (l *life) circle() {
	l.now = l.now.Add(time.Second)
	plan, cancels := l.plan, l.cancels
	l.changes()
	l.plan, l.cancels = plan, cancels
	l.subscription("customer.subscription.updated", l.status)
}

// changesUntold makes several changes within one second and omits previous_attributes, so that pawl cannot determine
// their order.
func (l *life) changesUntold() {
	l.now, l.blind = l.now.Add(time.Second), true
	l.changes()
	l.now, l.blind = l.now.Add(time.Second), false
}

func (l *life) tell(of told, eventType, seed string, edit func(object map[string]any)) {
	l.Helper()
	account := l.account()
	if l.connected != "" {
		account = "stranger-" + l.seed // pawl ignores the account in the metadata of a connected account
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

// differing returns the previous values of the fields that have changed, as in Stripe's previous_attributes.
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

// bill issues an invoice. The invoice is paid after some failed attempts, or stays open.
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

// repay refunds a paid bill in full or in part, or opens a dispute. A refund may fail later; a dispute is won or
// lost.
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

// money adds an event about a charge, or about a refund or a dispute with its status.
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

// left returns the event that shows the final known state of the subscription. If the order of the last second's
// changes is unknown and the API cannot be queried, the final known state is the state that grants more.
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

// wantState returns the expected final state of the workspace by the rules of the model and the policy of the rig.
func (l *life) wantState(keyed bool) string {
	newest := slices.MaxFunc(l.bills, func(a, b *paidBill) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.invoice, b.invoice)) })
	if l.status == "canceled" || l.left(keyed).cancels && l.period.Before(time.Now()) {
		return fold.WorkspaceSuspended
	}
	for _, b := range l.bills { // each bill pays for a month from its own time on
		if !b.takenBack() && b.at.Add(28*aDay).After(newest.at) {
			return fold.WorkspaceActive
		}
	}
	return fold.WorkspaceSuspended
}

// takenBack reports whether the bill was refunded in full, or has an open or lost dispute.
func (b *paidBill) takenBack() bool {
	return b.refund == "succeeded" && b.repaid == price || b.dispute != "" && b.dispute != "won"
}

// wantSubscription returns the expected final state of the subscription.
func (l *life) wantSubscription(keyed bool) string {
	last := l.left(keyed)
	want := last.subscription + " " + last.plan
	if last.cancels && last.subscription != "canceled" {
		want += " ends"
	}
	return want
}

// deliver returns the events in the order of delivery: some are late, and some are duplicates.
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

// knows is the state that the events received so far imply.
type knows struct {
	closed map[string]bool // the invoices that are closed
	// ended is set once the subscription has ended. status is the status in the newest event, and as is the time of
	// that event.
	ended  bool
	status string
	as     int
	// seen lists the events of each refund and dispute in their order.
	seen map[string][]told
}

// fetched adds the subscription state that pawl fetched from the API after all events.
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

// compareMoney orders the events about one object by second, rank and event ID, as the billing model does.
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

// judgeNews checks the published events about refunds and disputes against the known state: each event is published
// once, and the events about a dispute match its newest known status.
func (k *knows) judgeNews(before, now []string) (wrong []string) {
	for _, line := range now {
		kind, rest, _ := strings.Cut(line, " ")
		object, status, _ := strings.Cut(rest, " ")
		says := kind[strings.LastIndexByte(kind, '.')+1:]
		var seen []string
		for _, e := range k.seen[object] {
			seen = append(seen, e.is)
		}
		switch {
		case slices.ContainsFunc(before, func(earlier string) bool { return strings.HasPrefix(earlier, kind+" "+object+" ") }):
			wrong = append(wrong, line+" twice")
		case !slices.Contains(seen, says):
			wrong = append(wrong, line+" though it was not seen so")
		case strings.HasPrefix(kind, "billing.dispute.") && seen[len(seen)-1] != status:
			wrong = append(wrong, line+" though it is "+seen[len(seen)-1])
		}
		before = append(slices.Clip(before), line)
	}
	return wrong
}

// judge checks the notices that were sent since the last check against the known state.
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
 where account = any($1) and (type like 'billing.refund.%' or type like 'billing.dispute.%') order by id`

const fetchedSQL = `
select data->'Subscription'->>'Status' from facts where origin = 'fetched' and kind = 'subscription_seen' and event_id like 'fetched:evt_' || $1 || '\_%'`

const tiesSQL = `
select count(*)::text from (select from facts where kind = 'subscription_seen' and event_type = 'customer.subscription.updated' group by object, occurred_at having count(*) > 1) ties`

const subscriptionsSQL = `
select concat_ws(' ', status, plan, case when state ? 'PlannedEnd' then 'ends' end) from subscriptions where account = $1`

// Random histories of customers are delivered late, out of order and twice, from the own Stripe account and from
// mapped connected accounts, with many events in one second. The test runs each history with and without access to
// the provider's API. The test checks that no notice contradicts the known state or is older than an earlier notice,
// that published events are in order, that money is booked once, that each payment has one receipt, that the final
// subscription matches the provider (or the model if there is no API key), that the workspace matches the access, and
// that a rebuild from the facts changes nothing, even after all payloads are erased. PAWL_LIVES is the number of
// customers, and [schematest.Seed] selects their histories.
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

// play delivers the events of all customers one by one and checks the results.
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
				// A notice may reflect the state before or after the fetch.
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
	r.footprint() // the counts are final only after the outbox is empty
	for _, l := range lives {
		r.checkLife(l, keyed, mails[l])
	}
	t.Logf("seconds with two changes and more of a subscription: %v, asked for: %v", r.rows(tiesSQL), r.rows(`select count(*)::text from facts where origin = 'fetched' and kind = 'subscription_seen'`))
	r.exec(`delete from receipt_bodies`)
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild without bodies differs: %q", lines)
	}
}

// number returns the environment variable as a number, or the default if the variable is not set.
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

// settled waits until all due scheduled actions have run.
func (r *rig) settled() {
	r.Helper()
	r.until("nothing is due", func() bool {
		return len(r.rows(`select d.object from due d join receipts r on r.id = d.receipt_id where d.at <= now() and r.status not in ('needs_review', 'dead')
			union all select event_id from receipts where status in ('processing', 'retrying')`)) == 0
	})
}

// checkLife checks the effects of one customer's events at the external systems.
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
			moved[e.money+" "+e.is], once["billing.refund."+e.is+" "+e.money] = true, true
		case e.is != "" && e.is != "pending":
			once["billing.dispute."+e.is+" "+e.money] = true
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
				r.Errorf("%s: published version %v after %v", l.seed, v, version)
			}
			version = v
		case "billing.subscription.ended":
			ended = true
		case "billing.subscription.changed":
			if ended {
				r.Errorf("%s: published a change of the subscription after its end", l.seed)
			}
		default:
			what := fmt.Sprintf("%s %v%v", types[e.Key], e.Body["refund"], e.Body["dispute"])
			delete(once, strings.ReplaceAll(what, "<nil>", ""))
		}
	}
	if len(once) > 0 {
		r.Errorf("%s: not published: %q\nthe history was %s", l.seed, slices.Sorted(maps.Keys(once)), l)
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
		r.Errorf("%s: published version %v last, want %v", l.seed, version, held)
	}
}

// rebuild recomputes the state from all facts and returns the differences from the stored rows.
func (r *rig) rebuild() (lines []string) {
	r.Helper()
	conn, err := pgx.ConnectConfig(r.Context(), r.Pool.Config().ConnConfig)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(r.Context())) }()
	found, err := rebuild.Check(r.Context(), conn, rebuild.Request{Rules: process.BillingPolicy(r.Config)}, nil)
	if err != nil {
		r.Fatal(err)
	}
	for _, d := range found.Rows {
		lines = append(lines, fmt.Sprintf("%s: %v, folded %v", d, d.Stored, d.Computed))
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
