package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
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

	backend api.Backend
	host    string
	key     string
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
	// ErrForbidden says that the key may not read what was asked for.
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

// Subscription returns a subscription; account is the connected account that it is of, "" for the key's own.
//
// An error is [ErrNotFound] or an [effect.Failure]. Time-outs, 429 and answers of 500 and more can pass.
func (c *Client) Subscription(ctx context.Context, id, account string) (Fetched, error) {
	return c.get(ctx, api.FormatURLPath("/v1/subscriptions/%s", id), account, nil)
}

// Invoice returns an invoice with all of its lines. The first lines come with it, the rest by further requests. Lines
// beyond 500 are left out, and the fact is partial. It is like [Client.Subscription] otherwise.
func (c *Client) Invoice(ctx context.Context, id, account string) (Fetched, error) {
	fetched, err := c.get(ctx, api.FormatURLPath("/v1/invoices/%s", id), account, nil)
	if err != nil {
		return Fetched{}, err
	}
	in, err := parse(fetched.Body)
	if err != nil || !in.object("lines").is("has_more") {
		return fetched, err
	}
	lines, err := c.InvoiceLines(ctx, id, account)
	if err != nil {
		return Fetched{}, err
	}
	in["lines"] = lines.Body
	if fetched.Body, err = json.Marshal(in); err != nil {
		return Fetched{}, effect.Fault("invoice with its lines: %w", err)
	}
	return fetched, nil
}

// InvoiceLines returns the lines of an invoice, as the list that an invoice carries.
func (c *Client) InvoiceLines(ctx context.Context, id, account string) (Fetched, error) {
	const page = 100
	var all []json.RawMessage
	var at time.Time
	for after := ""; ; {
		query := &form.Values{}
		query.Add("limit", strconv.Itoa(page))
		if after != "" {
			query.Add("starting_after", after)
		}
		fetched, err := c.get(ctx, api.FormatURLPath("/v1/invoices/%s/lines", id), account, query)
		if err != nil {
			return Fetched{}, err
		}
		if at.IsZero() {
			at = fetched.At
		}
		list, err := parse(fetched.Body)
		if err != nil {
			return Fetched{}, err
		}
		found, _ := list.objects("data")
		var raw []json.RawMessage
		if len(found) == 0 || json.Unmarshal(list["data"], &raw) != nil {
			return Fetched{}, effect.Fault("%s: a page of lines without lines", c.host)
		}
		all = append(all, raw...)
		more := list.is("has_more")
		if after = found[len(found)-1].text("id"); after == "" && more {
			return Fetched{}, effect.Fault("%s: a line without an ID, after which nothing can be asked for", c.host)
		}
		if !more || len(all) >= mostElements {
			body, err := json.Marshal(map[string]any{"object": "list", "data": all[:min(len(all), mostElements)],
				"has_more": more || len(all) > mostElements})
			return Fetched{body, at}, err
		}
	}
}

// InvoicePayment returns what ties a payment intent to its invoice, [ErrNotFound] where it paid for none: since
// 2025-03-31.basil neither it nor its charge names one.
func (c *Client) InvoicePayment(ctx context.Context, intent, account string) (Fetched, error) {
	query := &form.Values{}
	query.Add("payment[type]", "payment_intent")
	query.Add("payment[payment_intent]", intent)
	query.Add("limit", "1")
	return c.invoicePayment(ctx, query, account)
}

// PaymentOf returns what an invoice was paid by, [ErrNotFound] where Stripe shows nothing: the payment intent or the
// charge, or what Stripe was told of a payment outside.
func (c *Client) PaymentOf(ctx context.Context, invoice, account string) (Fetched, error) {
	query := &form.Values{}
	query.Add("invoice", invoice)
	query.Add("status", "paid")
	query.Add("limit", "1")
	return c.invoicePayment(ctx, query, account)
}

func (c *Client) invoicePayment(ctx context.Context, query *form.Values, account string) (Fetched, error) {
	fetched, err := c.get(ctx, "/v1/invoice_payments", account, query)
	if err != nil {
		return Fetched{}, err
	}
	var list struct{ Data []json.RawMessage }
	if err := json.Unmarshal(fetched.Body, &list); err != nil {
		return Fetched{}, effect.Broken(c.host, true, err)
	}
	if len(list.Data) == 0 {
		return Fetched{}, ErrNotFound
	}
	fetched.Body = list.Data[0]
	return fetched, nil
}

// Refunds returns the refunds of a charge, the newest hundred, as the list that it carried before 2022-11-15.
func (c *Client) Refunds(ctx context.Context, charge, account string) (Fetched, error) {
	query := &form.Values{}
	query.Add("charge", charge)
	query.Add("limit", "100")
	return c.get(ctx, "/v1/refunds", account, query)
}

// Version is the version of Stripe's API that all requests are made in: the newest that readers are tested with.
const Version = "2026-08-26.dahlia"

// get makes one request.
func (c *Client) get(ctx context.Context, path, account string, query *form.Values) (Fetched, error) {
	header := http.Header{"Stripe-Version": {Version}}
	header.Set("X-Stripe-Client-User-Agent", "{}") // instead of what uname says, which is our host's name, too
	params := &api.Params{Context: ctx, Headers: header}
	if account != "" {
		params.SetStripeAccount(account)
	}
	if c.Pace != nil {
		if err := c.Pace(ctx); err != nil {
			return Fetched{}, effect.Infrastructure(err)
		}
	}
	var answer api.APIResource
	begin := time.Now()
	if err := c.backend.CallRaw(http.MethodGet, path, c.key, query, params, &answer); err != nil {
		return Fetched{}, c.failure(err)
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
		_ = json.Unmarshal(body, &said) // what is not JSON has no code
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
