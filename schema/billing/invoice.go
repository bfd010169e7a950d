package billing

import (
	"cmp"
	"slices"
	"time"
)

// Invoice is what the facts about an invoice fold to. Amounts are those of the first snapshot at the highest status,
// but for what is paid: more can come of a paid one.
type Invoice struct {
	// Ref names the subscription, "" for none. Its account is that of the subscription, else Named, else that of the
	// customer. See [AccountOf].
	Ref
	// Named is the account that the invoice itself names, "" for none.
	Named string `json:",omitempty"`
	// Number is the newest that any fact showed, "" for none.
	Number string `json:",omitempty"`
	// Status is the highest of draft < deleted < open < uncollectible < void < paid that any fact showed.
	Status    string
	Due       int64
	Paid      int64
	Remaining int64
	Tax       int64
	Currency  string
	Reason    string `json:",omitempty"`
	// How is as an [InvoiceFact]'s, or by the payments that are known; "" as long as nothing tells. Balance is what the
	// customer's balance has paid of it.
	How     string `json:",omitempty"`
	Balance int64  `json:",omitempty"`
	// PaidSums are what was paid of it by then, each time that a fact told of more, in the order in which these came.
	// What was added each time is booked, once: all runs have the same sums.
	PaidSums []int64 `json:",omitempty"`
	// Misread is by how much Paid is another, by a later reading, than what was told in several sums.
	Misread int64 `json:",omitempty"`
	// Others is set where its lines are not ours; it is ours all the same where its subscription is.
	Others bool `json:",omitempty"`
	// Free is set where each line's amount is 0.
	Free bool `json:",omitempty"`
	// Sale and the period are those of its lines; empty where no line counts. See boughtByLines.
	Sale
	PeriodStart time.Time `json:",omitzero"`
	PeriodEnd   time.Time `json:",omitzero"`
	// For is how long it grants from when it was paid, where it belongs to no subscription; 0 for not at all.
	For time.Duration `json:",omitempty"`
	// UnknownPrice is a price of its lines that no mapping knows, where it belongs to a subscription and no line is of
	// a plan that is known.
	UnknownPrice string `json:",omitempty"`
	// Attempts is the highest count that any fact showed. Failures lists the attempts that failed, or that wait for the
	// customer, in their order; 0 is a due date that has passed.
	Attempts int   `json:",omitempty"`
	Failures []int `json:",omitempty"`
	// AtCheckout is set where the last payment failed at the checkout: of the first invoice of a subscription that had
	// granted nothing by then. An invoice with a due date is mailed, and is paid at no checkout.
	AtCheckout bool `json:",omitempty"`
	// Stuck says why the provider could not finalize it, while it is a draft: until somebody mends that, it is not
	// collected. EverStuck is set once any fact said so.
	Stuck     string `json:",omitempty"`
	EverStuck bool   `json:",omitempty"`
	// NextAttempt and DueAt are of the last open snapshot.
	NextAttempt time.Time `json:",omitzero"`
	DueAt       time.Time `json:",omitzero"`
	// OccurredAt is when the first snapshot at the highest status was made.
	OccurredAt time.Time
	// PaidAt is when the first fact showed it as paid, ClosedAt when the first showed it as void or uncollectible;
	// zero while none did. An uncollectible invoice can still be paid.
	PaidAt   time.Time `json:",omitzero"`
	ClosedAt time.Time `json:",omitzero"`
	// Refunded is the amount that was paid back, RefundedBy the fact that told of the last refund; see [Payment].
	Refunded   int64 `json:",omitempty"`
	RefundedBy Cause `json:",omitzero"`
	// Partial is set where no fact carried all of its lines.
	Partial bool `json:",omitempty"`
	// Withheld is set while its grant outside of any subscription is taken back, Held while that is on hold. LostBy
	// is as a [Subscription]'s.
	Withheld bool  `json:",omitempty"`
	Held     bool  `json:",omitempty"`
	LostBy   Cause `json:",omitzero"`
	// Review says what about it a person must review, "" for nothing: [ReviewPaidAndVoid], [ReviewPaidThenOpen].
	Review string `json:",omitempty"`
	// Cause is the fact whose snapshot decides. FailedBy is the first that told of a failure, FailedAt when the last
	// one did.
	Cause    Cause     `json:",omitzero"`
	FailedBy Cause     `json:",omitzero"`
	FailedAt time.Time `json:",omitzero"`
}

// The reviews of an invoice.
const (
	ReviewPaidAndVoid  = "paid_and_void"
	ReviewPaidThenOpen = "paid_then_open"
)

// statuses are those of an invoice, the lowest first. Paid and void exclude each other; where facts show both, the
// money is there, and a person reviews it.
var statuses = []string{"draft", "deleted", "open", "uncollectible", "void", "paid"}

// Bought names what the invoice paid for: its subscription, or itself where it belongs to none.
func (i Invoice) Bought() string { return cmp.Or(i.Subscription, i.ID) }

func (i Invoice) paid() bool { return i.Status == "paid" }

// Closed reports whether the invoice was given up: voided, or uncollectible, which can still be paid.
func (i Invoice) Closed() bool { return i.Status == "void" || i.Status == "uncollectible" }

// Failing reports whether a payment of the invoice has failed, and can still be made. One that fails at the checkout
// does not count: the customer sees it there.
func (i Invoice) Failing() bool { return i.Status == "open" && len(i.Failures) > 0 && !i.AtCheckout }

// NewestFailure is the last attempt that failed, 0 for none.
func (i Invoice) NewestFailure() int {
	if len(i.Failures) == 0 {
		return 0
	}
	return i.Failures[len(i.Failures)-1]
}

// paidBack reports whether all that was paid was refunded.
func (i Invoice) paidBack() bool { return i.Refunded > 0 && i.Refunded >= i.Paid }

// FoldInvoice makes an invoice of the facts about it. [AccountOf] decides its account, and Apply sets its refunds.
func FoldInvoice(id string, facts []Fact, p Policy) Invoice {
	facts = InOrder(facts)
	snapshots := InOrder(facts, InvoiceSeen)
	i := Invoice{Ref: Ref{ID: id, Customer: customerOf(facts, nil)}}
	if len(snapshots) == 0 {
		return i
	}
	first := snapshots[0]
	for _, f := range snapshots[1:] {
		if height(f) > height(first) {
			first = f
		}
	}
	i.see(first)
	for _, f := range snapshots {
		i.note(f)
	}
	if i.Status != "draft" {
		i.Stuck = ""
	}
	slices.Sort(i.Failures)
	i.Failures = slices.Compact(i.Failures)
	i.Named = cmp.Or(p.account(facts), linkedTo(facts), i.Named)
	i.Review = reviewOf(snapshots)
	i.buy(linesOf(first, snapshots), p)
	i.Withheld, i.Held, i.LostBy = withheld(facts, i.Prices), OnHold(facts), lostBy(facts)
	return i
}

func height(f Fact) int { return slices.Index(statuses, f.Invoice.Status) }

// see takes over the first snapshot at the highest status.
func (i *Invoice) see(f Fact) {
	in := f.Invoice
	i.Status, i.OccurredAt, i.Cause = in.Status, f.OccurredAt, causeOf(f)
	i.Due, i.Paid, i.Remaining, i.Tax, i.Currency = in.Due, in.Paid, in.Remaining, in.Tax, in.Currency
	i.Reason, i.How, i.Balance = in.Reason, in.How, in.Balance
}

// note takes over what any snapshot adds; they come in their order.
func (i *Invoice) note(f Fact) {
	in := f.Invoice
	i.Subscription = cmp.Or(in.Subscription, i.Subscription)
	i.Number = cmp.Or(in.Number, i.Number)
	i.Named = cmp.Or(in.Account, i.Named)
	i.Attempts = max(i.Attempts, in.Attempts)
	if in.Failed {
		i.Failures = append(i.Failures, in.Attempts)
		i.FailedBy, i.FailedAt = cmp.Or(i.FailedBy, causeOf(f)), f.OccurredAt
	}
	i.EverStuck = i.EverStuck || in.Stuck != ""
	switch in.Status {
	case "draft":
		i.Stuck = in.Stuck
	case "open":
		i.NextAttempt, i.DueAt = in.NextAttempt, in.DueAt
	case "paid":
		if i.PaidAt = cmp.Or(i.PaidAt, f.OccurredAt); in.Paid > i.Paid { // more has come than was due
			i.Paid, i.Remaining = in.Paid, in.Remaining
		}
	case "void", "uncollectible":
		i.ClosedAt = cmp.Or(i.ClosedAt, f.OccurredAt)
	}
}

// reviewOf returns what about an invoice a person must review. It follows from all facts together: further facts do
// not end a review, and their order does not matter.
func reviewOf(snapshots []Fact) string {
	paid := slices.IndexFunc(snapshots, func(f Fact) bool { return f.Invoice.Status == "paid" })
	if paid < 0 {
		return ""
	}
	at := snapshots[paid].OccurredAt
	switch {
	case slices.ContainsFunc(snapshots, func(f Fact) bool { return f.Invoice.Status == "void" }):
		return ReviewPaidAndVoid
	case slices.ContainsFunc(snapshots,
		func(f Fact) bool { return f.Invoice.Status == "open" && f.OccurredAt.After(at) }):
		return ReviewPaidThenOpen
	}
	return ""
}

// linesOf returns the fact whose lines count: the one that decides or, if that lacks some, the last complete one.
func linesOf(decides Fact, snapshots []Fact) *InvoiceFact {
	for _, f := range slices.Backward(snapshots) {
		if decides.Invoice.Partial && !f.Invoice.Partial {
			return f.Invoice
		}
	}
	return decides.Invoice
}

// buy says what the lines come to.
func (i *Invoice) buy(in *InvoiceFact, p Policy) {
	b := boughtByLines(in.Lines, i.Subscription, in.Plan, p)
	i.Others = p.notOurs(in.Lines)
	i.Sale, i.UnknownPrice, i.PeriodStart, i.PeriodEnd, i.Partial = b.Sale, b.unknown, b.start, b.end, in.Partial
	i.Free = !slices.ContainsFunc(in.Lines, func(l Line) bool { return l.Amount != 0 })
	if i.Subscription == "" { // a price that no mapping knows grants nothing, and nobody need review it
		i.For, i.UnknownPrice = b.lasts, ""
	}
}

// compareInvoices orders invoices by the period that they are for, the oldest first.
func compareInvoices(a, b Invoice) int {
	return cmp.Or(a.PeriodStart.Compare(b.PeriodStart), a.OccurredAt.Compare(b.OccurredAt), cmp.Compare(a.ID, b.ID))
}

const invoiceSQL = `select state from invoices where mode = $1 and id = $2`

func foldInvoice(id string, with related) Object {
	if len(with.facts[id]) == 0 {
		return nil
	}
	i := FoldInvoice(id, with.withHolds(with.facts[id], func(d *Dispute) bool { return with.disputed(d) == id }),
		with.policy)
	i.Refunded, i.RefundedBy = with.refunded(func(p *Payment) bool { return p.Invoice == id })
	i.How = cmp.Or(i.How, with.howPaid(id))
	i.addUp(find[*Invoice](with.objects, id))
	return &i
}

// addUp adds what was paid to the sums of the invoice as it was before, nil for none, where that is more. A part that
// was paid counts once the invoice is given up, or paid.
func (i *Invoice) addUp(before *Invoice) {
	if before != nil {
		i.PaidSums, i.Misread = slices.Clone(before.PaidSums), before.Misread
	}
	told, paid := len(i.PaidSums), i.Paid-i.Misread
	if (i.paid() || i.Closed() && paid > 0) && (told == 0 || paid > i.PaidSums[told-1]) {
		i.PaidSums = append(i.PaidSums, paid)
	}
}

func (*Invoice) kind() kind { return kindInvoice }

func (i *Invoice) assign(with related) {
	s := find[*Subscription](with.objects, i.Subscription)
	gave := s != nil && !s.GrantedAt.IsZero() && s.GrantedAt.Before(i.FailedAt)
	i.AtCheckout = len(i.Failures) > 0 && i.Reason == "subscription_create" && i.DueAt.IsZero() && !gave
	i.Account, i.NotOurs = with.accountOf(i.Named, i.Customer), i.Others
	if s != nil {
		i.Account, i.NotOurs = s.Account, s.NotOurs
	} else if i.NotOurs {
		i.Account = ""
	}
}

// Order returns what a paid invoice outside of any subscription grants.
func (i Invoice) Order() Order {
	return Order{
		ID: i.ID, Sale: i.Sale, PaidAt: i.PaidAt, For: i.For,
		sold: i.paid() && i.Subscription == "" && !i.Withheld, held: i.Held, paidBack: i.paidBack(),
		cause: i.Cause, refundedBy: i.RefundedBy, lostBy: i.LostBy,
	}
}

// welcomes is the plan that a customer can be welcomed on, "" for none, and for one of a subscription. It may be nil.
func (i *Invoice) welcomes() string {
	if i == nil || !i.Order().Granted() {
		return ""
	}
	return i.Plan
}

func (i *Invoice) grants() []Grant           { return i.Order().grants() }
func (i *Invoice) lapsed(at time.Time) lapse { return i.Order().lapsed(at) }

// due leaves the reminders of a subscription's invoice to the subscription.
func (i *Invoice) due(with related, _ time.Time) []Due {
	if i.Subscription != "" {
		return nil
	}
	return append(i.dunning(with.policy), i.Order().due()...)
}

// tasks asks to mend what keeps the provider from finalizing the invoice, where it ever tried in vain. The task is
// open until a fact shows the invoice as finalized or deleted, or its draft as mended. It names no account: it is
// that of the invoice, which may move.
func (i *Invoice) tasks() []settledTask {
	if !i.EverStuck || i.NotOurs {
		return nil
	}
	title := "Mend what keeps Stripe from finalizing invoice " + i.ID
	if i.Stuck != "" {
		title += ": " + i.Stuck
	}
	return []settledTask{taskWhile(i.Stuck != "", TaskStuck, Ref{ID: i.ID}, title)}
}

const writeInvoiceSQL = `
insert into invoices (mode, id, account, customer, subscription, status, amount, currency, period_start, occurred_at, state)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    on conflict (mode, id) do update set account = excluded.account, customer = excluded.customer, subscription = excluded.subscription,
       status = excluded.status, amount = excluded.amount, currency = excluded.currency, period_start = excluded.period_start,
       occurred_at = excluded.occurred_at, state = excluded.state, updated_at = now()`

func (i *Invoice) row() (sql string, columns []any) {
	return writeInvoiceSQL, []any{i.Subscription, i.Status, i.Paid, i.Currency, i.PeriodStart, i.OccurredAt}
}
