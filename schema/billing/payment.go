package billing

import (
	"cmp"
	"slices"
	"time"
)

// Payment is what the facts about a payment intent and its charges fold to, or about a charge that has none.
type Payment struct {
	// Ref names the invoice that it pays; the subscription is the invoice's. Its account is "" until it is known.
	Ref
	Charge string `json:",omitempty"`
	// OutOfBand is set for what the provider was only told of.
	OutOfBand bool `json:",omitempty"`
	// NoInvoice is set where a fact tells that it pays no invoice. Session is the checkout session that it was made in,
	// "" for none.
	NoInvoice bool   `json:",omitempty"`
	Session   string `json:",omitempty"`
	// SucceededBy is the first fact that said that it succeeded.
	SucceededBy Cause `json:",omitzero"`
	// Status is "" as long as nothing is known but what refers to the payment.
	Status   string
	Amount   int64
	Currency string
	// Refunded is the larger of two sums: the refunds that the last snapshots of its charges tell of, and the refunds
	// that succeeded. Either may come first.
	Refunded int64 `json:",omitempty"`
	// Untold is what its charges say is refunded of it, beyond all refunds that are known.
	Untold int64 `json:",omitempty"`
	// RefundedBy is the fact that told of the last money that was paid back; zero while none was.
	RefundedBy Cause `json:",omitzero"`
}

// FoldPayment makes a payment of the facts about it and of its refunds. Its Account is left to Apply.
func FoldPayment(id string, facts []Fact, refunds []*Refund) *Payment {
	p := &Payment{Ref: Ref{ID: id}}
	refunded := map[string]Fact{} // what each charge says last
	since := map[string]Cause{}   // the fact that says so
	for _, f := range InOrder(facts, PaymentSeen) {
		seen := f.Payment
		p.Customer, p.Invoice, p.Charge = cmp.Or(f.Customer, p.Customer), cmp.Or(seen.Invoice, p.Invoice),
			cmp.Or(seen.Charge, p.Charge)
		p.OutOfBand, p.NoInvoice = p.OutOfBand || seen.OutOfBand, p.NoInvoice || seen.NoInvoice
		if seen.Status == "succeeded" {
			p.SucceededBy = cmp.Or(p.SucceededBy, causeOf(f))
		}
		p.Status = cmp.Or(seen.Status, p.Status) // what ties a payment to its invoice need not say how it stands
		p.Amount, p.Currency = cmp.Or(seen.Amount, p.Amount), cmp.Or(seen.Currency, p.Currency)
		if before, again := refunded[seen.Charge]; seen.Refunded != nil &&
			(!again || before.OccurredAt.Before(f.OccurredAt) || *before.Payment.Refunded < *seen.Refunded) {
			refunded[seen.Charge] = f // within a second, the larger: it only grows
			if !again || *before.Payment.Refunded != *seen.Refunded {
				since[seen.Charge] = causeOf(f)
			}
		}
	}
	p.NoInvoice = p.NoInvoice && p.Invoice == ""
	p.Claimed = linkedTo(InOrder(facts))
	var sum, said, known int64
	var saidBy, summedBy Cause
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
		if r.Status == "succeeded" && !r.ByCharge { // what a charge tells is in its own sum
			sum, summedBy = sum+r.Amount, laterCause(summedBy, r.SucceededBy)
		}
	}
	p.Untold = max(0, said-known)
	switch p.Refunded = max(said, sum); {
	case sum > 0 && sum >= said:
		p.RefundedBy = summedBy
	case said > 0:
		p.RefundedBy = saidBy
	}
	return p
}

// failedSince returns what of a charge was counted as refunded at a time, and has come back since: no snapshot of the
// charge tells of that.
func failedSince(at time.Time, charge string, refunds []*Refund) (sum int64) {
	for _, r := range refunds {
		if r.Charge == charge && !r.FailedAt.IsZero() && !r.FailedAt.Before(at) {
			sum += r.Amount
		}
	}
	return sum
}

// PaymentOf returns the payment that a fact is about, or that its object belongs to; "" for none.
func PaymentOf(f Fact) string {
	switch {
	case f.Payment != nil:
		return f.Object
	case f.Refund != nil:
		return cmp.Or(f.Refund.PaymentIntent, f.Refund.Charge)
	case f.Dispute != nil:
		return cmp.Or(f.Dispute.PaymentIntent, f.Dispute.Charge)
	case f.Warning != nil:
		return cmp.Or(f.Warning.PaymentIntent, f.Warning.Charge)
	case f.Checkout != nil:
		return f.Checkout.PaymentIntent
	case f.Link != nil:
		return f.Link.Payment
	}
	return ""
}

// foldPayment takes over what the checkout session says that the payment was made in.
func foldPayment(id string, with related) Object {
	refunds := slices.DeleteFunc(each[*Refund](with.objects), func(r *Refund) bool { return r.Payment != id })
	p := FoldPayment(id, with.facts[id], refunds)
	for _, c := range each[*Checkout](with.objects) {
		if c.Payment == id {
			p.Invoice, p.Customer = cmp.Or(p.Invoice, c.Invoice), cmp.Or(p.Customer, c.Customer)
			if c.Sells() {
				p.Session = cmp.Or(p.Session, c.ID)
			}
		}
	}
	return p
}

func (*Payment) kind() kind { return kindPayment }

// assign sets the account to that of its invoice, else of the checkout session that it was made in, else to the one
// that its customer is linked to. A payment that names an invoice waits for that; one that is known to have none is its
// customer's.
func (p *Payment) assign(with related) {
	p.Purchase = cmp.Or(p.Invoice, p.Session)
	if p.Purchase == "" && (p.NoInvoice || p.Claimed != "") {
		p.Purchase = p.ID
	}
	p.own(with)
	if p.Purchase != p.ID { // only what is booked by itself needs it, and an answer may be known before the event
		p.SucceededBy = Cause{}
	}
}

func (p *Payment) own(with related) {
	i := find[*Invoice](with.objects, p.Invoice)
	if p.NotOurs = i != nil && i.NotOurs; i != nil {
		p.Subscription = i.Subscription
	}
	if p.Account = with.policy.account(with.facts[p.ID]); p.Account != "" {
		return
	}
	if i != nil {
		p.Account = i.Account
		return
	}
	for _, c := range each[*Checkout](with.objects) {
		if c.Payment == p.ID {
			p.Account = cmp.Or(p.Account, c.Account)
		}
	}
	p.Account = cmp.Or(p.Account, p.Claimed, linkOf(with.facts[p.Customer]))
	if p.Account == "" && p.Purchase == p.ID {
		p.Account = p.Customer
	}
}

// Replaced returns the known objects, with each of now in the place of the one that has its ID.
func Replaced[O interface{ id() string }](known []O, now ...O) []O {
	known = slices.DeleteFunc(slices.Clone(known), func(o O) bool {
		return slices.ContainsFunc(now, func(n O) bool { return n.id() == o.id() })
	})
	return append(known, now...)
}

// due books what was paid for neither an invoice nor a checkout session, and what of it moved since, once nothing has
// told otherwise for the time to settle: an event of its session may be late.
func (p *Payment) due(with related, now time.Time) []Due {
	if p.Purchase != p.ID || p.SucceededBy == (Cause{}) || p.SucceededBy.At.Before(with.policy.EffectsFrom) {
		return nil
	}
	at := with.soon(p.SucceededBy.At.Add(with.policy.Settle), now)
	d := Due{At: at, Why: DueBook, Object: p.ID, Cause: p.SucceededBy}
	for _, r := range each[*Refund](with.objects) { // each movement makes it due again
		if r.Payment == p.ID && r.Succeeded() {
			d.Step++
		}
		if r.Payment == p.ID && r.Failed() {
			d.Step++
		}
	}
	for _, o := range each[*Dispute](with.objects) {
		if o.Payment == p.ID {
			d.Step += len(o.Movements)
		}
	}
	return []Due{d}
}
