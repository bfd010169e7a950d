package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Client reads objects from Stripe's API. It never writes, so a restricted key with read permissions is enough. It
// uses one API version, [Version], and returns the responses as bytes, which the parsers of this package read like
// events.
type Client struct {
	// Pace, if set, is called before each request and waits until the request may be sent.
	Pace func(context.Context) error

	patience Patience
	backend  api.Backend
	host     string
	key      string
}

// NewClient returns a client for the account of a secret or restricted key. It sends requests with the HTTP client
// through, which sets the timeout. If base is empty, Stripe's own API is used. Errors never contain the key.
func NewClient(key, base string, through *http.Client) (*Client, error) {
	if base == "" {
		base = api.APIURL
	}
	to, err := url.Parse(base)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("%q is not a base URL of an API", base)
	}
	judged := *through
	judged.Transport = transport{through.Transport}
	return &Client{
		host: to.Host, key: key,
		backend: api.GetBackendWithConfig(api.APIBackend, &api.BackendConfig{
			URL: &base, HTTPClient: &judged,
			LeveledLogger:     &api.LeveledLogger{Level: api.LevelNull}, // it would log responses
			MaxNetworkRetries: api.Int64(0),                             // the caller controls retries
			EnableTelemetry:   api.Bool(false),
		}),
	}, nil
}

var (
	// ErrNotFound means that the object does not exist, or that the key and the connected account have no access to
	// it.
	ErrNotFound = errors.New("stripe has no such object")
	// ErrNoPayment means that Stripe has the invoice or the payment intent, but no payment that connects them.
	ErrNoPayment = errors.New("stripe has no payment for the invoice")
	// ErrForbidden means that the key has no permission for the request.
	ErrForbidden = errors.New("the source's api_key may not read this")
)

// Fetched is an object as it was at a point in time.
type Fetched struct {
	Body []byte
	// At is a time at which the object had this state: the time of the response by Stripe's clock, minus the duration
	// of the request. It is truncated to a second, like the times of events.
	At time.Time
}

// Facts returns the facts of the object; see [ReadObject]. If a thin event caused the request, s contains the type and
// the time of that event; otherwise its time is zero. If the object contains the time of its last change, the facts
// have that time; see [object.since].
func (f Fetched) Facts(s fact.Subject) ([]fact.Fact, error) {
	s.OccurredAt = f.at(s)
	return ReadObject(f.Body, s, fact.FromFetch)
}

// at returns the time of the facts about the object.
func (f Fetched) at(s fact.Subject) time.Time {
	o, _ := parse(f.Body) // an object that cannot be parsed has no time
	since := o.since()
	switch paid := o.text("payment_status") == "paid" || o.text("status") == "succeeded"; s.EventType {
	case "checkout.session.completed", "payment_intent.succeeded": // they do not contain the time of the payment
		if paid {
			since = s.OccurredAt
		}
	}
	if since.IsZero() || since.After(f.At) {
		return f.At
	}
	return since
}

// since returns the time of the object's last change, or zero if the object does not contain it. It is the end of a
// subscription, the payment of an invoice, or the creation of a successful refund or a credit note.
func (o object) since() time.Time {
	transitions := o.object("status_transitions")
	from, field := o, ""
	switch o.text("object") + " " + o.text("status") {
	case "subscription canceled", "subscription incomplete_expired":
		field = "ended_at"
	case "invoice paid", "invoice_payment paid":
		from, field = transitions, "paid_at"
	case "invoice void":
		from, field = transitions, "voided_at"
	case "invoice uncollectible":
		from, field = transitions, "marked_uncollectible_at"
	case "refund succeeded", "credit_note issued":
		field = "created"
	case "credit_note void":
		field = "voided_at"
	}
	at, _ := from.unix(field)
	return at
}

// paths maps the type of an object, as in its "object" field, to its API path.
var paths = map[string]string{
	"subscription": "/v1/subscriptions/%s", "invoice": "/v1/invoices/%s", "charge": "/v1/charges/%s",
	"payment_intent": "/v1/payment_intents/%s", "invoice_payment": "/v1/invoice_payments/%s",
	"checkout.session": "/v1/checkout/sessions/%s", "refund": "/v1/refunds/%s", "dispute": "/v1/disputes/%s",
	"credit_note": "/v1/credit_notes/%s", "radar.early_fraud_warning": "/v1/radar/early_fraud_warnings/%s",
	"customer": "/v1/customers/%s",
}

// Object returns an object by its type, such as "subscription", and its ID. account is the connected account, or "" for
// the key's own. An invoice includes its lines, a subscription its items, and a one-off checkout session its lines. A
// list has at most 500 elements; the fact of an object with a longer list is partial. A refund does not contain its
// mode.
//
// An error is [ErrNotFound] or an [effect.Failure]. Timeouts, 429 and 5xx are transient.
func (c *Client) Object(ctx context.Context, object, id, account string) (Listed, error) {
	if object == eventTag {
		return c.lost(ctx, id, account)
	}
	fetched, err := c.get(ctx, api.FormatURLPath(paths[object], id), account, nil)
	if err == nil {
		fetched.Body, err = c.whole(ctx, object, fetched.Body, id, account)
	}
	if err != nil {
		return Listed{}, err
	}
	return listed(fetched.Body, fetched.At), nil
}

// whole adds the list that an object contains only in part, or not at all.
func (c *Client) whole(ctx context.Context, object string, body []byte, id, account string) ([]byte, error) {
	in, err := parse(body)
	if err != nil {
		return nil, err
	}
	switch {
	case object == "invoice" && in.object("lines").is("has_more"):
		return c.withList(ctx, in, "lines", List{Name: api.FormatURLPath("invoices/%s/lines", id)}, account)
	case object == "subscription" && in.object("items").is("has_more"):
		of := List{Name: "subscription_items", query: url.Values{"subscription": {id}}}
		return c.withList(ctx, in, "items", of, account)
	case object == "checkout.session" && in.text("mode") == "payment" && in.null("line_items"):
		of := List{Name: api.FormatURLPath("checkout/sessions/%s/line_items", id)}
		return c.withList(ctx, in, "line_items", of, account)
	}
	return body, nil
}

// withList fetches a list of the object and stores it in field.
func (c *Client) withList(ctx context.Context, in object, field string, of List, account string) ([]byte, error) {
	all := []json.RawMessage{}
	for more, after := true, ""; more && len(all) < mostElements; {
		page, left, err := c.Page(ctx, of, after, account)
		if err != nil {
			return nil, err
		}
		for _, each := range page {
			all, after = append(all, each.Body), each.ID
		}
		more = left
		in[field], err = json.Marshal(map[string]any{"object": "list", "data": all[:min(len(all), mostElements)],
			"has_more": more || len(all) > mostElements})
		if err != nil {
			return nil, effect.Fault("%s of an object: %w", of, err)
		}
	}
	return json.Marshal(in)
}

// InvoicePayment returns the object that connects a payment intent to its invoice: since 2025-03-31.basil neither the
// intent nor its charge contains the invoice. It returns [ErrNoPayment] if the intent has paid no invoice.
func (c *Client) InvoicePayment(ctx context.Context, intent, account string) (Fetched, error) {
	list, err := c.invoicePayments(ctx, account,
		url.Values{"payment[type]": {"payment_intent"}, "payment[payment_intent]": {intent}})
	if err != nil {
		return Fetched{}, err
	}
	return list[0], nil
}

// PaymentsOf returns the newest hundred payments of an invoice. Each connects a payment intent or a charge to the
// invoice, or is the record of a payment outside of Stripe. It returns [ErrNoPayment] if the invoice has no payment.
func (c *Client) PaymentsOf(ctx context.Context, invoice, account string) ([]Fetched, error) {
	return c.invoicePayments(ctx, account, url.Values{"invoice": {invoice}, "status": {"paid"}})
}

func (c *Client) invoicePayments(ctx context.Context, account string, query url.Values) (list []Fetched, err error) {
	found, _, err := c.Page(ctx, List{"invoice_payments", query}, "", account)
	for _, each := range found {
		list = append(list, each.Fetched)
	}
	if err == nil && len(list) == 0 {
		err = ErrNoPayment
	}
	return list, err
}

// Refunds returns the newest hundred refunds of a charge, in the form of the list that charges contained before
// 2022-11-15.
func (c *Client) Refunds(ctx context.Context, charge, account string) (Fetched, error) {
	return c.get(ctx, "/v1/refunds", account, url.Values{"charge": {charge}, "limit": {"100"}})
}

// Version is the version of Stripe's API in all requests: the newest version that the parsers are tested with.
const Version = "2026-11-18.endive"

// get makes one request and retries it according to the client's Patience.
func (c *Client) get(ctx context.Context, path, account string, query url.Values) (Fetched, error) {
	parameters := &form.Values{}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range query[name] {
			parameters.Add(name, value)
		}
	}
	header := http.Header{"Stripe-Version": {Version}}
	header.Set("X-Stripe-Client-User-Agent", "{}") // without uname, which contains the host name
	params := &api.Params{Context: ctx, Headers: header}
	switch {
	case account == "":
	case strings.HasPrefix(path, "/v2/"):
		header.Set("Stripe-Context", account)
	default:
		params.SetStripeAccount(account)
	}
	var answer api.APIResource
	var begin time.Time
	if err := c.patience.Do(ctx, func() error {
		if c.Pace != nil {
			if err := c.Pace(ctx); err != nil {
				return effect.Infrastructure(err)
			}
		}
		begin = time.Now()
		return c.failure(c.backend.CallRaw(http.MethodGet, path, c.key, parameters, params, &answer))
	}); err != nil {
		return Fetched{}, err
	}
	took := time.Since(begin)
	at, err := http.ParseTime(answer.LastResponse.Header.Get("Date"))
	if err != nil {
		return Fetched{}, effect.Fault("%s answered without the time", c.host)
	}
	return Fetched{answer.LastResponse.RawJSON, at.Add(-took).UTC().Truncate(time.Second)}, nil
}

// failure classifies a failed request.
func (c *Client) failure(err error) error {
	if err == nil {
		return nil
	}
	if failure, ok := errors.AsType[*effect.Failure](err); ok {
		return failure
	}
	if errors.Is(err, ErrNotFound) {
		return ErrNotFound
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return effect.Broken(c.host, true, err)
}

// transport converts every response other than 2xx to an [effect.Failure]. The errors of the SDK are unsuitable: they
// contain the response, which may contain personal data, and lack the status if the response is not JSON.
type transport struct{ next http.RoundTripper }

// mostAnswer is the maximum size of a response in bytes. A page of 100 lines has about 200 kB.
const mostAnswer = 8 << 20

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, mostAnswer)
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	var problem struct{ Error struct{ Code string } }
	if body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10)); err == nil {
		_ = json.Unmarshal(body, &problem) // a response that is not JSON has no code
	}
	// Stripe answers 400 if a parameter refers to a missing object, such as the position in a list.
	missing := resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusBadRequest
	if missing && problem.Error.Code == string(api.ErrorCodeResourceMissing) {
		return nil, ErrNotFound
	}
	failure := effect.FromStatus(resp, problem.Error.Code, time.Now())
	if failure.Health == effect.Denied { // reads have no breaker to wait for
		why := errors.New("the source's api_key is not valid")
		if resp.StatusCode == http.StatusForbidden {
			why = ErrForbidden
		}
		failure.Class, failure.RetryAfter, failure.Err = ledger.Fault, 0, fmt.Errorf("%w: %w", failure.Err, why)
	}
	return nil, failure
}

// Patience configures the retries of a person's command: the number of tries, and the first delay, which doubles. The
// zero Patience does not retry.
type Patience struct {
	Tries int
	First time.Duration
}

// With returns a client with patience p for each of its requests.
func (c *Client) With(p Patience) *Client {
	patient := *c
	patient.patience = p
	return &patient
}

// Do calls ask until ask succeeds, returns a permanent error, or has been called p.Tries times. It waits for the delay
// that the API requests. It does not retry [ErrNotFound].
func (p Patience) Do(ctx context.Context, ask func() error) error {
	for try := 1; ; try++ {
		err := ask()
		class, wait := effect.Classify(err)
		if err == nil || errors.Is(err, ErrNotFound) || class != ledger.Transient || try >= p.Tries ||
			ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(max(wait, p.First<<(try-1))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
