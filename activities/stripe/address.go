package stripe

import (
	"cmp"
	"encoding/json"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// ReadAddress returns the customer's address from an event. It returns the zero address if the event contains no usable
// address. s is the subject as for [Read].
func ReadAddress(body []byte, s fact.Subject) billing.Address {
	event, err := parse(body)
	if err != nil {
		return billing.Address{}
	}
	if s.OccurredAt, err = event.unix("created"); err != nil {
		return billing.Address{}
	}
	return addressOf(event.object("data", "object"), s)
}

// Address is like [ReadAddress] for a fetched or imported object.
func (f Fetched) Address(s fact.Subject) billing.Address {
	o, err := parse(f.Body)
	if err != nil {
		return billing.Address{}
	}
	s.OccurredAt = f.At
	return addressOf(o, s)
}

// addressOf reads the address from an object. A finalized invoice contains the customer's data at its finalization
// (customer_email of docs.stripe.com/api/invoices/object), and a complete session contains the buyer's data.
func addressOf(o object, s fact.Subject) billing.Address {
	a := billing.Address{Subject: s}
	a.Customer = cmp.Or(o.ref("customer"), o.ref("customer_account"))
	switch o.text("object") {
	case "customer":
		if a.Customer, a.Whole = o.text("id"), true; strings.HasPrefix(s.EventType, "customer.") {
			a.Rank = rank(s.EventType, false)
		}
		if s.EventType == "customer.deleted" || o.is("deleted") {
			a.Deleted = a.OccurredAt
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

// usableEmail returns s if it is a bare address within the limits of SMTP (RFC 5321 §4.5.3.1: 64 bytes before the @,
// 256 with the angle brackets), and "" otherwise.
func usableEmail(s string) string {
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Address != s || strings.LastIndexByte(s, '@') > 64 || Unusable(s, 254) != "" {
		return ""
	}
	return s
}

// locale returns the customer's first preferred language, or "".
func locale(o object) string {
	var preferred []string
	if json.Unmarshal(o["preferred_locales"], &preferred) != nil || len(preferred) == 0 ||
		Unusable(preferred[0], 35) != "" {
		return ""
	}
	return preferred[0]
}

// zone returns the name of a time zone, or "". Stripe has no field for the time zone; metadata.timezone is defined by
// pawl.
func zone(name string) string {
	if _, err := time.LoadLocation(name); name == "" || name == "Local" || err != nil || Unusable(name, 64) != "" {
		return ""
	}
	return name
}

// shown returns s if an e-mail can contain it, and "" otherwise.
func shown(s string) string {
	if Unusable(s, 200) != "" {
		return ""
	}
	return s
}

// link returns s if it is an https URL, and "" otherwise.
func link(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || Unusable(s, 2000) != "" ||
		strings.ContainsAny(s, " <>\"") {
		return ""
	}
	return s
}
