package adyen

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// rawEvent reads the event of a webhook that is signed over its body. Adyen gives it no ID.
func rawEvent(raw []byte) webhook.Event {
	body := webhook.ReadEnvelope(raw)
	e := webhook.Event{
		ID:         webhook.HashID(raw),
		IDOrigin:   webhook.FromHash,
		Type:       body.EventType("type"),
		Account:    firstTag(body, "data.balancePlatform", "data.merchantId", "data.merchantAccount"),
		Mode:       modeAt(body, "environment", "live", "test"),
		OccurredAt: body.Moment("timestamp"), // older management webhooks send a date, which is no time
	}
	if !body.Readable() {
		e.Type = webhook.Tag(typeBeforeFault(raw))
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
	return firstTag(body, "data.id", "data.storedPaymentMethodId")
}

// firstTag returns the first of the paths' values that there is.
func firstTag(body *webhook.Envelope, paths ...string) string {
	for _, path := range paths {
		if tag := body.Tag(path); tag != "" {
			return tag
		}
	}
	return ""
}

// typeBeforeFault returns the type of a body that is no JSON where it stands before the fault. Adyen has sent such
// bodies, correctly signed; the event parks either way, and the person who finds it sees its type.
func typeBeforeFault(raw []byte) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return ""
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return ""
		}
		var text string
		if key == "type" && json.Unmarshal(value, &text) == nil {
			return text
		}
	}
	return ""
}
