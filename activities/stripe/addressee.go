package stripe

import (
	"net/mail"
	"net/url"
	"strings"
)

// Addressee is the personal data that a letter needs, and what the letter calls its subject. It is read where the
// letter is written, and stored nowhere.
type Addressee struct {
	// Email is a bare address, "" where the payload has none.
	Email string
	Name  string
	// Number is the invoice's number, as it stands on what the customer has got from Stripe.
	Number string
	// InvoiceURL is the page where the customer can see and pay the invoice.
	InvoiceURL string
}

// ReadAddressee reads whom a letter about the event goes to. Only the address is refused where it cannot be used; the
// rest is left out. Its error holds no part of an address.
func ReadAddressee(body []byte) (Addressee, error) {
	event, err := parse(body)
	if err != nil {
		return Addressee{}, err
	}
	o := event.object("data", "object")
	a := Addressee{
		Number:     shown(o.text("number")),
		InvoiceURL: link(o.text("hosted_invoice_url")),
	}
	name := o.text("object")
	for _, place := range []struct {
		object
		field, email, name string
	}{
		{o, "customer_email", "customer_email", "customer_name"}, // an invoice, a checkout session
		{o.object("customer_details"), "customer_details.email", "email", "name"},
		{o.object("billing_details"), "billing_details.email", "email", "name"}, // a charge
		{o.object("customer"), "customer.email", "email", "name"},
	} {
		if a.Name == "" {
			a.Name = shown(place.text(place.name))
		}
		if email := place.text(place.email); a.Email == "" && email != "" {
			if !isAddress(email) {
				return Addressee{}, review(Unreadable, name+"."+place.field, "no bare e-mail address")
			}
			a.Email = email
		}
	}
	return a, nil
}

// isAddress reports whether s is a bare address within the bounds of SMTP (RFC 5321 §4.5.3.1: 64 bytes before the @,
// 256 with the angle brackets).
func isAddress(s string) bool {
	parsed, err := mail.ParseAddress(s)
	return err == nil && parsed.Address == s && len(s) <= 254 && strings.LastIndexByte(s, '@') <= 64
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
