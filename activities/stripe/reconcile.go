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
	case "charge", "refund", "dispute", "credit_note", "early_fraud_warning":
		return Reconciled + "." + l.kind()
	}
	return Reconciled
}

func (l Listed) kind() string {
	var o struct{ Object string }
	_ = json.Unmarshal(l.Body, &o) // what cannot be read is of no kind
	return strings.TrimPrefix(o.Object, "radar.")
}

const (
	// mostRead is how many objects of one list are read, the newest first: ten pages, a second at the default rate.
	mostRead = 1000
	// mostWarned is of how many of the newest charges early fraud warnings are asked for, since each costs a request. A
	// warning comes within months of its charge.
	mostWarned = 100
)

// OfCustomer returns what Stripe holds of a customer: the customer itself, all subscriptions, those that have ended,
// too, the invoices, the credit notes, the checkout sessions that were paid for and have no invoice, and the charges
// that were paid back, disputed or warned of, with their refunds, disputes and early fraud warnings. A customer that
// Stripe does not have is [ErrNotFound].
//
// leftOut says what of a list was not read, and why: the key may not read it, where it is one of money; or there is
// more of it than one call reads.
func (c *Client) OfCustomer(ctx context.Context, id, account string) (held []Listed,
	leftOut map[string]string, err error) {
	customer, err := c.Object(ctx, "customer", id, account)
	if err != nil {
		return nil, nil, err
	}
	r := reading{Client: c, account: account, held: []Listed{customer}, leftOut: map[string]string{}}
	for _, of := range []List{
		{"subscriptions", url.Values{"customer": {id}, "status": {"all"}}},
		{"invoices", url.Values{"customer": {id}, "status": {"open"}}},
		{"invoices", url.Values{"customer": {id}}},
	} {
		list, err := r.all(ctx, of)
		if err != nil {
			return nil, nil, fmt.Errorf("%s of %s: %w", of.Name, id, err)
		}
		for _, o := range list {
			if !slices.ContainsFunc(r.held, func(h Listed) bool { return h.ID == o.ID }) {
				r.held = append(r.held, o)
			}
		}
	}
	if err := r.money(ctx, id); err != nil {
		return nil, nil, err
	}
	return r.held, r.leftOut, nil
}

type reading struct {
	*Client
	account string
	held    []Listed
	leftOut map[string]string
}

// money reads what was paid for without an invoice, and what has moved of payments.
func (r *reading) money(ctx context.Context, id string) error {
	lists := map[string][]Listed{}
	for _, name := range []string{"credit_notes", "charges", "checkout/sessions"} {
		list, err := r.read(ctx, List{name, url.Values{"customer": {id}}}, id)
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
		_ = json.Unmarshal(charge.Body, &is) // what cannot be read is told when its facts are
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
			more, err := r.read(ctx, List{of.list, url.Values{"charge": {charge.ID}}}, charge.ID)
			if err != nil {
				return err
			}
			found = append(found, more...)
		}
		if len(found) > 0 || is.Refunded > 0 || is.Disputed {
			r.held = append(r.held, charge)
		}
		for _, o := range found {
			o.Mode = charge.Mode // a refund does not say its own
			r.held = append(r.held, o)
		}
	}
	if len(charges) > mostWarned {
		r.leftOut["early fraud warnings of older charges"] = fmt.Sprintf("they are asked for of the newest %d",
			mostWarned)
	}
	r.orders(lists["checkout/sessions"], paid)
	return nil
}

// orders adds the sessions in which something was bought once: they were paid for, and no invoice was made. Each is
// as of when its charge was made, by the charge's payment intent; of a free one, as of when the session was.
func (r *reading) orders(sessions []Listed, paid map[string]time.Time) {
	for _, session := range sessions {
		var is struct {
			Mode, Status  string
			Invoice       json.RawMessage
			PaymentStatus string `json:"payment_status"`
			Intent        string `json:"payment_intent"`
			Created       int64
		}
		_ = json.Unmarshal(session.Body, &is) // as a charge
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

// read returns a list from Stripe, nothing where the key may not read it.
func (r *reading) read(ctx context.Context, of List, about string) ([]Listed, error) {
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

// all returns a list from Stripe, only its newest objects where it is longer than one call reads.
func (r *reading) all(ctx context.Context, of List) (held []Listed, err error) {
	for more := true; more; {
		if len(held) >= mostRead {
			r.leftOut["older "+of.String()] = fmt.Sprintf("the newest %d are compared", mostRead)
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

// String names the list in words.
func (of List) String() string {
	return strings.NewReplacer("_", " ", "/", " ", "radar/", "").Replace(of.Name)
}

// Envelope returns the body of a receipt that holds the object. Its time is that of the object's facts: when it was
// fetched, or when it came to its end, since it has been like this from then on. That of a refund that has succeeded,
// and of a credit note, is when it was made; that of a checkout session, when it was paid for.
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
