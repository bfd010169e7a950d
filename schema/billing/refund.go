package billing

import (
	"cmp"
	"slices"
	"time"
)

// Refund is what the facts about a refund fold to.
type Refund struct {
	ID string
	// Owner is its payment's.
	Owner
	Charge        string `json:",omitempty"`
	PaymentIntent string `json:",omitempty"`
	// Status is the highest of pending, requires_action < succeeded < failed, canceled.
	Status   string
	Amount   int64
	Currency string
	// SucceededAt and FailedAt are when the first fact said so, zero while none did. One that succeeded can still fail:
	// both are booked.
	SucceededAt time.Time `json:",omitzero"`
	FailedAt    time.Time `json:",omitzero"`
	// SucceededBy is the first fact that said that it succeeded.
	SucceededBy Cause  `json:",omitzero"`
	Because     string `json:",omitempty"`
}

// Payment names the payment that it pays back.
func (r Refund) Payment() string { return cmp.Or(r.PaymentIntent, r.Charge) }

// Succeeded reports whether any fact said so; it can have failed as well.
func (r Refund) Succeeded() bool { return !r.SucceededAt.IsZero() }

// Failed reports whether any fact said so.
func (r Refund) Failed() bool { return !r.FailedAt.IsZero() }

// FoldRefund makes a refund of the facts about it. Its Owner is left to Apply, but for the customer.
func FoldRefund(id string, facts []Fact) Refund {
	order := []string{"pending", "requires_action", "succeeded", "canceled", "failed"}
	r := Refund{ID: id}
	for _, f := range InOrder(facts, RefundSeen) {
		seen := f.Refund
		r.Customer, r.Charge = cmp.Or(f.Customer, r.Customer), cmp.Or(seen.Charge, r.Charge)
		r.PaymentIntent = cmp.Or(seen.PaymentIntent, r.PaymentIntent)
		if r.Because == "" || slices.Index(order, seen.Status) > slices.Index(order, r.Status) {
			r.Status, r.Amount, r.Currency, r.Because = seen.Status, seen.Amount, seen.Currency, f.EventID
		}
		switch seen.Status {
		case "succeeded":
			r.SucceededAt, r.SucceededBy = cmp.Or(r.SucceededAt, f.OccurredAt), cmp.Or(r.SucceededBy, causeOf(f))
		case "failed", "canceled":
			r.FailedAt = cmp.Or(r.FailedAt, f.OccurredAt)
		}
	}
	return r
}

var writeRefundSQL = upsert("refunds", "account", "payment", "invoice", "subscription", "customer", "status", "amount", "currency", "state")
