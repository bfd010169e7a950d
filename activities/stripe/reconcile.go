package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	api "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"github.com/pawlhq/pawl/schema/billing"
)

// Reconciled is the type of a receipt that holds an object as a person had it fetched. Its body is an envelope like an
// event's, which Stripe never sent.
const Reconciled = "reconcile"

// recentInvoices is how many of a customer's newest invoices are read, beside all that are open: a page.
const recentInvoices = 100

// OfCustomer returns what Stripe holds of a customer: the customer itself, all subscriptions, those that have ended, too,
// and the invoices that are open, or among the newest 100. A customer that Stripe does not have is [ErrNotFound].
func (c *Client) OfCustomer(ctx context.Context, id, account string, p Patience) (held []Listed, err error) {
	var customer Fetched
	if err := p.Do(ctx, func() (err error) {
		customer, err = c.get(ctx, api.FormatURLPath("/v1/customers/%s", id), account, nil)
		return err
	}); err != nil {
		return nil, err
	}
	held = append(held, listed(customer.Body, customer.At))
	seen := map[string]bool{}
	for _, ask := range []struct {
		list, status string
		most         int
	}{{"subscriptions", "all", 0}, {"invoices", "open", 0}, {"invoices", "", recentInvoices}} {
		read, after := 0, ""
		for more := true; more && (ask.most == 0 || read < ask.most); {
			query := &form.Values{}
			query.Add("customer", id)
			if ask.status != "" {
				query.Add("status", ask.status)
			}
			var page []Listed
			if err := p.Do(ctx, func() (err error) {
				page, more, err = c.page(ctx, ask.list, query, after, account)
				return err
			}); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", ask.list, id, err)
			}
			for _, o := range page {
				if after = o.ID; !seen[o.ID] {
					seen[o.ID] = true
					held = append(held, o)
				}
			}
			read += len(page)
		}
	}
	return held, nil
}

// Object returns a subscription or an invoice by its ID; see [Client.Subscription].
func (c *Client) Object(ctx context.Context, kind billing.Kind, id, account string, p Patience) (o Listed, err error) {
	ask := c.Subscription
	if kind == billing.InvoiceSeen {
		ask = c.Invoice
	}
	var fetched Fetched
	err = p.Do(ctx, func() (err error) {
		fetched, err = ask(ctx, id, account)
		return err
	})
	return listed(fetched.Body, fetched.At), err
}

// Envelope returns the body of a receipt that holds the object. Its time is that of the object's facts: when it was
// fetched, or when it came to its end, since it has been like this from then on.
func (l Listed) Envelope(eventID string) ([]byte, error) {
	var o struct {
		Object            string
		Status            string
		EndedAt           int64 `json:"ended_at"`
		StatusTransitions struct {
			PaidAt              int64 `json:"paid_at"`
			VoidedAt            int64 `json:"voided_at"`
			MarkedUncollectible int64 `json:"marked_uncollectible_at"`
		} `json:"status_transitions"`
	}
	if err := json.Unmarshal(l.Body, &o); err != nil {
		return nil, errors.New("an object that Stripe shows cannot be read")
	}
	ended := map[string]int64{
		"subscription canceled": o.EndedAt, "subscription incomplete_expired": o.EndedAt,
		"invoice paid": o.StatusTransitions.PaidAt, "invoice void": o.StatusTransitions.VoidedAt,
		"invoice uncollectible": o.StatusTransitions.MarkedUncollectible,
	}[o.Object+" "+o.Status]
	at := l.At.Unix()
	if ended > 0 {
		at = min(at, ended)
	}
	return json.Marshal(map[string]any{
		"id": eventID, "object": "event", "type": Reconciled, "created": at, "livemode": l.Mode == "live",
		"data": map[string]any{"object": json.RawMessage(l.Body)},
	})
}
