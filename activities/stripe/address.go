package stripe

import (
	"cmp"
	"encoding/json"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/billing"
)

// ReadAddress returns how a customer is written to, as an event tells it; the zero address where it tells nothing that
// can be used. The subject is that of [Read].
func ReadAddress(body []byte, s billing.Subject) billing.Address {
	event, err := parse(body)
	if err != nil {
		return billing.Address{}
	}
	if s.OccurredAt, err = event.unix("created"); err != nil {
		return billing.Address{}
	}
	return addressOf(event.object("data", "object"), s)
}

// Address is like [ReadAddress], of an object that was fetched, or imported.
func (f Fetched) Address(s billing.Subject) billing.Address {
	o, err := parse(f.Body)
	if err != nil {
		return billing.Address{}
	}
	s.OccurredAt = f.At
	return addressOf(o, s)
}

// addressOf reads an object. A finalized invoice shows the customer as it was then (customer_email of
// docs.stripe.com/api/invoices/object), and a session the buyer once it is complete.
func addressOf(o object, s billing.Subject) billing.Address {
	a := billing.Address{Subject: s}
	a.Customer = cmp.Or(o.ref("customer"), o.ref("customer_account"))
	switch o.text("object") {
	case "customer":
		if a.Customer, a.Whole = o.text("id"), true; strings.HasPrefix(s.EventType, "customer.") {
			a.Rank = rank(s.EventType, false)
		}
		a.Email, a.Name = usableEmail(o.text("email")), shown(o.text("name"))
		a.Locale, a.Zone = locale(o), zone(o.object("metadata").text("timezone"))
	case "invoice":
		if at, err := o.object("status_transitions").unix("finalized_at"); err == nil && at.Before(a.OccurredAt) {
			a.OccurredAt = at
		}
		a.Email, a.Name = usableEmail(o.text("customer_email")), shown(o.text("customer_name"))
		a.Invoice, a.Page = o.text("id"), link(o.text("hosted_invoice_url"))
	case "checkout.session":
		if o.text("status") != "complete" {
			return billing.Address{}
		}
		details := o.object("customer_details")
		a.Customer = cmp.Or(a.Customer, o.text("id"))
		a.Email = usableEmail(cmp.Or(details.text("email"), o.text("customer_email")))
		a.Name = shown(details.text("name"))
	default:
		return billing.Address{}
	}
	if Unusable(a.Customer, mostID) != "" {
		return billing.Address{}
	}
	return a
}

// usableEmail returns a bare address within the bounds of SMTP (RFC 5321 §4.5.3.1: 64 bytes before the @, 256 with the
// angle brackets), "" for anything else.
func usableEmail(s string) string {
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Address != s || strings.LastIndexByte(s, '@') > 64 || Unusable(s, 254) != "" {
		return ""
	}
	return s
}

// locale returns the customer's first preferred language, "" for none.
func locale(o object) string {
	var preferred []string
	if json.Unmarshal(o["preferred_locales"], &preferred) != nil || len(preferred) == 0 ||
		Unusable(preferred[0], 35) != "" {
		return ""
	}
	return preferred[0]
}

// zone returns the name of a time zone, "" for none. Stripe has no field for it: metadata.timezone is ours.
func zone(name string) string {
	if _, err := time.LoadLocation(name); name == "" || name == "Local" || err != nil || Unusable(name, 64) != "" {
		return ""
	}
	return name
}

// shown returns a text that people read, "" where it cannot stand in a letter.
func shown(s string) string {
	if Unusable(s, 200) != "" {
		return ""
	}
	return s
}

// link returns a page of the web, "" where s is something else.
func link(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || Unusable(s, 2000) != "" ||
		strings.ContainsAny(s, " <>\"") {
		return ""
	}
	return s
}
