package stripe

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	api "github.com/stripe/stripe-go/v76"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Moved is the money that a charge or a refund has moved. Amount is in minor units of Currency, in the customer's
// currency.
type Moved struct {
	Amount   int64
	Currency string
	// Settlement is the movement on Stripe's balance. It is nil until Stripe reports it, which can be later than the
	// event of the charge with asynchronous capture
	// (https://docs.stripe.com/payments/payment-intents/asynchronous-capture).
	Settlement *fold.Settlement
}

// Charged returns the movements of the successful charges of a payment intent, or of a single charge. It makes one
// request. Errors are as for [Client.Object].
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

// PaymentIDs returns the payments of an invoice through Stripe: payment intents, and charges without a payment intent.
// Errors are as for [Client.Object].
func (c *Client) PaymentIDs(ctx context.Context, invoice, account string) (ids []string, err error) {
	var list struct{ Data []object }
	query := url.Values{"invoice": {invoice}, "status": {"paid"}, "limit": {"100"}}
	if err := c.read(ctx, "/v1/invoice_payments", account, query, &list); err != nil {
		return nil, err
	}
	for _, each := range list.Data {
		payment := each.object("payment")
		if id := cmp.Or(payment.ref("payment_intent"), payment.ref("charge")); id != "" && Unusable(id, mostID) == "" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Refunded returns the movement of a refund. It is like [Client.Charged].
func (c *Client) Refunded(ctx context.Context, id, account string) ([]Moved, error) {
	var refund api.Refund
	query := url.Values{"expand[]": {"balance_transaction"}}
	err := c.read(ctx, api.FormatURLPath("/v1/refunds/%s", id), account, query, &refund)
	return []Moved{moved(refund.Amount, refund.Currency, refund.BalanceTransaction)}, err
}

// moved reads a balance transaction. The settlement is nil if it was not expanded.
func moved(amount int64, currency api.Currency, on *api.BalanceTransaction) Moved {
	m := Moved{Amount: amount, Currency: string(currency)}
	if on != nil && on.Currency != "" {
		m.Settlement = fold.Settled(on.Amount, on.Fee, string(on.Currency))
	}
	return m
}

func (c *Client) read(ctx context.Context, path, account string, query url.Values, into any) error {
	fetched, err := c.get(ctx, path, account, query)
	if err == nil && json.Unmarshal(fetched.Body, into) != nil {
		err = effect.Fault("%s answered %s with a body that cannot be parsed", c.host, path)
	}
	return err
}
