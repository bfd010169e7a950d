// Package billing is the application state that billing effects converge on, and the facts that
// change it. State is fenced: an event may only write what no newer event has written.
package billing

import "time"

// InvoicePaid says that an invoice has been settled, in our words. It travels through workflow
// histories: no personal data, and fields are only ever added.
type InvoicePaid struct {
	Provider string
	// ProviderAccount is the connected account that the event came from, "" for the provider's own.
	ProviderAccount string
	// Mode is "live" or "test".
	Mode string
	// Account is our account.
	Account string
	// Customer is the provider's customer.
	Customer string
	Invoice  string
	// Subscription is "" for an invoice outside of any subscription.
	Subscription string
	// Amount is what was paid, in the currency's minor unit.
	Amount int64
	// Currency is the ISO 4217 code in lower case, as providers write it.
	Currency string
	Plan     string
	// PeriodStart and PeriodEnd bound what was paid for.
	PeriodStart, PeriodEnd time.Time
	// OccurredAt is the provider's time of the event; it is the fence, with ties allowed.
	OccurredAt time.Time
	EventID    string
	ReceiptID  string
}

// instant reports whether the invoice pays for no time at all: an invoice item that a person adds to a
// subscription, a setup fee say, stands for the moment it was made.
func (f InvoicePaid) instant() bool {
	return !f.PeriodStart.IsZero() && f.PeriodStart.Equal(f.PeriodEnd)
}

// Scope is the part of an effect key that keeps providers, connected accounts and modes apart:
// "stripe:live", or "stripe:live:acct_9".
func (f InvoicePaid) Scope() string {
	scope := f.Provider + ":" + f.Mode
	if f.ProviderAccount != "" {
		scope += ":" + f.ProviderAccount
	}
	return scope
}
