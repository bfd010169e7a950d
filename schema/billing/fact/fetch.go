package fact

import (
	"slices"
	"time"
)

// LacksLines reports whether the fact is a paid invoice with a cut list of lines. The purchase is then uncertain.
func (f Fact) LacksLines() bool {
	return f.Invoice != nil && f.Invoice.Partial && f.Invoice.Status == "paid"
}

// LacksItems reports whether the fact is a granting subscription with a cut list of items. An end or a suspension does
// not need the items.
func (f Fact) LacksItems() bool {
	return f.Subscription != nil && f.Subscription.Partial && Granting(f.Subscription.Status)
}

// LacksSale reports whether the fact is a complete one-off session without lines. Events never contain the lines. The
// session may be unpaid: Stripe sends no event of the session if its payment is captured later.
func (f Fact) LacksSale() bool {
	c := f.Checkout
	return c != nil && c.Mode == "payment" && c.Invoice == "" && c.Status == "complete" && len(c.Lines) == 0
}

// WithSale returns the session with the lines of the fetched session. It ignores all other fetched fields, because the
// event itself proves the payment and its time.
func (f Fact) WithSale(fetched []Fact) Fact {
	for _, answer := range fetched {
		if answer.Checkout != nil && answer.Object == f.Object {
			with := *f.Checkout
			with.Lines = answer.Checkout.Lines
			f.Checkout = &with
		}
	}
	return f
}

// LacksRefunds reports whether the fact is a charge that reports only the sum of its refunds.
func (f Fact) LacksRefunds() bool { return f.Payment != nil && f.Payment.ToldAlone }

// catchesUp is how long the provider may still return an object from before a change.
const catchesUp = time.Minute

// mayShow is how long after its time a fetched object may still show changes: its time is the beginning of the request,
// and the provider reads the object at any moment until its response.
const mayShow = time.Minute

// MayShow reports whether the object of the fact can contain a change that was made at a time.
func (f Fact) MayShow(at time.Time) bool {
	until := f.OccurredAt
	if f.Origin == FromFetch {
		until = until.Add(mayShow)
	}
	return !at.After(until)
}

// Behind reports whether a fetched snapshot is older than the known facts. An invoice is older if its status is lower.
// An ended subscription is never older. Any other subscription is older in two cases: its snapshot is not later than
// the newest known second, or it shows a state that a change of that second replaced and that no change of that second
// reached. In the second case, the provider returned a stale copy. After [catchesUp] the subscription has returned to
// the earlier state, and the event of this change is late or lost.
func Behind(fetched Fact, known []Fact) bool {
	switch {
	case fetched.Invoice != nil:
		return slices.ContainsFunc(InOrder(known, InvoiceSeen),
			func(f Fact) bool { return Height(f) > Height(fetched) })
	case fetched.Subscription == nil || fetched.Subscription.Over():
		return false
	}
	snapshots := InOrder(known, SubscriptionSeen)
	if len(snapshots) == 0 {
		return false
	}
	newest, left := snapshots[len(snapshots)-1].OccurredAt, false
	switch {
	case !fetched.OccurredAt.After(newest):
		return true
	case fetched.OccurredAt.Sub(newest) > catchesUp:
		return false
	}
	for _, f := range snapshots {
		s := f.Subscription
		if f.OccurredAt.Equal(newest) {
			if s.shownBy(fetched.Subscription) {
				return false
			}
			s = s.Before
		}
		left = left || s != nil && s.shownBy(fetched.Subscription)
	}
	return left
}
