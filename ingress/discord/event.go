package discord

import (
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// Answer returns the answers to Discord's pings. A ping of webhook events (type 0) gets 204 with a content type. A ping
// of interactions (type 1) gets 200 and the body {"type":1}.
func (v *verifier) Answer(r *webhook.Request) (webhook.Answer, bool) {
	body := webhook.ReadEnvelope(r.Body)
	switch {
	case isWebhookEvent(body) && body.Number("type") == "0":
		return acknowledge, true
	case !isWebhookEvent(body) && body.Number("type") == "1":
		return webhook.Answer{Status: http.StatusOK, ContentType: "application/json", Body: []byte(`{"type":1}`)}, true
	}
	return webhook.Answer{}, false
}

// acknowledge is 204 with a valid content type, which Discord's documentation requires for events.
var acknowledge = webhook.Answer{Status: http.StatusNoContent, ContentType: "application/json"}

// Events returns the one event of r, or no event for a ping. Discord's events have no ID. An interaction has an ID,
// which is stored as the object of the event. Discord does not retry interactions.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	if _, ping := v.Answer(r); ping {
		return nil
	}
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{
		ID:       webhook.HashID(r.Body),
		IDOrigin: webhook.FromHash,
		Account:  body.Tag("application_id"),
	}
	switch {
	case body.Has("event"):
		e.Type = body.EventType("event.type")
		e.Object = body.Tag("event.data.id")
		// In Discord's documentation, the time is ISO 8601 in UTC, without a zone.
		e.OccurredAt = webhook.ParseMoment(body.String("event.timestamp"), time.RFC3339Nano,
			"2006-01-02T15:04:05.999999999")
	case !isWebhookEvent(body) && body.Number("type") != "":
		e.Type = webhook.Tag("interaction." + body.Number("type").String())
		e.Object = body.Tag("id")
	case body.Readable():
		body.Note(webhook.UnknownEnvelope, "")
	}
	e.Problem = body.Problem()
	return []webhook.Event{e}
}

// isWebhookEvent reports whether body is a webhook event and not an interaction. Only interactions contain id and
// token.
func isWebhookEvent(body *webhook.Envelope) bool {
	return !body.Has("id") && !body.Has("token") && body.Has("version")
}
