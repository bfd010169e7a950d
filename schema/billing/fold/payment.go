package fold

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Payment is the state of a payment intent and its charges, or of a charge without a payment intent, computed from the
// facts.
type Payment struct {
	// Ref contains the paid invoice, and the subscription of that invoice. The account is empty until it is known.
	Ref
	Charge string `json:",omitempty"`
	// OutOfBand is set for a payment outside of the provider.
	OutOfBand bool `json:",omitempty"`
	// NoInvoice is set if a fact shows that the payment pays no invoice. Session is the checkout session of the
	// payment, or empty.
	NoInvoice bool   `json:",omitempty"`
	Session   string `json:",omitempty"`
	// SucceededBy is the first fact that shows the payment as succeeded.
	SucceededBy fact.Cause `json:",omitzero"`
	// SucceededAt is when the money moved: the earliest reported time, or else an estimate. It is the date of the
	// entry.
	SucceededAt time.Time `json:",omitzero"`
	// Estimated is set while no fact reports when the money moved.
	Estimated bool `json:",omitempty"`
	// Status is empty while only other objects, and no fact, refer to the payment.
	Status   string
	Amount   int64
	Currency string
	// Captures lists the captures of the payment. It is empty unless there are several.
	Captures []Capture `json:",omitempty"`
	// Refunded is the larger of two sums: the refunded amount in the last snapshots of the charges, and the refunds
	// that succeeded. The charge and its refund can be reported in either order.
	Refunded int64 `json:",omitempty"`
	// Unexplained is the part of the charges' refunded amount for which no refund is known.
	Unexplained int64 `json:",omitempty"`
	// UnexplainedBy is the last fact of a charge that reports a refund which no refund event reports. It is zero if
	// there is no such fact.
	UnexplainedBy fact.Cause `json:",omitzero"`
	// RefundedBy is the fact of the last refund. It is zero if there is none.
	RefundedBy fact.Cause `json:",omitzero"`
}

// PaymentOf computes a payment from the facts about it and about its refunds. Apply sets the account.
func PaymentOf(id string, facts []fact.Fact, refunds []*Refund) *Payment {
	p := &Payment{Ref: Ref{ID: id}}
	refunded := map[string]fact.Fact{} // the last snapshot by charge
	since := map[string]fact.Cause{}   // the fact that first reported the refunded amount, by charge
	var estimate time.Time
	for _, f := range fact.InOrder(facts, fact.PaymentSeen) {
		seen := f.Payment
		p.Customer, p.Invoice, p.Charge = cmp.Or(f.Customer, p.Customer), cmp.Or(seen.Invoice, p.Invoice),
			cmp.Or(seen.Charge, p.Charge)
		p.OutOfBand, p.NoInvoice = p.OutOfBand || seen.OutOfBand, p.NoInvoice || seen.NoInvoice
		if seen.Status == "succeeded" {
			p.SucceededBy, p.SucceededAt = cmp.Or(p.SucceededBy, fact.CauseOf(f)), earlier(p.SucceededAt, seen.PaidAt)
			estimate = earlier(estimate, cmp.Or(seen.CreatedAt, f.OccurredAt))
			p.Captures = withCapture(p.Captures, Capture{seen.Amount, cmp.Or(seen.PaidAt, f.OccurredAt)})
		}
		p.Status = cmp.Or(seen.Status, p.Status) // an invoice payment may have no status
		p.Amount, p.Currency = cmp.Or(seen.Amount, p.Amount), cmp.Or(seen.Currency, p.Currency)
		if before, again := refunded[seen.Charge]; seen.Refunded != nil &&
			(!again || before.OccurredAt.Before(f.OccurredAt) || *before.Payment.Refunded < *seen.Refunded) {
			// Within one second, the larger amount is the later one, because the refunded amount only grows.
			refunded[seen.Charge] = f
			if !again || *before.Payment.Refunded != *seen.Refunded {
				since[seen.Charge] = fact.CauseOf(f)
			}
		}
	}
	p.Estimated = p.SucceededAt.IsZero() && !estimate.IsZero()
	p.SucceededAt = cmp.Or(p.SucceededAt, estimate)
	p.NoInvoice = p.NoInvoice && p.Invoice == ""
	p.Assigned = fact.LinkedTo(fact.InOrder(facts))
	var sum, said, known int64
	var saidBy, summedBy fact.Cause
	for charge, f := range refunded {
		if *f.Payment.Refunded > 0 {
			saidBy = laterCause(saidBy, since[charge])
		}
		said += *f.Payment.Refunded - failedSince(f.OccurredAt, f.Payment.Charge, refunds)
	}
	for _, r := range refunds {
		p.Customer = cmp.Or(p.Customer, r.Customer)
		if r.Within == "" && !r.Failed() {
			known += r.Amount
		}
		if r.Status == "succeeded" && !r.ByCharge { // a refund by charge is already part of the sum of the charge
			sum, summedBy = sum+r.Amount, laterCause(summedBy, r.SucceededBy)
		}
	}
	p.Unexplained = max(0, said-known)
	switch p.Refunded = max(said, sum); {
	case sum > 0 && sum >= said:
		p.RefundedBy = summedBy
	case said > 0:
		p.RefundedBy = saidBy
	}
	return p
}

// earlier returns the earlier of two times. It ignores a zero time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// failedSince returns the part of a charge's refunded amount that failed refunds have returned since the given time. No
// later snapshot of the charge shows it.
func failedSince(at time.Time, charge string, refunds []*Refund) (sum int64) {
	for _, r := range refunds {
		if r.Charge == charge && !r.FailedAt.IsZero() && !r.FailedAt.Before(at) {
			sum += r.Amount
		}
	}
	return sum
}

// foldPayment computes a payment, and adds the invoice and the customer of its checkout session.
func foldPayment(id string, with Related) Object {
	refunds := slices.DeleteFunc(Each[*Refund](with.Objects), func(r *Refund) bool { return r.Payment != id })
	p := PaymentOf(id, with.Facts[id], refunds)
	var before Payment
	if was := Find[*Payment](with.Objects, id); was != nil && was.Status == "succeeded" {
		before = *was
	}
	p.Captures = capturesSince(before.Amount, before.SucceededAt, before.Captures, p.Captures)
	if untold := with.Unexplained(id); len(untold) > 0 {
		p.UnexplainedBy = fact.CauseOf(untold[len(untold)-1])
	}
	for _, c := range Each[*Checkout](with.Objects) {
		if c.Payment == id {
			p.Invoice, p.Customer = cmp.Or(p.Invoice, c.Invoice), cmp.Or(p.Customer, c.Customer)
			if c.Sells() {
				p.Session = cmp.Or(p.Session, c.ID)
			}
		}
	}
	return p
}

// Kind implements [Object].
func (*Payment) Kind() Kind { return KindPayment }

// Assign sets the account: the account of the invoice, or else of the checkout session, or else the linked account of
// the customer. A payment that names an unknown invoice has no account until a fact about the invoice arrives. A
// payment without an invoice belongs to its customer.
func (p *Payment) Assign(with Related) {
	p.Purchase = cmp.Or(p.Invoice, p.Session)
	if p.Purchase == "" && (p.NoInvoice || p.Assigned != "") {
		p.Purchase = p.ID
	}
	p.own(with)
	// SucceededBy is kept only for a payment that is booked by itself. Any other payment may be fetched before its
	// event arrives, so the field would depend on the order.
	if p.Purchase != p.ID {
		p.SucceededBy = fact.Cause{}
	}
}

func (p *Payment) own(with Related) {
	i := Find[*Invoice](with.Objects, p.Invoice)
	if p.NotOurs = i != nil && i.NotOurs; i != nil {
		p.Subscription = i.Subscription
	}
	if p.Account = with.Policy.AccountOf(with.Facts[p.ID]); p.Account != "" {
		return
	}
	if i != nil {
		p.Account = i.Account
		return
	}
	for _, c := range Each[*Checkout](with.Objects) {
		if c.Payment == p.ID {
			p.Account = cmp.Or(p.Account, c.Account)
		}
	}
	p.Account = cmp.Or(p.Account, p.Assigned, with.linkedAccount(p.Customer))
	if p.Account == "" && p.Purchase == p.ID {
		p.Account = p.Customer
	}
}

// Replaced returns the known objects, each replaced by the object of now with the same ID, if there is one.
func Replaced[O interface{ id() string }](known []O, now ...O) []O {
	known = slices.DeleteFunc(slices.Clone(known), func(o O) bool {
		return slices.ContainsFunc(now, func(n O) bool { return n.id() == o.id() })
	})
	return append(known, now...)
}

// Scheduled schedules the booking of a payment without an invoice and without a checkout session. pawl waits for the
// settle time first, because the event of a session may be late. Scheduled also schedules the booking of refunds that
// only the charges report.
func (p *Payment) Scheduled(with Related, now time.Time) []Due {
	var due []Due
	if p.UnexplainedBy != (fact.Cause{}) && !p.UnexplainedBy.At.Before(with.Policy.EffectsFrom) {
		at := with.soon(p.UnexplainedBy.At.Add(with.Policy.Settle), now)
		due = append(due, Due{At: at, Kind: DueBook, Object: p.ID, Cause: p.UnexplainedBy})
	}
	if p.Purchase != p.ID || p.SucceededBy == (fact.Cause{}) || p.SucceededBy.At.Before(with.Policy.EffectsFrom) {
		return due
	}
	at := with.soon(p.SucceededBy.At.Add(with.Policy.Settle), now)
	d := Due{At: at, Kind: DueBook, Object: p.ID, Step: len(p.Captures), Cause: p.SucceededBy}
	for _, r := range Each[*Refund](with.Objects) { // a new step schedules the booking of each refund and movement
		if r.Payment == p.ID && r.Succeeded() {
			d.Step++
		}
		if r.Payment == p.ID && r.Failed() {
			d.Step++
		}
	}
	for _, o := range Each[*Dispute](with.Objects) {
		if o.Payment == p.ID {
			d.Step += len(o.Movements)
		}
	}
	if p.Assigned != "" && d.Step == 0 { // the assignment books it at once; see schedule
		return due
	}
	return append(due, d)
}

// Capture is one of several captures of an authorised payment; see https://docs.stripe.com/payments/multicapture.
type Capture struct {
	// Sum is the amount of this capture and all earlier captures.
	Sum int64
	At  time.Time
}

// withCapture appends a capture if its sum exceeds the sum of the last one.
func withCapture(list []Capture, c Capture) []Capture {
	last := int64(0)
	if len(list) > 0 {
		last = list[len(list)-1].Sum
	}
	if c.Sum <= last {
		return list
	}
	return append(list, c)
}

// capturesSince returns the captures of a payment, or nil if there is only one. sum, at and before are the amount, time
// and captures of the earlier fold; sum is 0 for a new payment. Earlier captures never change, because they may be
// booked.
func capturesSince(sum int64, at time.Time, before, now []Capture) []Capture {
	list := slices.Clone(before)
	if len(list) == 0 {
		list = withCapture(nil, Capture{sum, at})
	}
	for _, c := range now {
		list = withCapture(list, c)
	}
	if len(list) < 2 {
		return nil
	}
	return list
}
