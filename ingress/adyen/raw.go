package adyen

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// rawEvent returns the event of a webhook with a signature of its body. Such webhooks contain no event ID.
func rawEvent(raw []byte) webhook.Event {
	body := webhook.ReadEnvelope(raw)
	e := webhook.Event{
		ID:         webhook.HashID(raw),
		IDOrigin:   webhook.FromHash,
		Type:       body.EventType("type"),
		Account:    body.FirstTag("data.balancePlatform", "data.merchantId", "data.merchantAccount"),
		Mode:       modeAt(body, "environment", "live", "test"),
		OccurredAt: body.Moment("timestamp"), // older management webhooks send a date without a time
	}
	if !body.Readable() {
		// Adyen has sent correctly signed bodies that are not JSON. gjson reads the type if it precedes the syntax
		// error.
		e.Type = webhook.Tag(gjson.GetBytes(raw, "type").Str)
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = body.Moment("createdAt")
	}
	e.Object = objectID(body, e.Type)
	e.Problem = body.Problem()
	return e
}

// objectID returns the ID of the event's object. In platform webhooks, the type contains the key of the object: for
// balancePlatform.accountHolder.created, the ID is data.accountHolder.id. Webhooks about tokens contain
// data.storedPaymentMethodId, and all others data.id.
func objectID(body *webhook.Envelope, eventType string) string {
	if parts := strings.Split(eventType, "."); len(parts) > 2 {
		if id := body.Tag("data." + parts[1] + ".id"); id != "" {
			return id
		}
	}
	return body.FirstTag("data.id", "data.storedPaymentMethodId")
}
