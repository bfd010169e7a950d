package stripe

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

var addressed = fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_1"}

func addressTold(t *testing.T, event document) billing.Address {
	t.Helper()
	of := addressed
	of.EventType = event["type"].(string)
	a := ReadAddress(encode(t, event), of)
	a.EventID, a.EventType, a.Provider, a.Mode = "", "", "", ""
	return a
}

func TestReadAddress(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		of := fact.Subject{Customer: "cus_1", OccurredAt: time.Unix(occurred, 0).UTC()}
		finalized := of
		finalized.OccurredAt = time.Unix(periodStart, 0).UTC()
		guest := of
		guest.Customer = "cs_1"
		invoice := invoiceEvent(t, version, "invoice.paid")
		set(objectOf(invoice), document{"customer_name": "Ada", "hosted_invoice_url": "https://invoice.stripe.com/i/1",
			"status_transitions": document{"finalized_at": periodStart}})
		session := checkoutEvent(t, version, "checkout.session.completed")
		set(objectOf(session), document{"customer": "cus_1", "status": "complete", "customer_email": nil, "customer_details": document{"email": "ada@example.com", "name": "Ada"}})
		alone := checkoutEvent(t, version, "checkout.session.completed")
		set(objectOf(alone), document{"id": "cs_1", "customer": nil, "status": "complete", "customer_details": document{"email": "ada@example.com", "name": "Ada"}})
		expired := checkoutEvent(t, version, "checkout.session.expired")
		set(objectOf(expired), document{"status": "expired", "customer_email": "ada@example.com"})
		o := example(t, version, "customer")
		set(o, document{"id": "cus_1", "email": "ada@example.com", "name": "Ada", "preferred_locales": []any{"de-AT", "en"}, "metadata": document{"timezone": "Europe/Vienna"}})
		charge := chargeEvent(t, version, "charge.refunded")
		set(objectOf(charge), document{"billing_details": document{"email": "card@example.com", "name": "Somebody"}})
		for name, tt := range map[string]struct {
			event document
			want  billing.Address
		}{
			"invoice": {invoice, billing.Address{Subject: finalized, Email: "ada@example.com", Name: "Ada", Invoice: "in_1", Page: "https://invoice.stripe.com/i/1"}},
			"session": {session, billing.Address{Subject: of, Email: "ada@example.com", Name: "Ada"}},
			"guest":   {alone, billing.Address{Subject: guest, Email: "ada@example.com", Name: "Ada"}},
			"customer": {eventOf(version, "customer.updated", o), billing.Address{Subject: of, Rank: fact.RankChange, Whole: true,
				Email: "ada@example.com", Name: "Ada", Locale: "de-AT", Zone: "Europe/Vienna"}},
			"deleted customer": {eventOf(version, "customer.deleted", o), billing.Address{Subject: of, Rank: fact.RankChange, Whole: true,
				Email: "ada@example.com", Name: "Ada", Locale: "de-AT", Zone: "Europe/Vienna", Deleted: of.OccurredAt}},
			"of a session that came to nothing": {expired, billing.Address{}},
			"of a card":                         {charge, billing.Address{}},
			"of a subscription":                 {subscriptionEvent(t, version, "customer.subscription.updated"), billing.Address{}},
		} {
			if got := addressTold(t, tt.event); got != tt.want {
				t.Errorf("%s: %+v, want %+v", name, got, tt.want)
			}
		}
	})
}

func TestReadAddress_Email(t *testing.T) {
	t.Parallel()
	local, domain := strings.Repeat("l", 64), strings.Repeat("d", 185)+".com" // the total is 64 + 1 + 189 = 254
	for address, ok := range map[string]bool{
		"ada@example.com": true, "ada+pawl@example.co.uk": true, "ädä@example.com": true, local + "@" + domain: true,
		local + "x@example.com": false, local + "@d" + domain: false,
		`"x" <ada@example.com>`: false, "<ada@example.com>": false, "Ada <ada@example.com>": false, "ada@example.com, bob@example.com": false,
		"ada@example.com\r\nBcc: bob@example.com": false, " ada@example.com": false, "ada@example.com (Ada)": false, "ada": false, "@example.com": false,
		`"a b"@example.com`: false, "a\x00b@example.com": false,
	} {
		event := invoiceEvent(t, dahlia, "invoice.paid")
		objectOf(event)["customer_email"] = address
		want := map[bool]string{true: address}[ok]
		if got := addressTold(t, event); got.Email != want {
			t.Errorf("%q: %q", address, got.Email)
		}
	}
}

// A name that an e-mail cannot contain is omitted, as other optional values are. pawl still sends the e-mail.
func TestReadAddress_Decoration_LeftOut(t *testing.T) {
	t.Parallel()
	event := invoiceEvent(t, dahlia, "invoice.paid")
	for _, url := range []string{"http://invoice.stripe.com/i/1", "javascript:alert(1)", "https://u@evil.example/", "https://a b/", "https://", "x", "https://x/\n", "https://x/\"><a"} {
		set(objectOf(event), document{"customer_name": "Ada\r\nBcc: bob", "hosted_invoice_url": url})
		if got := addressTold(t, event); got.Email != "ada@example.com" || got.Name != "" || got.Page != "" {
			t.Errorf("%q: %+v", url, got)
		}
	}
	o := example(t, dahlia, "customer")
	set(o, document{"preferred_locales": []any{strings.Repeat("x", 36)}, "metadata": document{"timezone": "../../etc/passwd"}})
	if got := addressTold(t, eventOf(dahlia, "customer.updated", o)); got.Locale != "" || got.Zone != "" {
		t.Errorf("%+v", got)
	}
}
