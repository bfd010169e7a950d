package fold

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Invoice is the state of an invoice, computed from its facts. The amounts come from the first snapshot with the
// highest status. There are two exceptions. An open invoice has the amounts of its last snapshot, because credits and
// partial payments reduce them. A paid invoice has the largest paid amount of all snapshots.
type Invoice struct {
	// Ref contains the subscription, if there is one. The account is the account of the subscription, or else Named, or
	// else the account of the customer; see [fact.LinkOf].
	Ref
	// Named is the account in the metadata of the invoice itself, or empty.
	Named string `json:",omitempty"`
	// Number is the invoice number in the newest snapshot that has one, or empty.
	Number string `json:",omitempty"`
	// Status is the highest status in the facts: draft < deleted < open < uncollectible < void < paid.
	Status    string
	Due       int64
	Paid      int64
	Remaining int64
	Tax       int64
	Currency  string
	Reason    string `json:",omitempty"`
	// How is [fact.PaidByCharge] or [fact.PaidOutOfBand], as an event reports it or as the known payments show. It is
	// empty while it is unknown. Balance is the amount that the customer balance paid.
	How     string `json:",omitempty"`
	Balance int64  `json:",omitempty"`
	// PaidSums lists the cumulative paid amounts, in the order in which pawl received the payments. The difference
	// between two sums is booked as one entry.
	PaidSums []int64 `json:",omitempty"`
	// PaidTimes[n] is the time of PaidSums[n], and PaidBy[n] its payment.
	PaidTimes []time.Time `json:",omitempty"`
	PaidBy    []PaidBy    `json:",omitempty"`
	// Unexplained is the part of the paid amount that is not in PaidSums yet, because its payments have to be fetched
	// first. It is set only if [fact.Policy.Asks] is set.
	Unexplained int64 `json:",omitempty"`
	// Misread is Paid minus the last of the PaidSums, if a later parse of the payloads found another paid amount.
	Misread int64 `json:",omitempty"`
	// Others is set if the lines belong to another product. If the subscription is ours, the invoice is ours as well.
	Others bool `json:",omitempty"`
	// Free is set if the amount of every line is 0.
	Free bool `json:",omitempty"`
	// Sale is the sale of the lines; see [fact.PurchaseOf]. It and the period are empty if the lines sell nothing.
	fact.Sale
	PeriodStart time.Time `json:",omitzero"`
	PeriodEnd   time.Time `json:",omitzero"`
	// For is how long an invoice without a subscription grants access, counted from its payment. 0 means that it grants
	// nothing.
	For time.Duration `json:",omitempty"`
	// UnknownPrice is an unmapped price in the lines. It is set if the invoice belongs to a subscription and no line
	// has a known plan.
	UnknownPrice string `json:",omitempty"`
	// Attempts is the highest number of payment attempts in the facts. Failures lists the numbers of the attempts that
	// failed or that wait for the customer, in order. The number 0 is a missed due date.
	Attempts int   `json:",omitempty"`
	Failures []int `json:",omitempty"`
	// AtCheckout is set if the last payment failed while the customer was in the checkout. This is assumed for the
	// first invoice of a subscription that never granted access. An invoice with a due date is sent by e-mail and is
	// not paid in a checkout.
	AtCheckout bool `json:",omitempty"`
	// Stuck is the reason why the provider could not finalize the draft, or empty. The provider collects no payment
	// until a person corrects the cause. EverStuck is set if any fact had such a reason.
	Stuck     string `json:",omitempty"`
	EverStuck bool   `json:",omitempty"`
	// NextAttempt and DueAt come from the last open snapshot.
	NextAttempt time.Time `json:",omitzero"`
	DueAt       time.Time `json:",omitzero"`
	// OccurredAt is the time of the first snapshot with the highest status. CreatedAt is the field CreatedAt of that
	// snapshot; see [fact.Invoice].
	OccurredAt time.Time
	CreatedAt  time.Time `json:",omitzero"`
	// PaidAt is the time of the payment, or else of the first fact that shows the invoice as paid. ClosedAt is the time
	// of the first void or uncollectible fact. Each is zero if there is no such fact. An uncollectible invoice can
	// still be paid.
	PaidAt   time.Time `json:",omitzero"`
	ClosedAt time.Time `json:",omitzero"`
	// Refunded is the refunded amount. RefundedBy is the fact of the last refund.
	Refunded   int64      `json:",omitempty"`
	RefundedBy fact.Cause `json:",omitzero"`
	// Partial is set while no fact contains all lines.
	Partial bool `json:",omitempty"`
	// Cut is set for a paid partial invoice without a subscription if the policy maps any price to a one-time purchase.
	// The missing lines may then grant something.
	Cut bool `json:",omitempty"`
	// Withheld is set after a sink refused the purchase of an invoice without a subscription, until a person grants it
	// again. Held is set while the grant is on hold. LostBy is the fact of a lost dispute; see [Subscription].
	Withheld bool       `json:",omitempty"`
	Held     bool       `json:",omitempty"`
	LostBy   fact.Cause `json:",omitzero"`
	// Owed is the money that a withheld invoice was paid with and that is not paid back yet.
	Owed Money `json:",omitzero"`
	// Review is the reason for a review, or empty: [ReviewPaidAndVoid], [ReviewPaidThenOpen].
	Review string `json:",omitempty"`
	// Cause is the fact that determines the status. FailedBy is the first fact with a failed attempt. FailedAt is the
	// time of the last failure.
	Cause    fact.Cause `json:",omitzero"`
	FailedBy fact.Cause `json:",omitzero"`
	FailedAt time.Time  `json:",omitzero"`
}

// The reasons for the review of an invoice.
const (
	ReviewPaidAndVoid  = "paid_and_void"
	ReviewPaidThenOpen = "paid_then_open"
)

// Bought returns the ID of the purchase: the subscription, or the invoice itself if it has no subscription.
func (i Invoice) Bought() string { return cmp.Or(i.Subscription, i.ID) }

// IsPaid reports whether the invoice is paid in full.
func (i Invoice) IsPaid() bool { return i.Status == "paid" }

// Closed reports whether the invoice is void or uncollectible. An uncollectible invoice can still be paid.
func (i Invoice) Closed() bool { return i.Status == "void" || i.Status == "uncollectible" }

// PaidTime returns the time of PaidSums[n].
func (i Invoice) PaidTime(n int) time.Time {
	if n < len(i.PaidTimes) {
		return i.PaidTimes[n]
	}
	return i.PaidAt
}

// Failing reports whether an attempt to pay the invoice has failed and the invoice can still be paid. It ignores a
// failure during the checkout, because the customer sees that failure there.
func (i Invoice) Failing() bool { return i.Status == "open" && len(i.Failures) > 0 && !i.AtCheckout }

// Overdue reports whether an open invoice without a failed attempt is past its due date. It needs no event, because the
// provider sends invoice.overdue only to accounts that configured it.
func (i Invoice) Overdue(at time.Time) bool { return i.awaitsDueDate() && !i.DueAt.After(at) }

func (i Invoice) awaitsDueDate() bool {
	return i.Status == "open" && len(i.Failures) == 0 && !i.DueAt.IsZero()
}

// NewestFailure returns the number of the last failed attempt, or 0.
func (i Invoice) NewestFailure() int {
	if len(i.Failures) == 0 {
		return 0
	}
	return i.Failures[len(i.Failures)-1]
}

// paidBack reports whether the whole paid amount is refunded.
func (i Invoice) paidBack() bool { return i.Refunded > 0 && i.Refunded >= i.Paid }

// InvoiceOf computes an invoice from the facts about it. Apply sets the account and the refunds.
func InvoiceOf(id string, facts []fact.Fact, p fact.Policy) Invoice {
	facts = fact.InOrder(facts)
	snapshots := fact.InOrder(facts, fact.InvoiceSeen)
	i := Invoice{Ref: Ref{ID: id, Customer: customerOf(facts, nil)}}
	if len(snapshots) == 0 {
		return i
	}
	first := snapshots[0]
	for _, f := range snapshots[1:] {
		if fact.Height(f) > fact.Height(first) {
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
	i.Named = cmp.Or(p.AccountOf(facts), fact.LinkedTo(facts), i.Named)
	i.Review = reviewOf(snapshots)
	i.buy(linesOf(first, snapshots), p)
	i.Withheld, i.Held, i.LostBy = fact.TookBack(facts, i.Prices), fact.OnHold(facts), lostBy(facts)
	return i
}

// see copies the snapshot that determines the status, if it is the first one with that status.
func (i *Invoice) see(f fact.Fact) {
	in := f.Invoice
	i.Status, i.OccurredAt, i.CreatedAt, i.Cause = in.Status, f.OccurredAt, in.CreatedAt, fact.CauseOf(f)
	i.Currency, i.Reason, i.How, i.Balance = in.Currency, in.Reason, in.How, in.Balance
	i.owe(in)
}

// owe copies the due and remaining amounts of a snapshot.
func (i *Invoice) owe(in *fact.Invoice) {
	i.Due, i.Paid, i.Remaining, i.Tax = in.Due, in.Paid, in.Remaining, in.Tax
}

// note copies the fields that every snapshot can add. It must be called in the order of the snapshots.
func (i *Invoice) note(f fact.Fact) {
	in := f.Invoice
	i.Subscription = cmp.Or(in.Subscription, i.Subscription)
	i.Number = cmp.Or(in.Number, i.Number)
	i.Named = cmp.Or(in.Account, i.Named)
	i.Attempts = max(i.Attempts, in.Attempts)
	if in.Failed {
		i.Failures = append(i.Failures, in.Attempts)
		i.FailedBy, i.FailedAt = cmp.Or(i.FailedBy, fact.CauseOf(f)), f.OccurredAt
	}
	i.EverStuck = i.EverStuck || in.Stuck != ""
	switch in.Status {
	case "draft":
		i.Stuck = in.Stuck
	case "open":
		if i.NextAttempt, i.DueAt = in.NextAttempt, in.DueAt; i.Status == "open" {
			paid := max(i.Paid, in.Paid)
			i.owe(in)
			i.Paid = paid
		}
	case "paid":
		if i.PaidAt = cmp.Or(i.PaidAt, in.PaidAt, f.OccurredAt); in.Paid > i.Paid { // more was paid than was due
			i.Paid, i.Remaining = in.Paid, in.Remaining
		}
	case "void", "uncollectible":
		i.ClosedAt = cmp.Or(i.ClosedAt, f.OccurredAt)
	}
}

// reviewOf returns the reason for a review of the invoice, or "". It considers all facts. A later fact therefore does
// not end a review, and the order of the events does not matter.
func reviewOf(snapshots []fact.Fact) string {
	paid := slices.IndexFunc(snapshots, func(f fact.Fact) bool { return f.Invoice.Status == "paid" })
	if paid < 0 {
		return ""
	}
	at := snapshots[paid].OccurredAt
	switch {
	case slices.ContainsFunc(snapshots, func(f fact.Fact) bool { return f.Invoice.Status == "void" }):
		return ReviewPaidAndVoid
	case slices.ContainsFunc(snapshots,
		func(f fact.Fact) bool { return f.Invoice.Status == "open" && f.OccurredAt.After(at) }):
		return ReviewPaidThenOpen
	}
	return ""
}

// linesOf returns the fact with the lines to use: the fact that determines the status, or the last complete fact if
// that one is partial.
func linesOf(decides fact.Fact, snapshots []fact.Fact) *fact.Invoice {
	for _, f := range slices.Backward(snapshots) {
		if decides.Invoice.Partial && !f.Invoice.Partial {
			return f.Invoice
		}
	}
	return decides.Invoice
}

// buy sets the sale of the lines.
func (i *Invoice) buy(in *fact.Invoice, p fact.Policy) {
	b := fact.PurchaseOf(in.Lines, i.Subscription, in.Plan, p)
	i.Others = p.LinesNotOurs(in.Lines)
	i.Sale, i.UnknownPrice, i.PeriodStart, i.PeriodEnd, i.Partial = b.Sale, b.Unknown, b.Start, b.End, in.Partial
	i.Free = !slices.ContainsFunc(in.Lines, func(l fact.Line) bool { return l.Amount != 0 })
	if i.Subscription == "" { // an unmapped price grants nothing and needs no review
		i.For, i.UnknownPrice = b.Lasts, ""
		i.Cut = i.Partial && i.IsPaid() && p.SellsOnce()
	}
}

// compareInvoices orders invoices by their period, oldest first.
func compareInvoices(a, b Invoice) int {
	return cmp.Or(a.PeriodStart.Compare(b.PeriodStart), a.OccurredAt.Compare(b.OccurredAt), cmp.Compare(a.ID, b.ID))
}

func foldInvoice(id string, with Related) Object {
	if len(with.Facts[id]) == 0 {
		return nil
	}
	i := InvoiceOf(id, with.withHolds(with.Facts[id], func(d *Dispute) bool { return with.disputed(d) == id }),
		with.Policy)
	i.Refunded, i.RefundedBy = with.refunded(func(p *Payment) bool { return p.Invoice == id })
	i.addUp(Find[*Invoice](with.Objects, id), with)
	i.How = cmp.Or(i.How, with.howPaid(id))
	if i.Withheld {
		i.Owed = with.owed(i)
	}
	return &i
}

// Kind implements [Object].
func (*Invoice) Kind() Kind { return KindInvoice }

// Assign implements [Object].
func (i *Invoice) Assign(with Related) {
	s := Find[*Subscription](with.Objects, i.Subscription)
	gave := s != nil && !s.GrantedAt.IsZero() && s.GrantedAt.Before(i.FailedAt)
	i.AtCheckout = len(i.Failures) > 0 && i.Reason == "subscription_create" && i.DueAt.IsZero() && !gave
	i.Account, i.NotOurs = with.AccountOf(i.Named, i.Customer), i.Others
	if s != nil {
		i.Account, i.NotOurs = s.Account, s.NotOurs
	} else if i.NotOurs {
		i.Account = ""
	}
}

// Order returns the order of a paid invoice without a subscription.
func (i Invoice) Order() Order {
	return Order{
		ID: i.ID, Sale: i.Sale, PaidAt: i.PaidAt, For: i.For,
		sold: i.IsPaid() && i.Subscription == "" && !i.Withheld, held: i.Held, paidBack: i.paidBack(),
		cause: i.Cause, refundedBy: i.RefundedBy, lostBy: i.LostBy,
	}
}

// Welcomes returns the plan for which the customer can receive an onboarding task. It returns "" for an invoice of a
// subscription, because the subscription has its own task. i may be nil.
func (i *Invoice) Welcomes() string {
	if i == nil || !i.Order().Granted() {
		return ""
	}
	return i.Plan
}

// Grants implements [Object].
func (i *Invoice) Grants() []Grant { return i.Order().Grants() }

// Lapsed implements [Object].
func (i *Invoice) Lapsed(at time.Time) Lapse { return i.Order().Lapsed(at) }

// Scheduled returns nothing for an invoice of a subscription, because the subscription schedules its reminders.
func (i *Invoice) Scheduled(with Related, _ time.Time) []Due {
	if i.Subscription != "" {
		return nil
	}
	return append(i.Dunning(with.Policy), i.Order().Scheduled()...)
}

// Tasks returns the task to refund or to regrant a withheld one-off purchase, and the task to correct a draft that the
// provider cannot finalize. The second task is open until a fact shows the invoice as finalized or deleted, or the
// draft as corrected. It has no account, because the account of the invoice can change.
func (i *Invoice) Tasks() (tasks []Task) {
	if i.Withheld && i.Subscription == "" {
		tasks = correction(i.Ref, i.Owed, i.Paid > 0 && i.Owed == Money{}, "The order "+i.ID+" is withheld")
	}
	if !i.EverStuck || i.NotOurs {
		return tasks
	}
	title := "Fix the cause why Stripe cannot finalize invoice " + i.ID
	if i.Stuck != "" {
		title += ": " + i.Stuck
	}
	return append(tasks, taskWhile(i.Stuck != "", TaskStuck, Ref{ID: i.ID}, title))
}
