package forge

import (
	"time"
)

// Plan is a product on sale: a price, its amount per seat and period, and the days of the period.
type Plan struct {
	Name, Price string
	// Amount is in minor units of the customer's currency.
	Amount int64
	Days   int
}

func (p Plan) interval() string {
	if p.Days > 31 {
		return "year"
	}
	return "month"
}

// Customer is a customer at Stripe who subscribes, pays, changes plans and so on. Each method creates the events that
// Stripe would send: objects in their current state, stable IDs, and earlier values in previous_attributes. The
// amounts of invoices, periods and prorations match each other.
type Customer struct {
	emitter
	day time.Duration
	subscription
	invoices []*invoice
	later    []line // prorations that the next invoice bills
	refunds  int
	refund   object
	dispute  object
	// atCheckout is set if only the checkout session names the account.
	atCheckout bool
}

type subscription struct {
	object
	plan       Plan
	seats      int64
	start, end time.Time // the current period
}

// NewCustomer returns a customer of p's account. day is the duration of a day. The IDs are derived from the account,
// p.Seed and a counter, so two customers with the same history have IDs in the same order.
func NewCustomer(p Params, day time.Duration) *Customer {
	p.Provider.Name = stripe
	return &Customer{day: day, emitter: emitter{params: p, token: hash(p.Account+" "+p.Seed, "customer", 14),
		named: map[string]string{}, told: map[string]object{}}}
}

func (c *Customer) days(n int) time.Duration { return time.Duration(n) * c.day }
