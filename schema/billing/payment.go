package billing

import "cmp"

// Payment is what the facts about a charge, or a payment intent, fold to.
type Payment struct {
	ID       string
	Customer string `json:",omitempty"`
	Invoice  string `json:",omitempty"`
	Charge   string `json:",omitempty"`
	Status   string
	Amount   int64
	Currency string
	// Refunded is the larger of what the last snapshot says and what the refunds that succeeded sum up to: whichever of
	// them comes first.
	Refunded int64  `json:",omitempty"`
	Because  string `json:",omitempty"`
}

// FoldPayment makes a payment of the facts about it and of its refunds.
func FoldPayment(id string, facts []Fact, refunds []Refund) Payment {
	p := Payment{ID: id}
	for _, f := range InOrder(facts, PaymentSeen) {
		seen := f.Payment
		p.Customer, p.Invoice, p.Charge = cmp.Or(f.Customer, p.Customer), cmp.Or(seen.Invoice, p.Invoice), cmp.Or(seen.Charge, p.Charge)
		p.Status = cmp.Or(seen.Status, p.Status) // what ties a payment to its invoice need not say how it stands
		p.Amount, p.Currency, p.Refunded, p.Because = seen.Amount, seen.Currency, seen.Refunded, f.EventID
	}
	var sum int64
	for _, r := range refunds {
		if r.Status == "succeeded" {
			sum += r.Amount
		}
	}
	p.Refunded = max(p.Refunded, sum)
	return p
}
