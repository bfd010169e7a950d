package adyen

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// rawEvent returns the event of a webhook that is signed over its body. Adyen sends no ID in it.
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
		// Adyen has sent correctly signed bodies that are not JSON. The event is parked, with the type that precedes
		// the fault.
		e.Type = webhook.Tag(gjson.GetBytes(raw, "type").Str)
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = body.Moment("createdAt")
	}
	e.Object = objectID(body, e.Type)
	e.Problem = body.Problem()
	return e
}

// objectID returns the ID of the event's object. Platform webhooks name it in their type: data.accountHolder.id for
// balancePlatform.accountHolder.created. Others have it in data.id, and those about tokens in
// data.storedPaymentMethodId.
func objectID(body *webhook.Envelope, eventType string) string {
	if parts := strings.Split(eventType, "."); len(parts) > 2 {
		if id := body.Tag("data." + parts[1] + ".id"); id != "" {
			return id
		}
	}
	return body.FirstTag("data.id", "data.storedPaymentMethodId")
}
