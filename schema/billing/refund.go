package billing

import (
	"cmp"
	"slices"
	"time"
)

// Refund is what the facts about a refund fold to.
type Refund struct {
	// Ref names the payment that it pays back; the rest is the payment's.
	Ref
	Charge string `json:",omitempty"`
	// Status is the highest of pending, requires_action < succeeded < failed, canceled.
	Status string
	Amount int64
	// Tax is the part of Amount that is tax, in proportion to the purchase; 0 as long as that is not known.
	Tax      int64 `json:",omitempty"`
	Currency string
	// SucceededAt and FailedAt are when the first fact said so, zero while none did. One that succeeded can still fail:
	// both are booked.
	SucceededAt time.Time `json:",omitzero"`
	FailedAt    time.Time `json:",omitzero"`
	// SucceededBy is the first fact that said that it succeeded, FailedBy the first that said that it failed.
	SucceededBy Cause `json:",omitzero"`
	FailedBy    Cause `json:",omitzero"`
	// CreatedAt, ByCharge and Known are as a [RefundFact]'s.
	CreatedAt time.Time `json:",omitzero"`
	ByCharge  bool      `json:",omitempty"`
	Known     []string  `json:",omitempty"`
	// Within is the refund by the charge that this one is a part of, "" for none: it is booked and announced already.
	Within string `json:",omitempty"`
}

// Succeeded reports whether any fact said so; it can have failed as well.
func (r Refund) Succeeded() bool { return !r.SucceededAt.IsZero() }

// Failed reports whether any fact said so.
func (r Refund) Failed() bool { return !r.FailedAt.IsZero() }

// FoldRefund makes a refund of the facts about it. Its account is left to Apply.
func FoldRefund(id string, facts []Fact) *Refund {
	order := []string{"pending", "requires_action", "succeeded", "canceled", "failed"}
	r := &Refund{Ref: Ref{ID: id}}
	intent := ""
	for _, f := range InOrder(facts, RefundSeen) {
		seen := f.Refund
		r.Customer, r.Charge = cmp.Or(f.Customer, r.Customer), cmp.Or(seen.Charge, r.Charge)
		intent = cmp.Or(seen.PaymentIntent, intent)
		r.CreatedAt, r.ByCharge, r.Known = cmp.Or(r.CreatedAt, seen.CreatedAt), seen.ByCharge, seen.Known
		if r.Status == "" || slices.Index(order, seen.Status) > slices.Index(order, r.Status) {
			r.Status, r.Amount, r.Currency = seen.Status, seen.Amount, seen.Currency
		}
		switch seen.Status {
		case "succeeded":
			r.SucceededAt, r.SucceededBy = cmp.Or(r.SucceededAt, f.OccurredAt), cmp.Or(r.SucceededBy, causeOf(f))
		case "failed", "canceled":
			r.FailedAt, r.FailedBy = cmp.Or(r.FailedAt, f.OccurredAt), cmp.Or(r.FailedBy, causeOf(f))
			if seen.Returned {
				r.SucceededAt = cmp.Or(r.SucceededAt, seen.CreatedAt, f.OccurredAt)
			}
		}
	}
	r.Payment, r.Claimed = cmp.Or(intent, r.Charge), linkedTo(InOrder(facts))
	return r
}

func (*Refund) kind() kind { return kindRefund }

func (r *Refund) assign(with related) {
	r.Ref.assign(with)
	r.Within = r.within(each[*Refund](with.objects))
	i := find[*Invoice](with.objects, r.Invoice)
	if r.Unbilled = r.Invoice != "" && i == nil; i != nil {
		r.Tax = TaxOf(r.Amount, i.Due, i.Tax)
		return
	}
	for _, c := range each[*Checkout](with.objects) {
		if c.Payment == r.Payment {
			r.Tax = TaxOf(r.Amount, c.Amount, c.Tax)
		}
	}
}

// due books it without tax, once nothing has told of its invoice for the time to settle.
func (r *Refund) due(with related, now time.Time) []Due {
	step := 0
	if r.Failed() {
		step++
	}
	return r.bookUnbilled(with, cmp.Or(r.FailedBy, r.SucceededBy), step, now)
}

func (r *Refund) announces() (list []string) {
	if r.Succeeded() && r.Within == "" {
		list = append(list, "refund.succeeded")
	}
	if r.Failed() {
		list = append(list, "refund.failed")
	}
	return list
}

func (r *Refund) news(s Subject, before Object) []news {
	return r.newsSince(before, refundNews{r.Account, s.Mode, r.ID, r.Charge, r.Invoice, r.Status, r.Amount, r.Currency,
		s.EventID})
}

// refundNews is the data of refund.succeeded and refund.failed.
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
