package billing

import "slices"

// PaidFor is what the newest paid invoice was for.
type PaidFor struct {
	Plan     string
	Quantity int64    `json:",omitempty"`
	AddOns   []string `json:",omitempty"`
}

// paidFor returns what the newest paid invoice of a plan was for, where that is less than the subscription is now;
// nil otherwise. A lower plan, or one without any paid invoice, is granted with the change.
func (s Subscription) paidFor(invoices []Invoice, p Policy) *PaidFor {
	for _, i := range slices.Backward(invoices) {
		if !i.paid() || i.Plan == "" {
			continue
		}
		if more := p.Compare(s.Plan, i.Plan); more > 0 || more == 0 && s.Quantity > i.Quantity {
			return &PaidFor{i.Plan, i.Quantity, i.AddOns}
		}
		break
	}
	return nil
}
