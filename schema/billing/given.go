package billing

import "slices"

// Given is what the subscription grants while it grants at all.
func (s Subscription) Given() Sale {
	if s.Instead != nil {
		return *s.Instead
	}
	return s.Sale
}

// Gave reports whether the subscription granted anything, before a change. It may be nil: it was not known.
func (s *Subscription) Gave() bool { return s != nil && s.gives() }

// welcomes is the plan that a customer can be welcomed on: what it grants, "" for nothing. It may be nil.
func (s *Subscription) welcomes() string {
	if s == nil || s.Ended() || !s.gives() {
		return ""
	}
	return s.Given().Plan
}

// GaveBefore reports whether the fact tells that a subscription granted before the change.
func (f Fact) GaveBefore() bool {
	return f.Subscription != nil && f.Subscription.Before != nil && granting(f.Subscription.Before.Status)
}

// give decides on the grant. A refusal withholds the order that was refused: the newest one before it that was
// granted or paid for, and was not refused itself, is granted instead.
func (s *Subscription) give(facts, snapshots []Fact, invoices []Invoice, p Policy) {
	if p.GrantOnPayment {
		s.Instead = s.paidFor(invoices, p)
	}
	if s.Refused = withheld(facts, s.Given().Prices); !s.Refused {
		return
	}
	for _, earlier := range s.earlier(snapshots, invoices, p) {
		if !withheld(facts, earlier.Prices) {
			s.Instead = &earlier
			return
		}
	}
	s.Instead, s.Withheld = nil, true
}

// earlier lists what the subscription has granted, the newest first: by its snapshots, then by what was paid.
func (s Subscription) earlier(snapshots []Fact, invoices []Invoice, p Policy) (list []Sale) {
	add := func(snapshot *SubscriptionFact) {
		if snapshot == nil || !granting(snapshot.Status) {
			return
		}
		if b := snapshot.purchase(p); b.Plan != "" || len(b.AddOns) > 0 {
			list = append(list, b.Sale)
		}
	}
	for _, f := range slices.Backward(snapshots) {
		add(f.Subscription)
		add(f.Subscription.Before)
	}
	for _, i := range slices.Backward(invoices) {
		if i.paid() && i.Plan != "" && !s.paidAfterEnd(i) {
			list = append(list, i.Sale)
		}
	}
	return list
}

// paidFor returns what the newest paid invoice of a plan was for, where that is less than the subscription is now;
// nil otherwise. A lower plan, or one without any paid invoice, is granted with the change. An invoice without seats,
// for a fee alone, tells nothing of those.
func (s Subscription) paidFor(invoices []Invoice, p Policy) *Sale {
	seatless := false
	for _, i := range slices.Backward(invoices) {
		if !i.paid() || i.Plan == "" {
			continue
		}
		more := p.Compare(s.Plan, i.Plan)
		if more == 0 && i.Quantity == 0 {
			seatless = true
			continue
		}
		if more > 0 && !seatless || more == 0 && s.Quantity > i.Quantity {
			return &i.Sale
		}
		break
	}
	return nil
}
