package stripe

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	api "github.com/stripe/stripe-go/v76"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// Moved is what a charge or a refund has moved. Amount is in minor units of Currency, as the customer sees it.
type Moved struct {
	Amount   int64
	Currency string
	// Settlement is what moved on Stripe's balance, nil as long as Stripe shows nothing. Under asynchronous capture
	// that comes later than the event of the charge
	// (https://docs.stripe.com/payments/payment-intents/asynchronous-capture).
	Settlement *billing.Settlement
}

// Charged returns what the charges of a payment intent that succeeded have moved; or the charge, for one without an
// intent. It is one request. The error is like that of [Client.Object].
func (c *Client) Charged(ctx context.Context, payment, account string) ([]Moved, error) {
	query, charges := url.Values{}, struct{ Data []api.Charge }{Data: make([]api.Charge, 1)}
	path, into := api.FormatURLPath("/v1/charges/%s", payment), any(&charges.Data[0])
	expand := "balance_transaction"
	if strings.HasPrefix(payment, "pi_") {
		query.Set("payment_intent", payment)
		path, into, expand = "/v1/charges", &charges, "data.balance_transaction"
	}
	query.Set("expand[]", expand)
	if err := c.read(ctx, path, account, query, into); err != nil {
		return nil, err
	}
	var all []Moved
	for _, charge := range charges.Data {
		if charge.Status == api.ChargeStatusSucceeded {
			amount := cmp.Or(charge.AmountCaptured, charge.Amount)
			all = append(all, moved(amount, charge.Currency, charge.BalanceTransaction))
		}
	}
	return all, nil
}

// Refunded returns what a refund has moved. It is like [Client.Charged].
func (c *Client) Refunded(ctx context.Context, id, account string) ([]Moved, error) {
	var refund api.Refund
	query := url.Values{"expand[]": {"balance_transaction"}}
	err := c.read(ctx, api.FormatURLPath("/v1/refunds/%s", id), account, query, &refund)
	return []Moved{moved(refund.Amount, refund.Currency, refund.BalanceTransaction)}, err
}

// moved reads a balance transaction; one that was not expanded tells nothing.
func moved(amount int64, currency api.Currency, on *api.BalanceTransaction) Moved {
	m := Moved{Amount: amount, Currency: string(currency)}
	if on != nil && on.Currency != "" {
		m.Settlement = billing.Settled(on.Amount, on.Fee, string(on.Currency))
	}
	return m
}

func (c *Client) read(ctx context.Context, path, account string, query url.Values, into any) error {
	fetched, err := c.get(ctx, path, account, query)
	if err == nil && json.Unmarshal(fetched.Body, into) != nil {
		err = effect.Fault("%s answered %s with what cannot be read", c.host, path)
	}
	return err
}
