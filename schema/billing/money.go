package billing

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/jackc/pgx/v5"
)

// The part of [Apply] that is about money: payments, and what refers to them. A refund, a dispute and a warning name a
// payment, a credit note an invoice; the payment belongs to an invoice or to a checkout session, and these to an account.
// Any of them may come first. What waits for its account is told by the event that makes it known.

// moneyNames are the objects that the facts are about, "" for none. payment is also set for what names a payment.
type moneyNames struct {
	payment, refund, dispute, warning, credit, session string
}

func (n moneyNames) any() bool { return n != moneyNames{} }

// books are payments, and what refers to them: what was there before, or what is now.
type books struct {
	payments  []Payment
	refunds   []Refund
	disputes  []Dispute
	warnings  []Warning
	credits   []Credit
	checkouts []Checkout
}

// nameMoney finds what of money a fact is about.
func (a *applying) nameMoney(f Fact) {
	n := &a.money
	n.payment = cmp.Or(n.payment, PaymentOf(f))
	switch {
	case f.Payment != nil:
		a.invoice = cmp.Or(a.invoice, f.Payment.Invoice)
	case f.Refund != nil:
		n.refund = f.Object
	case f.Dispute != nil:
		n.dispute = f.Object
	case f.Warning != nil:
		n.warning = f.Object
	case f.Credit != nil:
		n.credit, a.invoice = f.Object, cmp.Or(a.invoice, f.Credit.Invoice)
	case f.Checkout != nil:
		n.session = f.Object
		if n.payment != "" {
			a.invoice = cmp.Or(a.invoice, f.Checkout.Invoice)
		}
	case f.Decision != nil && f.Decision.Checkout == f.Object:
		n.session = f.Object
	}
}

// lockMoney locks the payment and the invoice that the facts are about, and the customers of both.
func (a *applying) lockMoney(b *pgx.Batch) {
	s, n := a.subject, a.money
	if n.any() && a.how != inScratch {
		b.Queue(lockPaymentSQL, s.Mode, n.payment, n.session)
	}
	if (n.any() || a.invoice != "") && a.how != inScratch {
		b.Queue(lockInvoiceSQL, s.Mode, n.payment, a.invoice)
	}
	if n.any() {
		b.Queue(lockFamilySQL, s.Mode, n.payment, a.invoice, s.Customer, n.session, s.Provider, s.ProviderAccount)
	}
}

// foldMoney makes the objects of money that the facts are about, and finds the invoice, the subscription and the
// customer that they belong to.
func (a *applying) foldMoney() {
	h, n := a.held.books, a.money
	a.books = books{slices.Clone(h.payments), slices.Clone(h.refunds), slices.Clone(h.disputes), slices.Clone(h.warnings), slices.Clone(h.credits), slices.Clone(h.checkouts)}
	now := &a.books
	if n.refund != "" {
		now.refunds = Replaced(now.refunds, refundID, FoldRefund(n.refund, a.about[n.refund]))
	}
	if n.dispute != "" {
		now.disputes = Replaced(now.disputes, disputeID, FoldDispute(n.dispute, a.about[n.dispute]))
	}
	if n.warning != "" {
		now.warnings = Replaced(now.warnings, warningID, FoldWarning(n.warning, a.about[n.warning]))
	}
	if n.credit != "" {
		now.credits = Replaced(now.credits, creditID, FoldCredit(n.credit, a.about[n.credit]))
	}
	for _, c := range h.checkouts { // the payment's
		if n.payment != "" && c.PaymentIntent == n.payment {
			a.money.session = cmp.Or(n.session, c.ID)
		}
	}
	if id := a.money.session; id != "" && len(a.about[id]) > 0 {
		now.checkouts = Replaced(now.checkouts, checkoutID, FoldCheckout(id, a.about[id], a.policy))
	}
	if n.payment != "" {
		refunds := slices.DeleteFunc(slices.Clone(now.refunds), func(r Refund) bool { return r.Payment() != n.payment })
		p := FoldPayment(n.payment, a.about[n.payment], refunds).made(now.checkouts)
		now.payments = Replaced(now.payments, paymentID, p)
		a.invoice = cmp.Or(a.invoice, p.Invoice)
		a.subject.Customer = cmp.Or(a.subject.Customer, p.Customer)
	}
	if i := a.held.invoice; n.any() && i != nil {
		a.subscription = cmp.Or(a.subscription, i.Subscription)
		a.subject.Customer = cmp.Or(i.Customer, a.subject.Customer)
	}
	for n, c := range now.checkouts {
		if c.ID == a.money.session {
			c.Refunded, c.RefundedBy = refundedOf(now.payments, func(p Payment) bool { return p.ID == c.PaymentIntent })
			facts := a.withHolds(a.about[c.ID], func(d Dispute) bool { return d.Payment() == c.PaymentIntent })
			c.Held, c.LostBy = OnHold(facts), lostBy(facts)
		}
		now.checkouts[n] = c
	}
}

// withHolds adds what disputes hold back to the facts of what was paid for.
func (a *applying) withHolds(facts []Fact, of func(Dispute) bool) []Fact {
	disputes := slices.DeleteFunc(slices.Clone(a.books.disputes), func(d Dispute) bool { return !of(d) })
	return append(slices.Clone(facts), HoldsOf(disputes, a.policy)...)
}

// ofInvoice tells the disputes about payments of an invoice.
func (a *applying) ofInvoice(invoice string) func(Dispute) bool {
	return func(d Dispute) bool {
		return slices.ContainsFunc(a.books.payments, func(p Payment) bool { return p.ID == d.Payment() && p.Invoice == invoice && invoice != "" })
	}
}

// ofSubscription tells the disputes about any invoice of the subscription, also about the one that is being folded.
func (a *applying) ofSubscription(folded *Invoice) func(Dispute) bool {
	return func(d Dispute) bool {
		return d.Subscription == a.subscription || folded != nil && folded.Subscription == a.subscription && a.ofInvoice(folded.ID)(d)
	}
}

// settleMoney says which account all of it belongs to, and what of it is to be told: what the facts are about, and what
// waited for its account.
func (a *applying) settleMoney() {
	now, held, n, invoice := &a.books, a.held.books, a.money, a.change.After.Invoice
	mapped := a.policy.account(a.facts)
	linked := func(customer string) bool { return a.linked && customer == a.subject.Customer }
	for k, c := range now.checkouts {
		if c.ID != n.session && !linked(c.Customer) {
			continue
		}
		account := AccountOf(c.Named, c.Customer, a.about[c.Customer])
		if c.ID != n.session && account != c.Account {
			a.moved = append(a.moved, c.Account, account)
		}
		now.checkouts[k].Account = account
	}
	for k, p := range now.payments {
		if p.ID == n.payment || linked(p.Customer) || invoice != nil && p.Invoice == invoice.ID {
			now.payments[k].Account = p.belongsTo(mapped, invoice, now.checkouts, a.about[p.Customer])
			now.payments[k].Subscription = cmp.Or(subscriptionOf(invoice, p.Invoice), p.Subscription)
		}
	}
	for k, o := range now.refunds {
		a.own(&now.refunds[k].Owner, o.Payment(), o.toTell(), wasTold(held.refunds, o.ID, refundID, func(o Refund) []string { return o.Told }))
	}
	for k, o := range now.disputes {
		a.own(&now.disputes[k].Owner, o.Payment(), o.toTell(), wasTold(held.disputes, o.ID, disputeID, func(o Dispute) []string { return o.Told }))
	}
	for k, o := range now.warnings {
		a.own(&now.warnings[k].Owner, o.Payment(), nil, wasTold(held.warnings, o.ID, warningID, func(o Warning) []string { return o.Told }))
	}
	for k, c := range now.credits {
		if c.ID == n.credit || linked(c.Customer) || invoice != nil && c.Invoice == invoice.ID {
			now.credits[k].Account = c.belongsTo(mapped, invoice, a.about[c.Customer])
			now.credits[k].Subscription = cmp.Or(subscriptionOf(invoice, c.Invoice), c.Subscription)
		}
	}
	a.tell()
}

// subscriptionOf returns the subscription of an invoice, where that is the one that is named.
func subscriptionOf(i *Invoice, named string) string {
	if i == nil || i.ID != named {
		return ""
	}
	return i.Subscription
}

// moveMoney moves what refers to a subscription, or to an invoice of none, with it.
func (a *applying) moveMoney(b *pgx.Batch, by, id, account string) {
	for _, table := range moved {
		b.Queue(moveSQL(table, by), a.subject.Mode, id, account)
	}
}

// tell puts into the change what the facts are about, and what waited for its account, or for its invoice, which may say
// another.
func (a *applying) tell() {
	h, now, n := a.held.books, a.books, a.money
	before, after := &a.change.Before, &a.change.After
	before.Refunds, after.Refunds = toTell(h.refunds, now.refunds, n.refund, refundID, func(r Refund) string { return r.known() })
	before.Disputes, after.Disputes = toTell(h.disputes, now.disputes, n.dispute, disputeID, func(d Dispute) string { return d.known() })
	before.Warnings, after.Warnings = toTell(h.warnings, now.warnings, n.warning, warningID, func(w Warning) string { return w.known() })
	before.Credits, after.Credits = toTell(h.credits, now.credits, n.credit, creditID, func(c Credit) string { return Owner{Account: c.Account, Invoice: c.Invoice}.known() })
	before.Payment, after.Payment = find(h.payments, n.payment, paymentID), find(now.payments, n.payment, paymentID)
	before.Checkout, after.Checkout = find(h.checkouts, n.session, checkoutID), find(now.checkouts, n.session, checkoutID)
}

// own says what is known of the owner of something: what its payment says, or what it belongs to and moves with. due is
// what is to be announced of it, told what was.
func (a *applying) own(o *Owner, payment string, due, told []string) {
	p := find(a.books.payments, payment, paymentID)
	s := find(a.subscriptions, o.Subscription, func(s Subscription) string { return s.ID })
	i := find(a.invoices, o.Invoice, func(i Invoice) string { return i.ID })
	switch {
	case p != nil:
		*o = p.owner(nil)
	case s != nil:
		o.Account = s.Account
	case i != nil:
		o.Account = i.Account
	}
	if o.Told = told; o.Account != "" {
		o.Told = set(slices.Concat(told, due))
	}
}

// wasTold returns what was announced of something that was held.
func wasTold[O any](held []O, name string, id func(O) string, told func(O) []string) []string {
	if was := find(held, name, id); was != nil {
		return told(*was)
	}
	return nil
}

// toTell returns what is to be told of objects, as they were and as they are.
func toTell[O any](held, now []O, about string, id, known func(O) string) (before, after []O) {
	for _, o := range now {
		was := find(held, id(o), id)
		if id(o) == about || was != nil && known(o) > known(*was) {
			if after = append(after, o); was != nil {
				before = append(before, *was)
			}
		}
	}
	return before, after
}

func find[O any](list []O, name string, id func(O) string) *O {
	if k := slices.IndexFunc(list, func(o O) bool { return id(o) == name }); k >= 0 {
		return &list[k]
	}
	return nil
}

func paymentID(p Payment) string   { return p.ID }
func refundID(r Refund) string     { return r.ID }
func disputeID(d Dispute) string   { return d.ID }
func warningID(w Warning) string   { return w.ID }
func creditID(c Credit) string     { return c.ID }
func checkoutID(c Checkout) string { return c.ID }

// accountOfMoney is the account that the facts are about where they are about no subscription and no invoice that is
// known: the session's, else the payment's or the credit note's. before is the one that the session belonged to.
func (a *applying) accountOfMoney() (account, before string) {
	if c := a.change.After.Checkout; c != nil {
		if held := a.change.Before.Checkout; held != nil {
			before = held.Account
		}
		return c.Account, before
	}
	if p := a.change.After.Payment; p != nil {
		return p.Account, ""
	}
	if credit := find(a.books.credits, a.money.credit, creditID); credit != nil {
		return credit.Account, ""
	}
	return "", ""
}

// ownSessions are the sessions that may grant to the account: the one that the facts are about, and those that move with
// the customer.
func (a *applying) ownSessions() (own []Checkout) {
	for _, c := range a.books.checkouts {
		if was := find(a.held.books.checkouts, c.ID, checkoutID); c.ID == a.money.session || was != nil && was.Account != c.Account {
			own = append(own, c)
		}
	}
	return own
}

// writeMoney writes the rows that have changed.
func (a *applying) writeMoney(b *pgx.Batch, granted map[string]bool) error {
	h, now, mode := a.held.books, a.books, a.subject.Mode
	tasks := tasksOf(changed(h.disputes, now.disputes, disputeID), changed(h.warnings, now.warnings, warningID))
	if a.how == repairing {
		h = books{}
	}
	w := rowWriter{b: b}
	for _, p := range changed(h.payments, now.payments, paymentID) {
		w.write(p, writePaymentSQL, mode, p.ID, p.Account, p.Invoice, p.Subscription, p.Customer, p.Status, p.Amount, p.Refunded, p.Currency)
	}
	for _, r := range changed(h.refunds, now.refunds, refundID) {
		w.write(r, writeRefundSQL, mode, r.ID, r.Account, r.Payment(), r.Invoice, r.Subscription, r.Customer, r.Status, r.Amount, r.Currency)
	}
	for _, d := range changed(h.disputes, now.disputes, disputeID) {
		w.write(d, writeDisputeSQL, mode, d.ID, d.Account, d.Payment(), d.Invoice, d.Subscription, d.Customer, d.Status, d.Amount, d.Currency)
	}
	for _, o := range changed(h.warnings, now.warnings, warningID) {
		w.write(o, writeWarningSQL, mode, o.ID, o.Account, o.Payment(), o.Invoice, o.Subscription, o.Customer, o.Actionable)
	}
	for _, c := range changed(h.credits, now.credits, creditID) {
		w.write(c, writeCreditSQL, mode, c.ID, c.Account, c.Invoice, c.Subscription, c.Customer, c.Status, c.Amount, c.Currency)
	}
	for _, c := range changed(h.checkouts, now.checkouts, checkoutID) {
		w.write(c, writeCheckoutSQL, mode, c.ID, c.Account, c.PaymentIntent, c.Customer, c.Status, c.PaymentStatus, c.Amount, c.Currency)
	}
	for _, c := range a.ownSessions() {
		if !granted[c.ID] {
			b.Queue(takeSQL, mode, c.ID)
		}
	}
	for _, t := range tasks {
		b.Queue(settleTaskSQL, mode, t.Kind, t.Object, t.Account, t.State, t.Title, a.key)
	}
	return w.err
}

// rowWriter queues writes of rows that end in a state.
type rowWriter struct {
	b   *pgx.Batch
	err error
}

func (w *rowWriter) write(object any, sql string, args ...any) {
	state, err := json.Marshal(object)
	w.err = cmp.Or(w.err, err)
	w.b.Queue(sql, append(args, state)...)
}

// changed returns what is otherwise now than it was held.
func changed[O any](held, now []O, id func(O) string) (list []O) {
	for _, o := range now {
		if was := find(held, id(o), id); was == nil || !reflect.DeepEqual(*was, o) {
			list = append(list, o)
		}
	}
	return list
}
