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
	"time"

	api "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Client asks Stripe's API for objects. It only reads: a restricted key that may read these objects is enough. It
// asks in one API version, [Version], and keeps the answers as bytes: the readers of this package understand them like
// any event's.
type Client struct {
	// Pace, when set, is asked before each request, and waits until it may be made.
	Pace func(context.Context) error

	patience Patience
	backend  api.Backend
	host     string
	key      string
}

// NewClient returns the client of the account whose secret or restricted key is given, which makes its requests
// through another: that one's time-out bounds each of them. base is Stripe's own API where it is empty. The key is
// never part of an error.
func NewClient(key, base string, through *http.Client) (*Client, error) {
	if base == "" {
		base = api.APIURL
	}
	to, err := url.Parse(base)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("%q is no base URL of an API", base)
	}
	judged := *through
	judged.Transport = transport{through.Transport}
	return &Client{
		host: to.Host, key: key,
		backend: api.GetBackendWithConfig(api.APIBackend, &api.BackendConfig{
			URL: &base, HTTPClient: &judged,
			LeveledLogger:     &api.LeveledLogger{Level: api.LevelNull}, // it would log answers
			MaxNetworkRetries: api.Int64(0),                             // how often is for the caller to know
			EnableTelemetry:   api.Bool(false),
		}),
	}, nil
}

var (
	// ErrNotFound says that there is no such object, or none that the key and the connected account can see.
	ErrNotFound = errors.New("stripe has no such object")
	// ErrForbidden says that the key may not read this.
	ErrForbidden = errors.New("the source's api_key may not read this")
)

// Fetched is an object as it was at a time.
type Fetched struct {
	Body []byte
	// At is when the object was like this at the latest: the time of the answer by Stripe's clock, less the time that
	// the request took. It is a full second, as the times of events are: what happened within it comes after.
	At time.Time
}

// Facts returns the facts that the object tells; see [ReadObject].
func (f Fetched) Facts(s billing.Subject) ([]billing.Fact, error) {
	s.OccurredAt = f.At
	return ReadObject(f.Body, s, billing.FromFetch)
}

// paths are where objects are asked for, by what each says that it is: its "object".
var paths = map[string]string{
	"subscription": "/v1/subscriptions/%s", "invoice": "/v1/invoices/%s", "charge": "/v1/charges/%s",
	"payment_intent": "/v1/payment_intents/%s", "invoice_payment": "/v1/invoice_payments/%s",
	"checkout.session": "/v1/checkout/sessions/%s", "refund": "/v1/refunds/%s", "dispute": "/v1/disputes/%s",
	"credit_note": "/v1/credit_notes/%s", "radar.early_fraud_warning": "/v1/radar/early_fraud_warnings/%s",
	"customer": "/v1/customers/%s",
}

// Object returns an object by what it is, such as "subscription", and its ID; account is the connected account that it
// is of, "" for the key's own. An invoice comes with all of its lines: those beyond 500 are left out, and the fact is
// partial. A refund does not say its mode: that is the caller's to know.
//
// An error is [ErrNotFound] or an [effect.Failure]. Time-outs, 429 and answers of 500 and more can pass.
func (c *Client) Object(ctx context.Context, object, id, account string) (Listed, error) {
	fetched, err := c.get(ctx, api.FormatURLPath(paths[object], id), account, nil)
	if err == nil && object == "invoice" {
		fetched.Body, err = c.withLines(ctx, fetched.Body, id, account)
	}
	if err != nil {
		return Listed{}, err
	}
	return listed(fetched.Body, fetched.At), nil
}

// withLines returns an invoice with its lines. The first ones come with it, the rest by further requests.
func (c *Client) withLines(ctx context.Context, invoice []byte, id, account string) ([]byte, error) {
	in, err := parse(invoice)
	if err != nil || !in.object("lines").is("has_more") {
		return invoice, err
	}
	of := List{Name: api.FormatURLPath("invoices/%s/lines", id)}
	var lines []json.RawMessage
	for more, after := true, ""; more && len(lines) < mostElements; {
		var page []Listed
		page, more, err = c.Page(ctx, of, after, account)
		if err != nil {
			return nil, err
		}
		for _, line := range page {
			lines, after = append(lines, line.Body), line.ID
		}
		in["lines"], err = json.Marshal(map[string]any{"object": "list", "data": lines[:min(len(lines), mostElements)],
			"has_more": more || len(lines) > mostElements})
		if err != nil {
			return nil, effect.Fault("invoice with its lines: %w", err)
		}
	}
	return json.Marshal(in)
}

// InvoicePayment returns what ties a payment intent to its invoice, [ErrNotFound] where it paid for none: since
// 2025-03-31.basil neither it nor its charge names one.
func (c *Client) InvoicePayment(ctx context.Context, intent, account string) (Fetched, error) {
	return c.invoicePayment(ctx, account,
		url.Values{"payment[type]": {"payment_intent"}, "payment[payment_intent]": {intent}})
}

// PaymentOf returns what an invoice was paid by, [ErrNotFound] where Stripe shows nothing: the payment intent or the
// charge, or what Stripe was told of a payment outside.
func (c *Client) PaymentOf(ctx context.Context, invoice, account string) (Fetched, error) {
	return c.invoicePayment(ctx, account, url.Values{"invoice": {invoice}, "status": {"paid"}})
}

func (c *Client) invoicePayment(ctx context.Context, account string, query url.Values) (Fetched, error) {
	found, _, err := c.Page(ctx, List{"invoice_payments", query}, "", account)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Fetched{}, err
	}
	return found[0].Fetched, nil
}

// Refunds returns the refunds of a charge, the newest hundred, as the list that it carried before 2022-11-15.
func (c *Client) Refunds(ctx context.Context, charge, account string) (Fetched, error) {
	return c.get(ctx, "/v1/refunds", account, url.Values{"charge": {charge}, "limit": {"100"}})
}

// Version is the version of Stripe's API that all requests are made in: the newest that readers are tested with.
const Version = "2026-08-26.dahlia"

// get makes one request, as often as the client has patience.
func (c *Client) get(ctx context.Context, path, account string, query url.Values) (Fetched, error) {
	parameters := &form.Values{}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range query[name] {
			parameters.Add(name, value)
		}
	}
	header := http.Header{"Stripe-Version": {Version}}
	header.Set("X-Stripe-Client-User-Agent", "{}") // uname would tell our host's name, too
	params := &api.Params{Context: ctx, Headers: header}
	if account != "" {
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

// failure classifies what came instead of an answer.
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

// transport makes a failure of every answer that is no success. The SDK's own errors would hold the answer, and of one
// that is not JSON, as a gateway on the way gives, not even the status.
type transport struct{ next http.RoundTripper }

// mostAnswer bounds an answer, in bytes: a page of 100 lines has some 200 kB.
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
	var said struct{ Error struct{ Code string } }
	if body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10)); err == nil {
		_ = json.Unmarshal(body, &said) // other than JSON has no code
	}
	// 400 is the answer about an object that a parameter names, as the place in a list.
	missing := resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusBadRequest
	if missing && said.Error.Code == string(api.ErrorCodeResourceMissing) {
		return nil, ErrNotFound
	}
	failure := effect.FromStatus(resp, said.Error.Code, time.Now())
	if failure.Health == effect.Denied { // there is no breaker to wait behind for a key that may read
		why := errors.New("the source's api_key is not valid")
		if resp.StatusCode == http.StatusForbidden {
			why = ErrForbidden
		}
		failure.Class, failure.RetryAfter, failure.Err = ledger.Fault, 0, fmt.Errorf("%w: %w", failure.Err, why)
	}
	return nil, failure
}

// Patience is how a person's command asks what the API cannot answer for now: so many times in a row, with First after
// the first time, which doubles. The zero Patience asks once.
type Patience struct {
	Tries int
	First time.Duration
}

// With returns the client with patience for each of its requests.
func (c *Client) With(p Patience) *Client {
	patient := *c
	patient.patience = p
	return &patient
}

// Do calls ask until it succeeds, cannot succeed, or the tries are used up. What the API asks to wait is waited. An
// object that is not there ([ErrNotFound]) is an answer, and not asked for again.
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
