package fold

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Refund is the state of a refund, computed from its facts.
type Refund struct {
	// Ref contains the refunded payment. Its other fields are copied from that payment.
	Ref
	Charge string `json:",omitempty"`
	// Status is the highest status in the facts: pending, requires_action < succeeded < failed, canceled.
	Status string
	Amount int64
	// Tax is the tax in Amount, in proportion to the tax of the purchase. Taxed reports whether the tax is known. Tax
	// is set once and never changes. The taxes of all refunds of a purchase add up to the tax of the purchase in every
	// order of delivery. Each single tax can differ by one minor unit.
	Tax      int64 `json:",omitempty"`
	Taxed    bool  `json:",omitempty"`
	Currency string
	// SucceededAt and FailedAt are the times of the first facts that show the success and the failure, or zero. A
	// refund can fail after it succeeded; both are booked.
	SucceededAt time.Time `json:",omitzero"`
	FailedAt    time.Time `json:",omitzero"`
	// SucceededBy is the first fact that shows the success, FailedBy the first fact that shows the failure.
	SucceededBy fact.Cause `json:",omitzero"`
	FailedBy    fact.Cause `json:",omitzero"`
	// CreatedAt, ByCharge and Known are copied from [fact.Refund].
	CreatedAt time.Time `json:",omitzero"`
	ByCharge  bool      `json:",omitempty"`
	Known     []string  `json:",omitempty"`
	// Within is the ID of the refund by charge that already contains this refund, or empty. If it is set, this refund
	// is neither booked nor published again.
	Within string `json:",omitempty"`
}

// Succeeded reports whether a fact shows that the refund succeeded. The refund may have failed later.
func (r Refund) Succeeded() bool { return !r.SucceededAt.IsZero() }

// Failed reports whether a fact shows that the refund failed.
func (r Refund) Failed() bool { return !r.FailedAt.IsZero() }

// RefundOf computes a refund from the facts about it. Apply sets the account.
func RefundOf(id string, facts []fact.Fact) *Refund {
	order := []string{"pending", "requires_action", "succeeded", "canceled", "failed"}
	r := &Refund{Ref: Ref{ID: id}}
	intent := ""
	for _, f := range fact.InOrder(facts, fact.RefundSeen) {
		seen := f.Refund
		r.Customer, r.Charge = cmp.Or(f.Customer, r.Customer), cmp.Or(seen.Charge, r.Charge)
		intent = cmp.Or(seen.PaymentIntent, intent)
		r.CreatedAt, r.ByCharge, r.Known = cmp.Or(r.CreatedAt, seen.CreatedAt), seen.ByCharge, seen.Known
		if r.Status == "" || slices.Index(order, seen.Status) > slices.Index(order, r.Status) {
			r.Status, r.Amount, r.Currency = seen.Status, seen.Amount, seen.Currency
		}
		switch seen.Status {
		case "succeeded":
			r.SucceededAt, r.SucceededBy = cmp.Or(r.SucceededAt, f.OccurredAt), cmp.Or(r.SucceededBy, fact.CauseOf(f))
		case "failed", "canceled":
			r.FailedAt, r.FailedBy = cmp.Or(r.FailedAt, f.OccurredAt), cmp.Or(r.FailedBy, fact.CauseOf(f))
			if seen.Returned {
				r.SucceededAt = cmp.Or(r.SucceededAt, seen.CreatedAt, f.OccurredAt)
			}
		}
	}
	r.Payment, r.Assigned = cmp.Or(intent, r.Charge), fact.LinkedTo(fact.InOrder(facts))
	return r
}

// Kind implements [Object].
func (*Refund) Kind() Kind { return KindRefund }

// Assign implements [Object].
func (r *Refund) Assign(with Related) {
	r.Ref.Assign(with)
	r.Within = r.within(Each[*Refund](with.Objects))
	i := Find[*Invoice](with.Objects, r.Invoice)
	if r.Unbilled = r.Invoice != "" && i == nil; i != nil {
		r.share(i.Due, i.Tax, with, func(o *Refund) bool { return o.Invoice == r.Invoice })
		return
	}
	for _, c := range Each[*Checkout](with.Objects) {
		if c.Payment == r.Payment {
			r.share(c.Amount, c.Tax, with, func(o *Refund) bool { return o.Payment == r.Payment })
		}
	}
}

// share sets the tax of a successful refund. The tax is the tax of all refunds of the purchase minus the tax of the
// other refunds. A failed refund does not count. total and tax belong to the purchase, and same selects the refunds of
// the purchase.
func (r *Refund) share(total, tax int64, with Related, same func(*Refund) bool) {
	if r.Taxed || !r.Succeeded() || r.Within != "" {
		return
	}
	sum, taxed := r.Amount, int64(0)
	for _, o := range Each[*Refund](with.Objects) {
		if o.ID != r.ID && o.Taxed && !o.Failed() && same(o) {
			sum, taxed = sum+o.Amount, taxed+o.Tax
		}
	}
	r.Tax, r.Taxed = max(0, TaxOf(sum, total, tax)-taxed), true
}

// Scheduled schedules the booking of a refund with an unknown invoice. The refund is then booked without tax after the
// settle time.
func (r *Refund) Scheduled(with Related, now time.Time) []Due {
	step := 0
	if r.Failed() {
		step++
	}
	return r.bookUnbilled(with, cmp.Or(r.FailedBy, r.SucceededBy), step, now)
}

// Announces implements [Object].
func (r *Refund) Announces() (list []string) {
	if r.Succeeded() && r.Within == "" {
		list = append(list, "billing.refund.succeeded")
	}
	if r.Failed() {
		list = append(list, "billing.refund.failed")
	}
	return list
}

// News implements [Object].
func (r *Refund) News(s fact.Subject, before Object) []News {
	return r.newsSince(before, refundNews{r.Account, s.Mode, r.ID, r.Charge, r.Invoice, r.Status, r.Amount, r.Currency,
		s.EventID})
}

// refundNews is the data of billing.refund.succeeded and billing.refund.failed.
type refundNews struct {
	Account     string `json:"account"`
	Mode        string `json:"mode"`
	Refund      string `json:"refund"`
	Charge      string `json:"charge,omitempty"`
	Invoice     string `json:"invoice,omitempty"`
	Status      string `json:"status"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	SourceEvent string `json:"source_event"`
}
