package billing_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A tale is a generated history of some accounts: subscriptions with their invoices, one-time purchases, refunds,
// disputes, credits and fraud warnings, and holds by people. The expected state is derived from the history with the
// rules of the billing model, without the code of package fold.
type tale struct {
	*history
	policy   fact.Policy
	payments []*payment
	orders   []*order
	// holds are the holds by people, by subscription or account, in their order.
	holds map[string][]hold
	news  []string // events that are published once, except the events of invoices and subscriptions
}

type hold struct {
	second int
	held   bool
}

// payment is the payment of an invoice or of a one-time purchase.
type payment struct {
	id      string
	invoice *billed
	order   *order
	refunds []*repaid

	dispute   string // the ID of the refund, or ""
	statuses  []string
	since     int // the second in which the current stage of the dispute began
	movements []fact.Movement

	credit, warning    string // the IDs, or ""
	voided, actionable bool
}

type repaid struct {
	id, status string
	amount     int64
	succeeded  bool
}

// order is a one-time purchase, by an invoice without a subscription or in a checkout session.
type order struct {
	id, account, plan string
	session, paid     bool
	second            int
	payment           *payment
}

const orderLasts = 60 * day

func newTale(seed uint64, steps int) *tale {
	w := &tale{history: &history{random: rand.New(rand.NewPCG(seed, 7)), links: map[string]string{}, sessions: map[string]string{}}, policy: policy, holds: map[string][]hold{}}
	w.policy.EndOnFullRefund, w.policy.HoldOnDispute, w.policy.EndOnLostDispute = seed%2 == 0, seed%3 == 0, seed%5 < 2
	w.billed = w.charge
	for range steps {
		w.second += pick(w.random, 0, 0, 0, 1, 5, 24*hour, 9*24*hour)
		switch w.random.IntN(8) {
		case 0, 1, 2:
			w.history.step()
		case 3:
			w.buy()
		case 4:
			w.decide()
		default:
			w.repay()
		}
	}
	w.second += pick(w.random, 1, 30*24*hour)
	return w
}

// charge adds the facts about the payment of an invoice: a charge that names the invoice, or an object that connects
// the two.
func (w *tale) charge(b *billed) {
	if b.status != "paid" {
		return
	}
	p := &payment{id: "ch_" + b.id, invoice: b}
	w.payments = append(w.payments, p)
	w.tellCharge(p, 0, w.random.IntN(2) == 0)
}

// tellCharge adds a fact with the refunded amount of a charge. If the charge does not name its invoice, another fact
// connects the two.
func (w *tale) tellCharge(p *payment, refunded int64, tied bool) {
	f := charge(w.second, refunded)
	f.Object, f.Payment.Charge, f.Payment.Amount, f.Payment.Invoice = p.id, p.id, 1000, ""
	if id := p.paidInvoice(); id != "" {
		if f.Customer = p.customer(); !tied {
			f.Payment.Invoice = id
		} else {
			link := tie(w.second, id)
			link.Object = p.id
			w.tell(link)
		}
	}
	w.tell(f)
}

// paidInvoice returns the ID of the paid invoice, or "" for a session.
func (p *payment) paidInvoice() string {
	switch {
	case p.invoice != nil:
		return p.invoice.id
	case !p.order.session:
		return p.order.id
	}
	return ""
}

func (p *payment) customer() string {
	if p.invoice != nil {
		return p.invoice.of.customer
	}
	return "cus_1"
}

// buy adds a one-time purchase. A session may be paid later, or not at all.
func (w *tale) buy() {
	for _, o := range w.orders {
		if o.session && !o.paid && w.random.IntN(2) == 0 {
			w.second++
			w.pay(o)
			return
		}
	}
	w.second++ // the order of two sessions in the same second is undefined
	n := len(w.orders) + 1
	o := &order{account: pick(w.random, "acme", "umbrella"), plan: pick(w.random, policy.Order...), second: w.second, session: w.random.IntN(2) == 0}
	o.payment = &payment{id: fmt.Sprint("ch_o", n), order: o}
	w.orders = append(w.orders, o)
	if o.session {
		o.id = fmt.Sprint("cs_", n)
		w.sessions["cus_1"] = cmp.Or(w.sessions["cus_1"], o.account)
		w.tell(w.session(o, "unpaid"))
		if w.random.IntN(2) == 0 {
			w.pay(o)
		}
		return
	}
	o.id, o.paid = fmt.Sprint("in_o", n), true
	w.tell(paid(1, w.second, o.plan, oneOff(orderLasts), of(o.id, o.account, "cus_1")))
	w.payments = append(w.payments, o.payment)
	w.tellCharge(o.payment, 0, w.random.IntN(2) == 0)
	w.news = append(w.news, "billing.invoice.paid "+o.id)
}

func (w *tale) session(o *order, status string) fact.Fact {
	return sale(w.second, "complete", status, func(f *fact.Fact) {
		f.Object, f.Checkout.Account, f.Checkout.PaymentIntent = o.id, o.account, o.payment.id
		f.Checkout.Lines = []fact.Line{{Price: once(o.plan, orderLasts), Quantity: 1, Amount: 1000}}
	})
}

func (w *tale) pay(o *order) {
	o.paid, o.second = true, w.second
	w.tell(w.session(o, "paid"))
	w.payments = append(w.payments, o.payment)
	w.tellCharge(o.payment, 0, false)
	w.news = append(w.news, "billing.checkout.completed "+o.id)
}

// decide adds or ends a person's hold on a subscription or an account.
func (w *tale) decide() {
	w.second++ // the order of two decisions in the same second is undefined
	defer func() { w.second++ }()
	held := w.random.IntN(3) == 0
	kind := map[bool]fact.Kind{true: fact.Held, false: fact.Released}[held]
	if len(w.subscriptions) > 0 && w.random.IntN(2) == 0 {
		s := pick(w.random, w.subscriptions...)
		f := decided(kind, s.id, w.second, "", 0)
		f.Customer = s.customer
		w.tell(f)
		w.holds[s.id] = append(w.holds[s.id], hold{w.second, held})
		return
	}
	account := pick(w.random, "acme", "umbrella")
	w.tell(onAccount(kind, account, w.second))
	w.holds[account] = append(w.holds[account], hold{w.second, held})
}

// repay adds a later change of a payment: a refund, a dispute or a credit. The order of several changes of one object
// within one second is undefined.
func (w *tale) repay() {
	if len(w.payments) == 0 {
		w.history.step()
		return
	}
	p := pick(w.random, w.payments...)
	w.second++
	defer func() { w.second++ }()
	switch w.random.IntN(9) {
	case 0, 1, 2:
		w.refund(p)
	case 3:
		if len(p.refunds) > 0 {
			r := pick(w.random, p.refunds...)
			w.tellRefund(p, r, "failed")
		}
	case 4: // the charge contains only the sum of its refunds
		w.tellCharge(p, p.refunded(), false)
	case 5, 6:
		w.dispute(p)
	case 7:
		w.suspect(p)
	default:
		w.credit(p)
	}
}

func (w *tale) refund(p *payment) {
	left := 1000 - p.refunded()
	if left <= 0 {
		return
	}
	r := &repaid{id: fmt.Sprintf("re_%s_%d", p.id, len(p.refunds)), amount: pick(w.random, left, (left+1)/2)}
	p.refunds = append(p.refunds, r)
	w.tellRefund(p, r, pick(w.random, "pending", "succeeded"))
	if w.random.IntN(4) > 0 {
		w.second++
		w.tellRefund(p, r, "succeeded")
	}
}

func (w *tale) tellRefund(p *payment, r *repaid, status string) {
	f := refunded(r.id, w.second, status, r.amount)
	f.Refund.Charge = p.id
	w.tell(f)
	switch { // a successful refund can still fail, but a failed refund cannot succeed
	case r.status == "failed":
	case status == "failed":
		r.status = status
		w.news = append(w.news, "billing.refund.failed "+r.id)
	default:
		r.status = status
	}
	if status == "succeeded" && !r.succeeded {
		r.succeeded = true
		w.news = append(w.news, "billing.refund.succeeded "+r.id)
	}
}

// refunded returns the refunded amount of a payment.
func (p *payment) refunded() (sum int64) {
	for _, r := range p.refunds {
		if r.status == "succeeded" {
			sum += r.amount
		}
	}
	return sum
}

func (w *tale) dispute(p *payment) {
	status := pick(w.random, "needs_response", "under_review", "won", "lost")
	if p.dispute == "" {
		p.dispute, status = "dp_"+p.id, pick(w.random, "needs_response", "warning_needs_response")
	}
	if n := len(p.statuses); n == 0 || stageOf(p.statuses[n-1]) != stageOf(status) {
		p.since = w.second
	}
	if !strings.HasPrefix(status, "warning") {
		p.movements = append(p.movements, fact.Movement{ID: fmt.Sprintf("txn_%s_%02d", p.id, len(p.movements)), Amount: -1, Currency: "usd"})
	}
	if !slices.Contains(p.statuses, status) {
		w.news = append(w.news, "billing.dispute."+status+" "+p.dispute)
	}
	p.statuses = append(p.statuses, status)
	f := disputed(w.second, fact.RankChange, status, slices.Clone(p.movements)...)
	f.Object, f.Dispute.Charge = p.dispute, p.id
	w.tell(f)
}

// stageOf returns the part of a dispute's status that affects access.
func stageOf(status string) string {
	return map[string]string{"needs_response": "open", "under_review": "open", "won": "won", "lost": "lost"}[status]
}

func (w *tale) suspect(p *payment) {
	p.actionable = p.warning == ""
	p.warning = "issfr_" + p.id
	f := warned(w.second, p.actionable)
	f.Object, f.Warning.Charge = p.warning, p.id
	w.tell(f)
}

func (w *tale) credit(p *payment) {
	if p.paidInvoice() == "" {
		return
	}
	p.voided = p.credit != ""
	p.credit = "cn_" + p.id
	f := credited(w.second, map[bool]string{true: "void", false: "issued"}[p.voided])
	f.Object, f.Credit.Invoice, f.Customer = p.credit, p.paidInvoice(), p.customer()
	w.tell(f)
}

// The methods below derive the expected state.

// accountOf returns the account of the payment.
func (w *tale) accountOf(p *payment) string {
	if p.order != nil {
		return p.order.account
	}
	return w.account(p.invoice.of)
}

// disputeHolds reports whether the dispute about a payment puts the purchase on hold, and since when.
func (w *tale) disputeHolds(p *payment) (since int, holds bool) {
	if p.dispute == "" {
		return 0, false
	}
	stage := stageOf(p.statuses[len(p.statuses)-1])
	return p.since, w.policy.HoldOnDispute && stage == "open" || w.policy.EndOnLostDispute && stage == "lost"
}

// isHeld reports whether an object is on hold, according to the last decision of a person or the last dispute about
// its payments.
func (w *tale) isHeld(object string, payments ...*payment) (held bool) {
	last := -1
	for _, h := range w.holds[object] {
		if h.second >= last {
			last, held = h.second, h.held
		}
	}
	for _, p := range payments {
		if since, holds := w.disputeHolds(p); holds && since > last {
			held = true
		}
	}
	return held
}

func (w *tale) paymentsOf(s *happened) (list []*payment) {
	for _, p := range w.payments {
		if p.invoice != nil && p.invoice.of == s {
			list = append(list, p)
		}
	}
	return list
}

// payersOf returns the payments for a subscription, ordered by period.
func (w *tale) payersOf(s *happened) []*payment {
	payers := slices.DeleteFunc(w.paymentsOf(s), func(p *payment) bool {
		// this payment is for a price that the subscription does not have
		return p.invoice.plan == "" && planOf(&s.is) != ""
	})
	slices.SortFunc(payers, func(a, b *payment) int {
		return cmp.Or(a.invoice.period.Compare(b.invoice.period), a.invoice.at.Compare(b.invoice.at), cmp.Compare(a.invoice.id, b.invoice.id))
	})
	return payers
}

// isTaken reports whether a payment for a subscription no longer counts: it was fully refunded, or a dispute put it
// on hold and no person has released it since.
func (w *tale) isTaken(s *happened, p *payment) bool {
	since, holds := w.disputeHolds(p)
	for _, h := range w.holds[s.id] {
		holds = holds && (h.held || h.second < since)
	}
	return holds || w.policy.EndOnFullRefund && p.refunded() >= 1000
}

// given returns the plan that a subscription grants, and false if it grants nothing. The plan is the ordered plan, or
// the plan of an earlier payment if the later payments no longer count.
func (w *tale) given(s *happened) (plan string, seats int64, gives bool) {
	plan, seats = priced(s.known.Price), s.known.Quantity
	payers := w.payersOf(s)
	if w.isHeld(s.id) {
		return "", 0, false
	}
	if len(payers) == 0 || !w.isTaken(s, payers[len(payers)-1]) {
		return plan, seats, true
	}
	for _, p := range slices.Backward(payers) {
		if w.isTaken(s, p) {
			continue
		}
		if !p.invoice.period.Equal(payers[len(payers)-1].invoice.period) {
			break
		}
		paid := p.invoice.plan
		if less := slices.Index(policy.Order, plan) - slices.Index(policy.Order, paid); paid != "" && (less > 0 || less == 0 && seats > 1) {
			plan, seats = paid, 1
		}
		return plan, seats, true
	}
	return "", 0, false
}

// keepsBack reports whether a subscription grants nothing, whatever its status is.
func (w *tale) keepsBack(s *happened) bool {
	_, _, gives := w.given(s)
	return !gives
}

func (w *tale) orderGrants(o *order) bool {
	return o.paid && o.payment.refunded() < 1000 && !w.isHeld(o.id, o.payment)
}

func (o *order) ends() time.Time { return at(o.second).Add(orderLasts) }

// wantRows returns the expected rows in the format of [moneyRows].
func (w *tale) wantRows() []string {
	var want []string
	accounts := map[string]bool{}
	for _, s := range w.subscriptions {
		accounts[w.account(s)] = true
		want = append(want, words(s.id+":", w.account(s), s.is.Status, priced(s.known.Price)))
		asks := words("task unknown_price", w.account(s)+":price_new:", w.account(s), "open")
		if s.unknown && planOf(&s.is) == "" && s.is.EndedAt.IsZero() && !slices.Contains(want, asks) {
			want = append(want, asks)
		}
	}
	for _, b := range w.invoices {
		accounts[w.account(b.of)] = true
		want = append(want, words(b.id+":", w.account(b.of), b.status, fmt.Sprint(b.paid)))
		if b.stuck {
			want = append(want, words("task finalization_failed", b.id+":", map[bool]string{true: "open", false: "cancelled"}[b.status == "draft"]))
		}
	}
	for _, o := range w.orders {
		if accounts[o.account] = accounts[o.account] || o.paid; o.session {
			want = append(want, words(o.id+":", o.account, "complete", map[bool]string{true: "paid", false: "unpaid"}[o.paid], "1000"))
			if !o.paid { // the session contains its payment
				want = append(want, words(o.payment.id+":", o.account, "0 refunded 0"))
			}
		} else {
			want = append(want, words(o.id+":", o.account, "paid 1000"))
		}
	}
	for _, p := range w.payments {
		want = append(want, w.wantPayment(p)...)
	}
	for account, has := range accounts {
		if !has {
			continue
		}
		want = append(want, w.wantAccess(account))
	}
	slices.Sort(want)
	return want
}

func (w *tale) wantPayment(p *payment) (want []string) {
	account, owner := w.accountOf(p), words(w.accountOf(p), p.paidInvoice())
	if p.invoice != nil {
		owner += " " + p.invoice.of.id
	}
	want = append(want, words(p.id+":", owner, "succeeded 1000 refunded", fmt.Sprint(p.refunded())))
	for _, r := range p.refunds {
		want = append(want, words(r.id+":", owner, r.status, fmt.Sprint(r.amount)))
	}
	if p.dispute != "" {
		status := p.statuses[len(p.statuses)-1]
		var moved []string
		for _, m := range p.movements {
			moved = append(moved, m.ID)
		}
		want = append(want, words(p.dispute+":", owner, status, "100", strings.Join(moved, ",")))
		isInquiry := func(s string) bool { return strings.HasPrefix(s, "warning_") }
		isDispute := func(s string) bool { return !isInquiry(s) }
		open := map[bool]string{true: "open", false: "cancelled"}
		if slices.ContainsFunc(p.statuses, isInquiry) {
			want = append(want, words("task inquiry", p.dispute+":", account, open[status == "warning_needs_response"]))
		}
		if slices.ContainsFunc(p.statuses, isDispute) {
			want = append(want, words("task dispute", p.dispute+":", account, open[status == "needs_response"]))
		}
	}
	if p.warning != "" {
		// At Stripe, a warning is actionable while the payment is neither disputed nor fully refunded.
		disputed := slices.ContainsFunc(p.statuses, func(s string) bool { return !strings.HasPrefix(s, "warning_") })
		open := p.actionable && !disputed && p.refunded() < 1000
		want = append(want, words("task fraud_warning", p.warning+":", account, map[bool]string{true: "open", false: "cancelled"}[open]))
	}
	if p.credit != "" {
		want = append(want, words(p.credit+":", account, p.paidInvoice(), map[bool]string{true: "void", false: "issued"}[p.voided], "300"))
	}
	return want
}

func (w *tale) wantAccess(account string) string {
	highest, seats := -1, int64(0)
	give := func(plan string, quantity int64) {
		switch rank := slices.Index(policy.Order, plan); {
		case rank > highest:
			highest, seats = rank, quantity
		case rank == highest:
			seats += quantity
		}
	}
	now := at(w.second)
	for _, s := range w.subscriptions {
		if w.account(s) == account && s.grants(now) && !w.keepsBack(s) {
			plan, quantity, _ := w.given(s)
			give(plan, quantity)
		}
	}
	for _, o := range w.orders {
		if o.account == account && w.orderGrants(o) && o.ends().After(now) {
			give(o.plan, 1)
		}
	}
	if highest < 0 || w.isHeld(account) {
		return account + ": suspended"
	}
	return words(account+":", "active", policy.Order[highest], fmt.Sprint(seats))
}

// wantDue returns the expected scheduled actions in the format of [dueRows].
func (w *tale) wantDue() []string {
	due := slices.DeleteFunc(w.history.wantDue(), func(line string) bool {
		return slices.ContainsFunc(w.subscriptions, func(s *happened) bool {
			return w.keepsBack(s) && (strings.HasPrefix(line, "end "+s.id+" ") || strings.HasPrefix(line, "grace "+s.id+" "))
		})
	})
	for _, o := range w.orders {
		if w.orderGrants(o) && o.ends().After(at(w.second)) {
			due = append(due, fmt.Sprintf("one_off %s at %s", o.id, o.ends().Sub(begin)))
		}
	}
	slices.Sort(due)
	return due
}

// wantNews returns the events that are published once per object, in any order.
func (w *tale) wantNews() []string {
	want := slices.Clone(w.news)
	for _, b := range w.invoices {
		switch b.status {
		case "paid":
			want = append(want, "billing.invoice.paid "+b.id)
		case "void", "uncollectible":
			want = append(want, "billing.invoice.closed "+b.id)
		}
		for _, attempt := range b.failures {
			want = append(want, fmt.Sprintf("billing.payment.failed %s %d", b.id, attempt))
		}
	}
	for _, s := range w.subscriptions {
		if !s.is.EndedAt.IsZero() && s.granted {
			want = append(want, "billing.subscription.ended "+s.id)
		}
	}
	slices.Sort(want)
	return want
}

// announced returns the published events in order. It omits events about tasks: a task that is open for a while in
// one order of delivery may never open in another order.
type announced struct {
	Type, Account, Object, Attempt, Plan, State, Quantity string
	Version                                               int64
}

const announcedSQL = `
select type, account, coalesce(data->>'refund', data->>'dispute', data->>'checkout', case when type like 'billing.subscription.%' then data->>'subscription' else data->>'invoice' end, ''),
       coalesce(data->>'attempt', ''), coalesce(data->>'plan', ''), coalesce(data->>'state', ''), coalesce(data->>'quantity', '0'), coalesce((data->>'version')::bigint, 0)
  from outbox where type not like 'task.%' order by id`

// checkOrder checks the order of the published events. The versions of an account's target increase, and the last one
// is the current target. No event about a subscription follows its end. If it has not ended, its last event contains
// the granted plan.
func (w *tale) checkOrder(list []announced) (wrong []string) {
	version, last, ended := map[string]int64{}, map[string]string{}, map[string]bool{}
	for _, n := range list {
		switch n.Type {
		case "access.changed":
			if n.Version <= version[n.Account] {
				wrong = append(wrong, fmt.Sprintf("told version %d of %s after %d", n.Version, n.Account, version[n.Account]))
			}
			version[n.Account] = n.Version
			last[n.Account] = words(n.Account+":", n.State, n.Plan, when(n.Plan != "", n.Quantity))
		case "billing.subscription.changed":
			if ended[n.Object] {
				wrong = append(wrong, "told that "+n.Object+" has changed after it had ended")
			}
			last[n.Object] = words(n.Plan, n.Quantity)
		case "billing.subscription.ended":
			ended[n.Object] = true
		}
	}
	for _, s := range w.subscriptions {
		plan, seats, gives := w.given(s)
		if !gives {
			plan, seats = priced(s.known.Price), s.known.Quantity
		}
		if is := words(plan, fmt.Sprint(seats)); s.is.EndedAt.IsZero() && last[s.id] != is {
			wrong = append(wrong, fmt.Sprintf("told last that %s is %q, and it is %q", s.id, last[s.id], is))
		}
	}
	for account := range version {
		if is := w.wantAccess(account); last[account] != is {
			wrong = append(wrong, fmt.Sprintf("told last %q, and it is %q", last[account], is))
		}
	}
	return wrong
}

// onceOnly returns the events that are published once.
func onceOnly(list []announced) []string {
	var once []string
	for _, n := range list {
		if n.Type != "access.changed" && n.Type != "billing.subscription.changed" {
			once = append(once, words(n.Type, n.Object, n.Attempt))
		}
	}
	slices.Sort(once)
	return once
}

// late returns the facts in order, except that some facts were lost and arrive at the end.
func (w *tale) late() []fact.Fact {
	var inTime, lost []fact.Fact
	for _, f := range w.facts {
		if w.random.IntN(4) == 0 {
			lost = append(lost, f)
		} else {
			inTime = append(inTime, f)
		}
	}
	return append(inTime, lost...)
}

// differs delivers the history of a seed in several orders, and returns the differences from the expected state and
// events, or "".
func (w *tale) differs(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	for name, delivered := range map[string][]fact.Fact{"in order": w.facts, "in disorder, and some twice": w.deliver(w.random), "some lost, and late": w.late()} {
		rows, due, told := w.apply(t, pool, delivered)
		differ := func(what string, got, want []string) string {
			less := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return slices.Contains(want, s) })
			more := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return slices.Contains(got, s) })
			return fmt.Sprintf("delivered %s, %s\n got %q\nwant %q\nin the order %s", name, what, less, more, tellFacts(delivered))
		}
		if want := w.wantRows(); !slices.Equal(rows, want) {
			return differ("the rows are", rows, want)
		}
		if want := w.wantDue(); !slices.Equal(due, want) {
			return differ("due is", due, want)
		}
		if got, want := onceOnly(told), w.wantNews(); !slices.Equal(got, want) {
			return differ("told once is", got, want)
		}
		if wrong := w.checkOrder(told); len(wrong) > 0 {
			return differ("the order of news is wrong", wrong, nil)
		}
	}
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	found, err := rebuild.Check(t.Context(), conn, rebuild.Request{Rules: w.policy, At: at(w.second)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var drifted []string
	for _, d := range found.Rows {
		drifted = append(drifted, fmt.Sprintf("%s is %v, folded %v", d, d.Stored, d.Computed))
	}
	drifted = append(drifted, rewritten(t, pool)...)
	return strings.Join(drifted, "\n")
}

func tellFacts(facts []fact.Fact) string {
	var said []string
	for _, f := range facts {
		status := ""
		switch {
		case f.Subscription != nil:
			status = words(f.Subscription.Status, planOf(f.Subscription), f.Subscription.Account)
		case f.Invoice != nil:
			status = f.Invoice.Status
		case f.Refund != nil:
			status = words(f.Refund.Status, fmt.Sprint(f.Refund.Amount))
		case f.Dispute != nil:
			status = f.Dispute.Status
		case f.Link != nil:
			status = f.Link.Account
		}
		said = append(said, fmt.Sprintf("%s %s %s@%d %s", f.EventID, f.Kind, f.Object, f.OccurredAt.Sub(begin)/time.Second, status))
	}
	return strings.Join(said, "\n  ")
}

// apply applies facts, each as a separate event, to an empty database, and returns the rows, the scheduled actions
// and the published events.
func (w *tale) apply(t *testing.T, pool *pgxpool.Pool, facts []fact.Fact) (rows, due []string, news []announced) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `truncate receipts, event_subjects, facts, accounts, subscriptions, invoices, objects, grants, due, tasks, outbox`); err != nil {
			return err
		}
		receiptsOf(t, tx, facts...)
		for n, f := range facts {
			if _, err := billing.Apply(t.Context(), tx, append([]fact.Fact{f}, fact.LinksOf(f)...), w.policy, fmt.Sprintf("apply:%d", n), at(w.second)); err != nil {
				return fmt.Errorf("after %s: %w", tellFacts(facts[:n+1]), err)
			}
		}
		rows, due, news = moneyRows(t, tx), ofFacts(dueRows(t, tx)), newsIn(t, tx)
		if got, want := subjects(t, tx), wantSubjects(t, tx, facts); !slices.Equal(got, want) {
			return fmt.Errorf("after %s: subjects\n got %q\nwant %q", tellFacts(facts), got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows, due, news
}

func newsIn(t *testing.T, tx ledger.Tx) []announced {
	t.Helper()
	found, err := tx.Query(t.Context(), announcedSQL)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(found, pgx.RowToStructByPos[announced])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// tales is the number of histories per seed. The environment variable PAWL_HISTORIES sets it: a thousand histories
// take a quarter of an hour.
func tales(t *testing.T) uint64 {
	t.Helper()
	said := cmp.Or(os.Getenv("PAWL_HISTORIES"), schematest.OrLong("4", "12"))
	n, err := strconv.ParseUint(said, 10, 32)
	if err != nil {
		t.Fatalf("PAWL_HISTORIES is %q: want a number", said)
	}
	return n
}

// For any history of accounts and any order of its facts: rows, tasks and scheduled actions equal the model, each
// event is published once and in a permitted order, and a rebuild finds no difference.
func TestApply_GeneratedAccounts_SameEndAndNews(t *testing.T) {
	t.Parallel()
	for name, seed := range seeds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := schematest.New(t)
			const most = 40
			for n := range tales(t) {
				if newTale(seed+n, most).differs(t, pool) == "" {
					continue
				}
				for steps := 1; steps <= most; steps++ { // find the shortest prefix of the history that fails
					if difference := newTale(seed+n, steps).differs(t, pool); difference != "" {
						t.Fatalf("seed %d, %d steps: %s", seed+n, steps, difference)
					}
				}
				t.Fatalf("seed %d fails as a whole only", seed+n)
			}
		})
	}
}
