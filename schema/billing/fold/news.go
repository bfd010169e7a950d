package fold

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// News is an event that pawl publishes about an account: its type and its data. It contains no personal data.
type News struct {
	Account, Kind string
	Data          any
}

// invoiceNews is the data of billing.invoice.paid, billing.invoice.closed and billing.payment.failed.
type invoiceNews struct {
	Account      string `json:"account"`
	Mode         string `json:"mode"`
	Invoice      string `json:"invoice"`
	Subscription string `json:"subscription,omitempty"`
	Status       string `json:"status"`
	Plan         string `json:"plan,omitempty"`
	Amount       int64  `json:"amount"`
	Currency     string `json:"currency"`
	// Attempt is set for payment.failed. The number 0 means a missed due date.
	Attempt     *int   `json:"attempt,omitempty"`
	PeriodStart string `json:"period_start,omitempty"`
	PeriodEnd   string `json:"period_end,omitempty"`
	SourceEvent string `json:"source_event"`
}

// subscriptionNews is the data of billing.subscription.changed and billing.subscription.ended.
type subscriptionNews struct {
	Account      string `json:"account"`
	Mode         string `json:"mode"`
	Subscription string `json:"subscription"`
	Status       string `json:"status"`
	Plan         string `json:"plan,omitempty"`
	Quantity     int64  `json:"quantity,omitempty"`
	EndsAt       string `json:"ends_at,omitempty"`
	SourceEvent  string `json:"source_event"`
}

// AccessNews is the data of access.changed and access.snapshot: the current access of the account.
type AccessNews struct {
	Account     string   `json:"account"`
	Mode        string   `json:"mode"`
	Version     int64    `json:"version"`
	State       string   `json:"state"`
	Plan        string   `json:"plan"`
	Quantity    int64    `json:"quantity"`
	Features    []string `json:"features"`
	SourceEvent string   `json:"source_event"`
	// Cause is why the access changed: "rules", "payloads" or "rebuild" if the facts were recomputed, "announce" for a
	// snapshot. It is empty if an event of the provider changed the access.
	Cause string `json:"reason,omitempty"`
}

// News returns the events about the invoice. Each event is published once: no later fact can make it untrue.
func (i *Invoice) News(s fact.Subject, was Object) (list []News) {
	after, before := *i, &Invoice{}
	if known, ok := was.(*Invoice); ok {
		before = known
	}
	data := invoiceNews{
		Account: after.Account, Mode: s.Mode, Invoice: after.ID, Subscription: after.Subscription,
		Status: after.Status, Plan: after.Plan,
		Amount: after.Due, Currency: after.Currency, PeriodStart: timestamp(after.PeriodStart),
		PeriodEnd: timestamp(after.PeriodEnd), SourceEvent: s.EventID,
	}
	if after.IsPaid() && !before.IsPaid() {
		list = append(list, News{after.Account, "billing.invoice.paid", data})
	}
	if !after.ClosedAt.IsZero() && before.ClosedAt.IsZero() {
		list = append(list, News{after.Account, "billing.invoice.closed", data})
	}
	for _, attempt := range after.Failures {
		if told := slices.Contains(before.Failures, attempt) && !before.AtCheckout; !told && !after.AtCheckout {
			failed := data
			failed.Attempt = &attempt
			list = append(list, News{after.Account, "billing.payment.failed", failed})
		}
	}
	return list
}

// News implements [Object].
func (s *Subscription) News(of fact.Subject, was Object) []News {
	after, before := *s, &Subscription{}
	if known, ok := was.(*Subscription); ok {
		before = known
	}
	is := after.Given()
	data := subscriptionNews{
		Account: after.Account, Mode: of.Mode, Subscription: after.ID, Status: after.Status, Plan: is.Plan,
		Quantity: is.Quantity,
		EndsAt:   timestamp(after.EndsAt), SourceEvent: of.EventID,
	}
	switch {
	case after.Ended():
		if after.EverGranted && !(before.Ended() && before.EverGranted) {
			return []News{{after.Account, "billing.subscription.ended", data}}
		}
	case after.ChangedFrom(before):
		return []News{{after.Account, "billing.subscription.changed", data}}
	}
	return nil
}

// News returns the data of access.changed or access.snapshot. event is the ID of the provider's event that changed the
// access.
func (t Target) News(mode, account, event string) AccessNews {
	return AccessNews{
		Account: account, Mode: mode, Version: t.Version, State: t.State, Plan: t.Plan, Quantity: t.Quantity,
		Features: append([]string{}, t.Features...), SourceEvent: event,
	}
}

// timestamp formats a time as RFC 3339. It returns "" for the zero time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
