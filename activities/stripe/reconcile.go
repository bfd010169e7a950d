package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	api "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// Reconciled is the type of a receipt that holds an object as a person had it fetched. Its body is an envelope like an
// event's, which Stripe never sent. Of money that has moved, the type says the object, too: see [Listed.Type].
const Reconciled = "reconcile"

// IsReconciled reports whether the type is that of a receipt which holds a fetched object.
func IsReconciled(eventType string) bool {
	return eventType == Reconciled || strings.HasPrefix(eventType, Reconciled+".")
}

// Type is the type of a receipt that holds the object: "reconcile", or "reconcile.refund" and so on.
func (l Listed) Type() string {
	switch l.kind() {
	case "charge", "refund", "dispute", "credit_note":
		return Reconciled + "." + l.kind()
	}
	return Reconciled
}

func (l Listed) kind() string {
	var o struct{ Object string }
	_ = json.Unmarshal(l.Body, &o) // what cannot be read is of no kind
	return o.Object
}

// recent is how many of a customer's newest invoices, charges and credit notes are read: a page.
const recent = 100

// part is a part of what Stripe holds: a list, or the newest of it where most is not 0, as the filters narrow it.
type part struct {
	list    string
	filters map[string]string
	most    int
}

// OfCustomer returns what Stripe holds of a customer: the customer itself, all subscriptions, those that have ended, too,
// the invoices that are open, or among the newest 100, the newest 100 credit notes, and of the newest 100 charges those
// that were paid back or disputed, with their refunds and disputes. A customer that Stripe does not have is [ErrNotFound].
//
// denied says of the lists of money that the key may not read why not; they are left out.
func (c *Client) OfCustomer(ctx context.Context, id, account string, p Patience) (held []Listed, denied map[string]string, err error) {
	var customer Fetched
	if err := p.Do(ctx, func() (err error) {
		customer, err = c.get(ctx, api.FormatURLPath("/v1/customers/%s", id), account, nil)
		return err
	}); err != nil {
		return nil, nil, err
	}
	held = append(held, listed(customer.Body, customer.At))
	for _, of := range []part{
		{"subscriptions", map[string]string{"customer": id, "status": "all"}, 0},
		{"invoices", map[string]string{"customer": id, "status": "open"}, 0}, {"invoices", map[string]string{"customer": id}, recent},
	} {
		list, err := c.all(ctx, of, account, p)
		if err != nil {
			return nil, nil, fmt.Errorf("%s of %s: %w", of.list, id, err)
		}
		for _, o := range list {
			if !slices.ContainsFunc(held, func(h Listed) bool { return h.ID == o.ID }) {
				held = append(held, o)
			}
		}
	}
	m := money{Client: c, account: account, patience: p, denied: map[string]string{}}
	if err := m.ofCustomer(ctx, id); err != nil {
		return nil, nil, err
	}
	return append(held, m.held...), m.denied, nil
}

// money reads what has moved of a customer's payments.
type money struct {
	*Client
	account  string
	patience Patience
	held     []Listed
	denied   map[string]string
}

func (m *money) ofCustomer(ctx context.Context, id string) error {
	notes, err := m.read(ctx, part{"credit_notes", map[string]string{"customer": id}, recent}, id)
	if err != nil {
		return err
	}
	charges, err := m.read(ctx, part{"charges", map[string]string{"customer": id}, recent}, id)
	if err != nil {
		return err
	}
	m.held = append(m.held, notes...)
	for _, charge := range charges {
		var is struct {
			Refunded int64 `json:"amount_refunded"`
			Disputed bool
		}
		_ = json.Unmarshal(charge.Body, &is) // what cannot be read is told when its facts are
		var lists []string
		if is.Refunded > 0 {
			lists = append(lists, "refunds")
		}
		if is.Disputed {
			lists = append(lists, "disputes")
		}
		if len(lists) == 0 {
			continue
		}
		m.held = append(m.held, charge)
		for _, list := range lists {
			found, err := m.read(ctx, part{list, map[string]string{"charge": charge.ID}, 0}, charge.ID)
			if err != nil {
				return err
			}
			for _, o := range found {
				o.Mode = charge.Mode // a refund does not say its own
				m.held = append(m.held, o)
			}
		}
	}
	return nil
}

// read returns a part of what Stripe holds, nothing where the key may not read it.
func (m *money) read(ctx context.Context, of part, about string) ([]Listed, error) {
	list, err := m.all(ctx, of, m.account, m.patience)
	if failure, ok := errors.AsType[*effect.Failure](err); ok && failure.Health == effect.Denied {
		m.denied[of.list] = "the key may not read them"
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", of.list, about, err)
	}
	return list, nil
}

// all returns a part of what Stripe holds.
func (c *Client) all(ctx context.Context, of part, account string, p Patience) (held []Listed, err error) {
	for more := true; more && (of.most == 0 || len(held) < of.most); {
		after := ""
		if len(held) > 0 {
			after = held[len(held)-1].ID
		}
		var page []Listed
		if err := p.Do(ctx, func() (err error) {
			query := &form.Values{}
			for name, value := range of.filters {
				query.Add(name, value)
			}
			page, more, err = c.page(ctx, of.list, query, after, account)
			return err
		}); err != nil {
			return nil, err
		}
		held = append(held, page...)
	}
	return held, nil
}

// Object returns an object by its ID: a subscription, an invoice, a refund or a dispute; see [Client.Subscription]. Its
// mode is the caller's to know where the object does not say it.
func (c *Client) Object(ctx context.Context, kind billing.Kind, id, account string, p Patience) (o Listed, err error) {
	ask := map[billing.Kind]func(context.Context, string, string) (Fetched, error){
		billing.SubscriptionSeen: c.Subscription, billing.InvoiceSeen: c.Invoice,
		billing.RefundSeen: func(ctx context.Context, id, account string) (Fetched, error) {
			return c.get(ctx, api.FormatURLPath("/v1/refunds/%s", id), account, nil)
		},
		billing.DisputeSeen: func(ctx context.Context, id, account string) (Fetched, error) {
			return c.get(ctx, api.FormatURLPath("/v1/disputes/%s", id), account, nil)
		},
	}[kind]
	var fetched Fetched
	err = p.Do(ctx, func() (err error) {
		fetched, err = ask(ctx, id, account)
		return err
	})
	return listed(fetched.Body, fetched.At), err
}

// Envelope returns the body of a receipt that holds the object. Its time is that of the object's facts: when it was
// fetched, or when it came to its end, since it has been like this from then on. That of a refund that has succeeded, and
// of a credit note, is when it was made.
func (l Listed) Envelope(eventID string) ([]byte, error) {
	var o struct {
		Object            string
		Status            string
		Created           int64
		EndedAt           int64 `json:"ended_at"`
		VoidedAt          int64 `json:"voided_at"`
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
		"refund succeeded":      o.Created, "credit_note issued": o.Created, "credit_note void": o.VoidedAt,
	}[o.Object+" "+o.Status]
	at := l.At.Unix()
	if ended > 0 {
		at = min(at, ended)
	}
	return json.Marshal(map[string]any{
		"id": eventID, "object": "event", "type": l.Type(), "created": at, "livemode": l.Mode == "live",
		"data": map[string]any{"object": json.RawMessage(l.Body)},
	})
}
