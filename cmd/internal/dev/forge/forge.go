// Package forge creates events in the providers' formats, so that a source can be tried without its provider.
// [webhook.Provider].Sample defines the bodies, and [webhook.Provider].Sign the signatures.
//
// The bodies are short versions: the complete envelope, and the parts of the object that a billing system reads. They
// depend only on [Params], so equal parameters give equal bytes. The Stripe types that flows read are in this package,
// because their objects refer to each other: an invoice names the subscription of another event.
package forge

import (
	"cmp"
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
	// APIVersion is Stripe's API version. It determines the fields of invoices and subscriptions.
	APIVersion string
	// Seed determines the invoice's ID and, if Account is empty, the IDs of customer and subscription. Two events
	// with the same seed are about the same purchase. Default: the event ID.
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
	// Once is set for a checkout session of mode payment: a one-off purchase without an invoice. Its metadata names the
	// price.
	Once bool
	// Lines is the number of lines of an invoice, 0 for one. The plan's line is the last. An event contains the first
	// ten.
	Lines int
	At    time.Time
}

// The API versions before and after Stripe's change of shapes. Basil is the first version with the new shapes.
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
