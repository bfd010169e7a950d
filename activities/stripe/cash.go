package stripe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"time"

	api "github.com/stripe/stripe-go/v76"

	"github.com/pawlhq/pawl/activities/effect"
)

// Cash is a movement of a customer's money on Stripe's balance: a charge, a successful refund, or a balance transaction
// of a dispute. Its amount is before fees and in the currency that the customer paid in. Payouts, fees and adjustments
// are excluded.
type Cash struct {
	// Object is the payment, the refund, or the balance transaction of a dispute. Payment is the payment intent, or
	// the charge if there is no payment intent.
	Object, Payment string
	Amount          int64
	Currency        string
	At              time.Time
	// Pending is set as long as Stripe returns no balance transaction.
	Pending bool
}

// settling reads a list of payments or refunds with the balance transaction of each object. If the key has no
// permission for balance transactions, it reads the list without them.
func (r *reading) settling(ctx context.Context, name string, query url.Values, about string) ([]Listed, error) {
	if !r.noBalance {
		with := maps.Clone(query)
		with.Set("expand[]", "data.balance_transaction")
		list, err := r.all(ctx, List{name, with})
		failure, failed := errors.AsType[*effect.Failure](err)
		if r.noBalance = failed && failure.Health == effect.Denied; !r.noBalance {
			return list, err
		}
	}
	return r.read(ctx, name, query, about)
}

// charged adds the cash of a charge and of its refunds and disputes in found.
func (r *reading) charged(body []byte, found []Listed) {
	var c api.Charge
	if json.Unmarshal(body, &c) != nil || c.Status != api.ChargeStatusSucceeded {
		return
	}
	payment := c.ID
	if c.PaymentIntent != nil {
		payment = c.PaymentIntent.ID
	}
	r.moved(Cash{Object: payment, Payment: payment, Amount: cmp.Or(c.AmountCaptured, c.Amount),
		Currency: string(c.Currency)}, c.BalanceTransaction, c.Created)
	for _, o := range found {
		switch o.kind() {
		case "refund":
			var f api.Refund
			if json.Unmarshal(o.Body, &f) == nil && f.Status == api.RefundStatusSucceeded {
				r.moved(Cash{Object: f.ID, Payment: payment, Amount: -f.Amount, Currency: string(f.Currency)},
					f.BalanceTransaction, f.Created)
			}
		case "dispute":
			var d api.Dispute
			if json.Unmarshal(o.Body, &d) == nil {
				r.disputed(d, payment)
			}
		}
	}
}

// disputed adds the movements of a dispute. If a movement has another currency than the charge, its amount is the whole
// disputed amount, as in its entry.
func (r *reading) disputed(d api.Dispute, payment string) {
	for _, t := range d.BalanceTransactions {
		amount := d.Amount
		if t.Amount < 0 {
			amount = -amount
		}
		r.moved(Cash{Object: t.ID, Payment: payment, Amount: amount, Currency: string(d.Currency)}, t, d.Created)
	}
}

// moved adds a movement. Its amount is the amount of the balance transaction, unless that has another currency.
func (r *reading) moved(c Cash, on *api.BalanceTransaction, created int64) {
	if c.Pending = on == nil || on.Currency == ""; !c.Pending {
		created = cmp.Or(on.Created, created)
		if string(on.Currency) == c.Currency {
			c.Amount = on.Amount
		}
	}
	c.At = time.Unix(created, 0).UTC()
	r.cash = append(r.cash, c)
}
