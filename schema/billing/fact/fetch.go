package fact

import (
	"slices"
	"time"
)

// LacksLines reports whether the fact is a paid invoice without its last lines. The purchase is then unknown until the
// lines are fetched.
func (f Fact) LacksLines() bool {
	return f.Invoice != nil && f.Invoice.Partial && f.Invoice.Status == "paid"
}

// LacksItems reports whether the fact is a subscription that grants access and has an incomplete list of items. A
// subscription that has ended or is suspended grants nothing, so its items are not needed.
func (f Fact) LacksItems() bool {
	return f.Subscription != nil && f.Subscription.Partial && Granting(f.Subscription.Status)
}

// LacksSale reports whether the fact is a completed one-off checkout session without lines. The lines are always
// missing in an event. The session may be unpaid: if its payment is captured later, Stripe sends no event of the
// session.
func (f Fact) LacksSale() bool {
	c := f.Checkout
	return c != nil && c.Mode == "payment" && c.Invoice == "" && c.Status == "complete" && len(c.Lines) == 0
}

// WithSale returns the session with the lines of the fetched session. It ignores all other fetched fields, because
// the event itself proves the payment and its time.
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

// catchesUp bounds how stale an object from the provider's API can be. A minute after a change, the API returns the
// changed object.
const catchesUp = time.Minute

// mayShow is added to the time of a fetched object. That time is the start of the request, but the provider reads the
// object at any moment until its response.
const mayShow = time.Minute

// MayShow reports whether the object of the fact may include a change that was made at the given time.
func (f Fact) MayShow(at time.Time) bool {
	until := f.OccurredAt
	if f.Origin == FromFetch {
		until = until.Add(mayShow)
	}
	return !at.After(until)
}

// Behind reports whether a fetched snapshot is older than the newest known fact. An invoice is older if its status is
// lower. A snapshot of a subscription that has ended is never older. Any other snapshot of a subscription is older in
// two cases: it was fetched in the second of the newest fact or before, or it shows a state that the changes of that
// second replaced. In the latter case the provider returned a stale copy, unless more than [catchesUp] has passed.
// After that time, the subscription has changed back, and the event of this change is late or lost.
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
