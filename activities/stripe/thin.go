package stripe

import (
	"context"
	"strings"

	api "github.com/stripe/stripe-go/v76"
)

// A thin event names an object in the place of carrying it: docs.stripe.com/api/v2/core/events/event-types. The types
// of those about objects of API v1 are the types of snapshot events after "v1.".

// related are the objects that can be asked for, by the tag that a thin event has for them: their "object".
var related = map[string]string{
	"subscription": "/v1/subscriptions/%s", "invoice": "/v1/invoices/%s", "charge": "/v1/charges/%s",
	"payment_intent": "/v1/payment_intents/%s", "invoice_payment": "/v1/invoice_payments/%s",
	"checkout.session": "/v1/checkout/sessions/%s", "refund": "/v1/refunds/%s", "dispute": "/v1/disputes/%s",
	"credit_note": "/v1/credit_notes/%s", "radar.early_fraud_warning": "/v1/radar/early_fraud_warnings/%s",
	"customer": "/v1/customers/%s",
}

// SnapshotType is the type of the snapshot event that tells the same as a thin event, else the type as it is.
func SnapshotType(eventType string) string { return strings.TrimPrefix(eventType, "v1.") }

// Related returns the tag and the ID of the object that a thin event is about. thin is false for any other body. An
// object that cannot be asked for is a [ReviewError].
func Related(body []byte) (tag, id string, thin bool, err error) {
	event, err := parse(body)
	if err != nil || event.text("object") != "v2.core.event" {
		return "", "", false, nil // Read tells what is wrong
	}
	o := event.object("related_object")
	tag, id = o.text("type"), o.text("id")
	switch {
	case related[tag] == "":
		err = review(Thin, "related_object.type", "is none that is asked for")
	case id == "" || Unusable(id, 255) != "":
		err = review(Thin, "related_object.id", "absent, or not usable")
	}
	return tag, id, true, err
}

// RelatedObject returns the object that a thin event is about. It is like [Client.Subscription] otherwise.
func (c *Client) RelatedObject(ctx context.Context, tag, id, account string) (Fetched, error) {
	if tag == "invoice" {
		return c.Invoice(ctx, id, account)
	}
	return c.get(ctx, api.FormatURLPath(related[tag], id), account, nil)
}
