package fold

import (
	"slices"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Given returns the grant of the subscription, if its status permits access: the order, or the purchase in its place.
func (s Subscription) Given() fact.Sale {
	if s.Instead != nil {
		return *s.Instead
	}
	return s.Sale
}

// Welcomes returns the granted plan, for which the customer can receive an onboarding task. It returns "" if no plan is
// granted. s may be nil.
func (s *Subscription) Welcomes() string {
	if s == nil || s.Ended() || !s.gives() {
		return ""
	}
	return s.Given().Plan
}

// give sets the grant of the subscription. If a sink refused the order, the order is withheld. The subscription then
// grants the newest earlier order that was granted or paid and that was not refused.
func (s *Subscription) give(facts, snapshots []fact.Fact, invoices []Invoice, p fact.Policy) {
	s.limit(facts, snapshots, invoices, p)
	order, earlier := s.Given(), s.earlier(snapshots, invoices, p)
	at := slices.IndexFunc(earlier, func(e fact.Sale) bool {
		return !slices.Equal(e.Prices, order.Prices) && !fact.TookBack(facts, e.Prices)
	})
	s.Refused, s.FallsBack = fact.TookBack(facts, order.Prices), at >= 0
	if s.Refused {
		s.RefusedSale = &order
	}
	switch {
	case s.Refused && s.FallsBack:
		s.Instead = &earlier[at]
	case s.Refused:
		s.Instead, s.Withheld = nil, true
	}
}

// earlier lists the earlier grants of the subscription, newest first: the orders in its snapshots, then the orders of
// paid invoices.
func (s Subscription) earlier(snapshots []fact.Fact, invoices []Invoice, p fact.Policy) (list []fact.Sale) {
	add := func(snapshot *fact.Subscription) {
		if snapshot == nil || !fact.Granting(snapshot.Status) {
			return
		}
		if b := snapshot.Purchase(p); b.Plan != "" || len(b.AddOns) > 0 {
			list = append(list, b.Sale)
		}
	}
	for _, f := range slices.Backward(snapshots) {
		add(f.Subscription)
		add(f.Subscription.Before)
	}
	for _, i := range slices.Backward(invoices) {
		if i.IsPaid() && i.Plan != "" && !s.paidAfterEnd(i) {
			list = append(list, i.Sale)
		}
	}
	return list
}

// Money is an amount in minor units of a currency.
type Money struct {
	Amount   int64  `json:",omitempty"`
	Currency string `json:",omitempty"`
}

// owes sets Owed and Settled of a withheld order. It adds up the invoices in the Withheld facts, and later invoices of
// the same order with a period that ends after the refusal. If no invoice was paid, the customer has no access, and the
// task stays open until the subscription ends.
func (s *Subscription) owes(facts []fact.Fact, with Related) {
	if !s.Refused {
		return
	}
	prices := s.RefusedSale.Prices
	var refusals []fact.Fact
	for _, f := range fact.InOrder(facts, fact.Withheld, fact.Reopened) {
		switch {
		case f.Kind == fact.Reopened:
			refusals = nil
		case slices.Equal(f.Decision.Prices, prices):
			refusals = append(refusals, f)
		}
	}
	paid := false
	for _, i := range with.InvoicesOf(s.ID) {
		if !i.IsPaid() || i.Paid == 0 || !slices.ContainsFunc(refusals, func(f fact.Fact) bool {
			return f.Decision.Invoice == i.ID || slices.Equal(i.Prices, prices) && i.PeriodEnd.After(f.OccurredAt)
		}) {
			continue
		}
		paid = true
		if owed := with.owed(i); owed.Amount > 0 {
			s.Owed = Money{s.Owed.Amount + owed.Amount, owed.Currency}
		}
	}
	s.Settled = s.Owed.Amount == 0 && (paid || s.Ended())
}

// owed returns the part of an invoice's payment that has not been paid back.
func (w Related) owed(i Invoice) Money {
	return w.left(i.Paid-i.Refunded, i.Currency, func(d *Dispute) bool { return w.disputed(d) == i.ID })
}

// left returns the amount minus the lost disputes that the function of selects.
func (w Related) left(amount int64, currency string, of func(*Dispute) bool) Money {
	for _, d := range Each[*Dispute](w.Objects) {
		if of(d) && stage(d.Status) == "lost" {
			amount -= d.Amount
		}
	}
	if amount <= 0 {
		return Money{}
	}
	return Money{amount, currency}
}

// Tasks returns the task to refund or to regrant a withheld order.
func (s *Subscription) Tasks() []Task {
	switch {
	case !s.Refused:
		return nil
	case s.FallsBack:
		return correction(s.Ref, s.Owed, s.Settled,
			"The change of "+s.ID+" to "+s.RefusedSale.Plan+" is withheld, and the earlier plan stays")
	}
	return correction(s.Ref, s.Owed, s.Settled, "The order "+s.ID+" is withheld")
}

// correction returns the task to refund or to regrant a withheld order. If the order is settled, the task is cancelled.
func correction(about Ref, owed Money, settled bool, title string) []Task {
	if owed.Amount > 0 {
		title += ": refund the payment, or remove the cause and grant it again with pawl payments regrant " + about.ID
	} else {
		title += ": remove the cause and grant it again with pawl payments regrant " + about.ID
	}
	t := taskWhile(!settled, TaskCorrection, about, title)
	t.Money = owed
	return []Task{t}
}
