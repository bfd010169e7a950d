package stripe

import (
	"errors"
	"strings"
	"testing"
)

func TestReadAddressee(t *testing.T) {
	t.Parallel()
	want := Addressee{Email: "ada@example.com", Name: "Ada", Number: "A-1", InvoiceURL: "https://invoice.stripe.com/i/1"}
	eachVersion(t, func(t *testing.T, version string) {
		invoice := invoiceEvent(t, version, "invoice.paid")
		set(objectOf(invoice), document{"customer_name": "Ada", "hosted_invoice_url": "https://invoice.stripe.com/i/1"})
		session := checkoutEvent(t, version, "checkout.session.completed")
		set(objectOf(session), document{"customer_email": nil, "customer_details": document{"email": "ada@example.com", "name": "Ada"}})
		charge := chargeEvent(t, version, "charge.refunded")
		set(objectOf(charge), document{"billing_details": document{"email": "ada@example.com", "name": "Ada"}})
		subscription := subscriptionEvent(t, version, "customer.subscription.trial_will_end")
		objectOf(subscription)["customer"] = document{"id": "cus_1", "email": "ada@example.com", "name": "Ada"}
		for name, event := range map[string]document{"invoice": invoice, "session": session, "charge": charge, "subscription": subscription} {
			want := want
			if name != "invoice" {
				want.Number, want.InvoiceURL = "", ""
			}
			if got, err := ReadAddressee(encode(t, event)); got != want || err != nil {
				t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
			}
		}
		objectOf(subscription)["customer"] = "cus_1"
		if got, err := ReadAddressee(encode(t, subscription)); got != (Addressee{}) || err != nil {
			t.Errorf("no address: %+v, %v", got, err)
		}
	})
}

func TestReadAddressee_Address(t *testing.T) {
	t.Parallel()
	local, domain := strings.Repeat("l", 64), strings.Repeat("d", 185)+".com" // 64 + 1 + 189 = 254
	for address, ok := range map[string]bool{
		"ada@example.com": true, "ada+pawl@example.co.uk": true, "ädä@example.com": true, local + "@" + domain: true,
		local + "x@example.com": false, local + "@d" + domain: false,
		`"x" <ada@example.com>`: false, "<ada@example.com>": false, "Ada <ada@example.com>": false, "ada@example.com, bob@example.com": false,
		"ada@example.com\r\nBcc: bob@example.com": false, " ada@example.com": false, "ada@example.com (Ada)": false, "ada": false, "@example.com": false,
		`"a b"@example.com`: false, "a\x00b@example.com": false,
	} {
		event := invoiceEvent(t, dahlia, "invoice.paid")
		objectOf(event)["customer_email"] = address
		got, err := ReadAddressee(encode(t, event))
		if ok && (err != nil || got.Email != address) {
			t.Errorf("%q: %+v, %v", address, got, err)
		}
		var field *FieldError
		if !ok && (!errors.As(err, &field) || field.Field != "invoice.customer_email" || got != (Addressee{})) {
			t.Errorf("%q: %+v, %v; want a refusal", address, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "example.com") {
			t.Errorf("the error holds the address: %v", err)
		}
	}
}

// What only decorates a letter is left out where it cannot stand there.
func TestReadAddressee_Decoration_LeftOut(t *testing.T) {
	t.Parallel()
	event := invoiceEvent(t, dahlia, "invoice.paid")
	for _, url := range []string{"http://invoice.stripe.com/i/1", "javascript:alert(1)", "https://u@evil.example/", "https://a b/", "https://", "x", "https://x/\n", "https://x/\"><a"} {
		set(objectOf(event), document{"customer_name": "Ada\r\nBcc: bob", "number": strings.Repeat("9", 201), "hosted_invoice_url": url})
		if got, err := ReadAddressee(encode(t, event)); got != (Addressee{Email: "ada@example.com"}) || err != nil {
			t.Errorf("%q: %+v, %v", url, got, err)
		}
	}
}
