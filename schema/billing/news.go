package billing

import (
	"slices"
	"time"
)

// news is an internal event for an account's consumers: its type and its data. It holds no personal data.
type news struct {
	account, kind string
	data          any
}

// invoiceNews is the data of invoice.paid, invoice.closed and payment.failed.
type invoiceNews struct {
	Account      string `json:"account"`
	Mode         string `json:"mode"`
	Invoice      string `json:"invoice"`
	Subscription string `json:"subscription,omitempty"`
	Status       string `json:"status"`
	Plan         string `json:"plan,omitempty"`
	Amount       int64  `json:"amount"`
	Currency     string `json:"currency"`
	// Attempt is of payment.failed; 0 is a due date that has passed.
	Attempt     *int   `json:"attempt,omitempty"`
	PeriodStart string `json:"period_start,omitempty"`
	PeriodEnd   string `json:"period_end,omitempty"`
	SourceEvent string `json:"source_event"`
}

// subscriptionNews is the data of subscription.changed and subscription.ended.
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

// accessNews is the data of access.changed and access.snapshot: what the account may use now.
type accessNews struct {
	Account     string   `json:"account"`
	Mode        string   `json:"mode"`
	Version     int64    `json:"version"`
	State       string   `json:"state"`
	Plan        string   `json:"plan"`
	Quantity    int64    `json:"quantity"`
	Features    []string `json:"features"`
	SourceEvent string   `json:"source_event"`
	// Cause is "meaning", "reread" or "rebuild" where no event has changed it: the facts were folded anew. It is
	// "announce" where nothing has.
	Cause string `json:"cause,omitempty"`
}

// news tells what the invoice came to: each once, since a fold never goes back from it.
func (i *Invoice) news(s Subject, was Object) (list []news) {
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
	if after.paid() && !before.paid() {
		list = append(list, news{after.Account, "invoice.paid", data})
	}
	if !after.ClosedAt.IsZero() && before.ClosedAt.IsZero() {
		list = append(list, news{after.Account, "invoice.closed", data})
	}
	for _, attempt := range after.Failures {
		if told := slices.Contains(before.Failures, attempt) && !before.AtCheckout; !told && !after.AtCheckout {
			failed := data
			failed.Attempt = &attempt
			list = append(list, news{after.Account, "payment.failed", failed})
		}
	}
	return list
}

func (s *Subscription) news(of Subject, was Object) []news {
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
			return []news{{after.Account, "subscription.ended", data}}
		}
	case after.changedFrom(before):
		return []news{{after.Account, "subscription.changed", data}}
	}
	return nil
}

func (a *applying) newsOfAccess(after Access) []news {
	t := after.Target
	if t.Version == a.accounts[after.Account].Version {
		return nil
	}
	data := t.news(Scope{a.subject.Mode, after.Account}, a.subject.EventID)
	if a.how == repairing {
		data.Cause = a.key
	}
	return []news{{after.Account, "access.changed", data}}
}

// news is what subscribers are told of an account's target.
func (t Target) news(of Scope, event string) accessNews {
	return accessNews{
		Account: of.Account, Mode: of.Mode, Version: t.Version, State: t.State, Plan: t.Plan, Quantity: t.Quantity,
		Features: texts(t.Features), SourceEvent: event,
	}
}

// timestamp writes a time as RFC 3339; "" for none.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
