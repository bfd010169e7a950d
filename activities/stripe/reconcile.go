package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Reconciled is the type of a receipt with a fetched object. Its body has the format of an event, but pawl made it. For
// refunds, disputes and credit notes, the type also contains the type of the object; see [Listed.Type].
const Reconciled = fact.Reconciled

// IsReconciled reports whether a receipt of this type contains a fetched object.
func IsReconciled(eventType string) bool {
	return eventType == Reconciled || strings.HasPrefix(eventType, Reconciled+".")
}

// Type returns the type of a receipt with the object: "reconcile", or "reconcile.refund" and so on.
func (l Listed) Type() string {
	switch l.kind() {
	case "charge", "refund", "dispute", "credit_note", "early_fraud_warning":
		return Reconciled + "." + l.kind()
	}
	return Reconciled
}

func (l Listed) kind() string {
	var o struct{ Object string }
	_ = json.Unmarshal(l.Body, &o) // an object that cannot be parsed has no kind
	return strings.TrimPrefix(o.Object, "radar.")
}

const (
	// mostRead is the maximum number of objects that are read from one list, newest first. Ten pages take a second at
	// the default rate.
	mostRead = 1000
	// mostWarned is the number of newest charges that are checked for early fraud warnings, because each check is a
	// request. A warning arrives within months of its charge.
	mostWarned = 100
)

// Holding is Stripe's data about a customer.
type Holding struct {
	Objects []Listed
	// LeftOut contains the reason why a list, or a part of it, was not read: the key has no permission, or the list
	// is too long for one call.
	LeftOut map[string]string
	// Cash contains the movements of the customer's money on Stripe's balance. CashKnown reports whether Cash is
	// complete.
	Cash      []Cash
	CashKnown bool
}

// OfCustomer returns Stripe's data about a customer: the customer, all subscriptions including ended ones, the
// invoices, the credit notes, the paid checkout sessions without an invoice, and the charges that were refunded,
// disputed or have a fraud warning, with these objects. It returns [ErrNotFound] if Stripe does not have the
// customer.
func (c *Client) OfCustomer(ctx context.Context, id, account string) (held Holding, err error) {
	customer, err := c.Object(ctx, "customer", id, account)
	if err != nil {
		return held, err
	}
	r := reading{Client: c, account: account, held: []Listed{customer}, leftOut: map[string]string{}}
	for _, of := range []List{
		{"subscriptions", url.Values{"customer": {id}, "status": {"all"}}},
		{"invoices", url.Values{"customer": {id}, "status": {"open"}}},
		{"invoices", url.Values{"customer": {id}}},
	} {
		list, err := r.all(ctx, of)
		if err != nil {
			return held, fmt.Errorf("%s of %s: %w", of.Name, id, err)
		}
		for _, o := range list {
			if !slices.ContainsFunc(r.held, func(h Listed) bool { return h.ID == o.ID }) {
				r.held = append(r.held, o)
			}
		}
	}
	if err := r.money(ctx, id); err != nil {
		return held, err
	}
	return Holding{r.held, r.leftOut, r.cash, r.cashKnown()}, nil
}

type reading struct {
	*Client
	account string
	held    []Listed
	leftOut map[string]string
	cash    []Cash
	// noBalance is set once the key was refused access to balance transactions.
	noBalance bool
}

// cashKnown reports whether all money of the customer was read.
func (r *reading) cashKnown() bool {
	known := !r.noBalance
	for _, list := range []string{"charges", "refunds", "disputes"} {
		known = known && r.leftOut[list] == "" && r.leftOut["older "+list] == ""
	}
	return known
}

// money reads payments without an invoice, and the refunds and disputes of payments.
func (r *reading) money(ctx context.Context, id string) error {
	lists := map[string][]Listed{}
	for _, name := range []string{"credit_notes", "charges", "checkout/sessions"} {
		read := r.read
		if name == "charges" {
			read = r.settling
		}
		list, err := read(ctx, name, url.Values{"customer": {id}}, id)
		if err != nil {
			return err
		}
		lists[name] = list
	}
	charges := lists["charges"]
	r.held = append(r.held, lists["credit_notes"]...)
	paid := map[string]time.Time{}
	for i, charge := range charges {
		var is struct {
			Intent   string `json:"payment_intent"`
			Status   string
			Created  int64
			Refunded int64 `json:"amount_refunded"`
			Disputed bool
		}
		_ = json.Unmarshal(charge.Body, &is) // errors are reported when its facts are parsed
		if is.Status == "failed" {
			continue
		}
		paid[is.Intent] = time.Unix(is.Created, 0).UTC()
		var found []Listed
		for _, of := range []struct {
			list   string
			wanted bool
		}{{"refunds", is.Refunded > 0}, {"disputes", is.Disputed}, {"radar/early_fraud_warnings", i < mostWarned}} {
			if !of.wanted {
				continue
			}
			read := r.read
			if of.list == "refunds" {
				read = r.settling
			}
			more, err := read(ctx, of.list, url.Values{"charge": {charge.ID}}, charge.ID)
			if err != nil {
				return err
			}
			found = append(found, more...)
		}
		r.charged(charge.Body, found)
		if len(found) > 0 || is.Refunded > 0 || is.Disputed {
			r.held = append(r.held, charge)
		}
		for _, o := range found {
			o.Mode = charge.Mode // a refund does not contain its mode
			r.held = append(r.held, o)
		}
	}
	if len(charges) > mostWarned {
		r.leftOut["early fraud warnings of older charges"] = fmt.Sprintf("only the newest %d charges are checked",
			mostWarned)
	}
	r.orders(lists["checkout/sessions"], paid)
	return nil
}

// orders adds the paid one-off sessions without an invoice. The time of each is the creation time of its charge,
// found by the payment intent; for a free session it is the creation time of the session.
func (r *reading) orders(sessions []Listed, paid map[string]time.Time) {
	for _, session := range sessions {
		var is struct {
			Mode, Status  string
			Invoice       json.RawMessage
			PaymentStatus string `json:"payment_status"`
			Intent        string `json:"payment_intent"`
			Created       int64
		}
		_ = json.Unmarshal(session.Body, &is) // errors are reported when its facts are parsed
		if is.Mode != "payment" || is.Status != "complete" || is.PaymentStatus == "unpaid" || len(is.Invoice) > 0 &&
			string(is.Invoice) != "null" {
			continue
		}
		at, known := paid[is.Intent]
		if !known || is.Intent == "" {
			at = time.Unix(is.Created, 0).UTC()
		}
		session.At = at
		r.held = append(r.held, session)
	}
}

// read returns a list from Stripe. It returns nil if the key has no permission for it.
func (r *reading) read(ctx context.Context, name string, query url.Values, about string) ([]Listed, error) {
	of := List{name, query}
	if _, refused := r.leftOut[of.String()]; refused {
		return nil, nil
	}
	list, err := r.all(ctx, of)
	if failure, ok := errors.AsType[*effect.Failure](err); ok && failure.Health == effect.Denied {
		r.leftOut[of.String()] = "the key may not read them"
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", of, about, err)
	}
	return list, nil
}

// all returns a list from Stripe, or its newest objects if it is too long for one call.
func (r *reading) all(ctx context.Context, of List) (held []Listed, err error) {
	for more := true; more; {
		if len(held) >= mostRead {
			r.leftOut["older "+of.String()] = fmt.Sprintf("only the newest %d are compared", mostRead)
			break
		}
		after := ""
		if len(held) > 0 {
			after = held[len(held)-1].ID
		}
		var page []Listed
		if page, more, err = r.Page(ctx, of, after, r.account); err != nil {
			return nil, err
		}
		held = append(held, page...)
	}
	return held, nil
}

// String returns a readable name of the list.
func (of List) String() string {
	return strings.NewReplacer("_", " ", "/", " ", "radar/", "").Replace(of.Name)
}

// Envelope returns the body of a receipt with the object. Its time is the time of the object's facts: the time of the
// request, or the object's own time; see [object.since].
func (l Listed) Envelope(eventID string) ([]byte, error) {
	o, err := parse(l.Body)
	if err != nil {
		return nil, errors.New("an object from Stripe cannot be parsed")
	}
	at := l.At.Unix()
	if since := o.since(); !since.IsZero() {
		at = min(at, since.Unix())
	}
	return json.Marshal(map[string]any{
		"id": eventID, "object": "event", "type": l.Type(), "created": at, "livemode": l.Mode == "live",
		"data": map[string]any{"object": json.RawMessage(l.Body)},
	})
}
