package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/forge"
)

// share is a part of the events of a month: what happens to a subscriber of a month ago, the event that is measured, and
// how many requests reach the sinks for it.
type share struct {
	percent   int
	happens   func(*forge.Customer)
	eventType string
	requests  int
}

// The plans of the subscribers.
var (
	monthly = forge.Plan{Name: "starter", Price: "price_starter", Amount: 1900, Days: 30}
	higher  = forge.Plan{Name: "pro", Price: "price_pro", Amount: 4900, Days: 30}
)

// month is what happens in a month: most subscribers pay.
var month = []share{
	// A mail.
	{2, (*forge.Customer).RenewInVain, "invoice.payment_failed", 1},
	// The workspace, a mail, and that access has changed.
	{1, (*forge.Customer).End, "customer.subscription.deleted", 3},
	// The same.
	{5, func(c *forge.Customer) { c.Change(higher, 1) }, "customer.subscription.updated", 3},
	// An entry, a receipt.
	{92, (*forge.Customer).Renew, "invoice.paid", 2},
}

// shareOf spreads the shares over a month's events.
func shareOf(n int) share {
	at := n * 37 % 100 // 37 has no factor in common with 100: each number comes once in a hundred
	for _, s := range month {
		if at -= s.percent; at < 0 {
			return s
		}
	}
	panic("bench: the shares of a month are less than a hundred percent")
}

// monthJob is the whole way of one event of the mixed month. Its subscriber is there before the clock runs.
func (f *flow) monthJob(ctx context.Context) (job, error) {
	account := "bench-" + rand.Text()
	of := shareOf(int(f.months.Add(1) - 1))
	c := forge.NewCustomer(forge.Params{Account: account}, 24*time.Hour)
	now := time.Now()
	c.At(now.AddDate(0, 0, -monthly.Days))
	c.Subscribe(monthly, 1, 0)
	before, err := c.Events()
	if err != nil {
		return nil, err
	}
	done := f.sinks.expect(account, outside)
	for _, eventType := range []string{"customer.subscription.created", "invoice.paid"} {
		if err := f.post(ctx, only(before, eventType)); err != nil {
			return nil, err
		}
	}
	if err := wait(ctx, done); err != nil {
		return nil, fmt.Errorf("subscribe %s: %w", account, err)
	}
	c.At(now)
	of.happens(c)
	events, err := c.Events()
	if err != nil {
		return nil, err
	}
	e := only(events, of.eventType)
	done = f.sinks.expect(account, of.requests)
	return func(ctx context.Context) (string, error) {
		if err := f.post(ctx, e); err != nil {
			return "", err
		}
		if err := wait(ctx, done); err != nil {
			return "", fmt.Errorf("%s: %w", of.eventType, err)
		}
		return "stripe:" + e.ID, nil
	}, nil
}

// only returns the event of a type.
func only(events []forge.Event, eventType string) forge.Event {
	return events[slices.IndexFunc(events, func(e forge.Event) bool { return e.Type == eventType })]
}
