// Package forge makes events in the providers' formats, so that any source can be tried without its provider: the
// bodies by webhook.Provider.Sample, the signatures by webhook.Provider.Sign.
//
// The bodies are short versions: the complete envelope, and the parts of the object that a billing system reads. They
// depend only on [Params], so equal parameters give equal bytes. The Stripe types that flows read are in this package,
// because their objects refer to each other: an invoice names the subscription of another event.
package forge

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Params describe an event. [Params.WithDefaults] fills in empty fields.
type Params struct {
	// Provider is the sender. Options are the options of the source, if the provider's events depend on them.
	Provider webhook.Provider
	Options  map[string]string
	// EventID is random if empty.
	EventID string
	Type    string
	// APIVersion is Stripe's. It determines the shape of invoices and subscriptions.
	APIVersion string
	// Seed determines the invoice's ID and, without an Account, the IDs of customer and subscription: two events with
	// one seed are about one purchase. Default: the event ID.
	Seed string
	// Price is the ID of the price; default price_PLAN.
	Price string
	// Account is the adopting company's account, in the metadata of the subscription.
	Account, Plan, Email, Currency string
	// Amount is in minor units.
	Amount int64
	Live   bool
	// ConnectedAccount is the provider account (a Connect account, a shop's domain). "" means no account, or the
	// account of the provider's sample if its events require one.
	ConnectedAccount string
	// Once makes a checkout session of mode payment: a one-off purchase without an invoice. Its metadata names the
	// price.
	Once bool
	// Lines is the number of lines of an invoice, 0 for one. The plan's line is the last. An event contains the first
	// ten.
	Lines int
	At    time.Time
}

// The API versions on both sides of Stripe's change of shapes. Basil is the first of the new ones.
const (
	Before = "2023-10-16"
	Basil  = "2025-03-31.basil"
)

// Event is a body to sign.
type Event struct {
	ID, Type, Account, ContentType string
	Body                           []byte
	// Whole is the complete event at the provider if Body is only a part; see [Params.Lines].
	Whole []byte
	// Snapshot is the snapshot event about the same change, for a thin event about a Stripe object.
	Snapshot []byte
}

// WithDefaults fills in the empty fields: an ID in the provider's format, a type of the provider, a plan, an amount,
// and the rest from the seed.
func (p Params) WithDefaults() Params {
	sample := p.Provider.Sample
	p.EventID = cmp.Or(p.EventID, sample.NewEventID())
	p.Seed = cmp.Or(p.Seed, p.EventID)
	p.Type = cmp.Or(p.Type, sample.TypeFor(p.Options))
	p.APIVersion = cmp.Or(p.APIVersion, Basil)
	p.Account = cmp.Or(p.Account, "acct-"+hash(p.Seed, "account", 8))
	p.ConnectedAccount = cmp.Or(p.ConnectedAccount, sample.Account)
	p.Plan = cmp.Or(p.Plan, "pro")
	p.Email = cmp.Or(p.Email, p.Account+"@example.com")
	p.Currency = cmp.Or(p.Currency, "usd")
	p.Amount = cmp.Or(p.Amount, 4900)
	if p.At.IsZero() {
		p.At = time.Now()
	}
	return p
}

// New makes the event of p. source, if not empty, is the text of a template that replaces the provider's own.
func New(p Params, source string) (Event, error) {
	p = p.WithDefaults()
	if snapshot := strings.TrimPrefix(p.Type, "v1."); p.thin() && source == "" && stripeTypes[snapshot].object != "" {
		id := p.EventID
		p.Type, p.EventID, p.Options = snapshot, id+"_snapshot", nil
		e, err := New(p, "")
		if err != nil {
			return Event{}, err
		}
		return thin(e, id)
	}
	e := Event{ID: p.EventID, Type: p.Type, Account: p.ConnectedAccount}
	t, name, err := find(p, source)
	if err != nil {
		return Event{}, err
	}
	d := data{Params: p}
	if d.cuts() {
		if e.Whole, _, err = render(t, name, d); err != nil {
			return Event{}, err
		}
		d.Cut = true
	}
	e.Body, e.ContentType, err = render(t, name, d)
	return e, err
}

// render returns the body and its content type. The signature may depend on the content type: Twilio's usual body is a
// form.
func render(t *template.Template, name string, d data) (body []byte, contentType string, err error) {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, d); err != nil {
		return nil, "", fmt.Errorf("forge %s %s: %w", d.Provider.Name, d.Type, err)
	}
	body = bytes.TrimSpace(b.Bytes())
	if len(body) > 0 && body[0] != '{' && body[0] != '[' {
		return body, "application/x-www-form-urlencoded", nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		return nil, "", fmt.Errorf("forge %s %s: the template does not produce JSON: %w", d.Provider.Name, d.Type, err)
	}
	return compact.Bytes(), "application/json", nil
}

//go:embed stripe/*.tmpl
var sources embed.FS

// envelope is the body for a provider without its own template.
//
//go:embed envelope.tmpl
var envelope string

// samples contains the bodies of the other providers, by name.
//
//go:embed samples/*.tmpl
var samples embed.FS

var functions = template.FuncMap{
	"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	},
	"form": url.QueryEscape,
}

var stripeTemplates = template.Must(template.New("").Funcs(functions).Option("missingkey=error").ParseFS(sources,
	"stripe/*.tmpl"))

// find returns the template of p's body, and its name: from source, from the Stripe types in this package, or from the
// provider's samples.
func find(p Params, source string) (*template.Template, string, error) {
	if p.Provider.Name == stripe && source == "" && !isThin(p.Type) {
		if stripeTypes[p.Type].object == "" {
			return nil, "", fmt.Errorf("no template for the Stripe event type %q; use one of %s, a thin event's such as %s, or --template",
				p.Type, strings.Join(StripeTypes(), ", "), ThinType)
		}
		return stripeTemplates, "event.tmpl", nil
	}
	text := cmp.Or(source, sampleBody(p.Provider))
	t := template.New("body").Funcs(functions).Funcs(p.Provider.Sample.Funcs).Option("missingkey=error")
	t, err := t.Parse(text)
	if err != nil {
		return nil, "", fmt.Errorf("read template: %w", err)
	}
	return t, "body", nil
}

// sampleBody returns the template of a provider's body, or else a plain envelope of id, type, timestamp and data.
func sampleBody(p webhook.Provider) string {
	body, err := samples.ReadFile("samples/" + p.Name + ".tmpl")
	if err != nil {
		return envelope
	}
	return string(body)
}

// data is the data of a template: the parameters, and values derived from them.
type data struct {
	Params
	// Cut is set for the invoice of an event that contains only its first lines.
	Cut bool
}

func (d data) Unix() int64      { return d.At.Unix() }
func (d data) UnixMilli() int64 { return d.At.UnixMilli() }
func (d data) Time() string     { return d.At.UTC().Format(time.RFC3339) }
func (d data) Hash() string     { return hash(d.EventID, "hash", 16) }
func (d data) Number() int64    { return number(d.Seed) }
func (d data) Major() string    { return fmt.Sprintf("%d.%02d", d.Amount/100, d.Amount%100) }

// Kind is the first part of a type such as issues.opened or orders/paid, Action the rest.
func (d data) Kind() string { return d.Type[:d.kindLength()] }

func (d data) Action() string { return strings.TrimLeft(d.Type[d.kindLength():], "./") }

func (d data) kindLength() int {
	if i := strings.IndexAny(d.Type, "./"); i >= 0 {
		return i
	}
	return len(d.Type)
}

// Subject is the type of the event's object if it is in the middle of the event's type: billing.meter in Stripe's
// v1.billing.meter.error_report_triggered, accountHolder in Adyen's balancePlatform.accountHolder.created.
func (d data) Subject() string {
	if i := strings.LastIndexByte(d.Action(), '.'); i >= 0 {
		return d.Action()[:i]
	}
	return d.Action()
}

// hash returns n hexadecimal digits derived from seed and use.
func hash(seed, use string, n int) string {
	sum := sha256.Sum256([]byte(use + "\x00" + seed))
	return fmt.Sprintf("%x", sum)[:n]
}

// number returns a positive number of up to 15 digits derived from seed.
func number(seed string) int64 {
	n, err := strconv.ParseInt(hash(seed, "number", 12), 16, 64)
	if err != nil {
		panic("forge: " + err.Error()) // twelve hexadecimal digits fit
	}
	return n
}
