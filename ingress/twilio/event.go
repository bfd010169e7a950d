package twilio

import (
	"bytes"
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// kinds are the callbacks that tell a status, the more special first: a recording's callback
// names its call too, and a transcription's its recording. Rooms and conferences share a parameter.
var kinds = []struct{ name, status, object string }{
	{"transcription", "TranscriptionStatus", "TranscriptionSid"},
	{"room", "StatusCallbackEvent", "RoomSid"},
	{"recording", "RecordingStatus", "RecordingSid"},
	{"conference", "StatusCallbackEvent", "ConferenceSid"},
	{"message", "MessageStatus", "MessageSid"},
	{"message", "SmsStatus", "MessageSid"},
	{"message", "SmsStatus", "SmsSid"},
	{"call", "CallStatus", "CallSid"},
}

// Events reads the one event of a callback, or the events of an Event Streams batch.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	// A delivery with bodySHA256 is no form, although it may have lost its content type on the way.
	if isForm(r) && len(bodyHashes(r.URL)) == 0 {
		return []webhook.Event{callback(r)}
	}
	if trimmed := bytes.TrimLeft(r.Body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '[' {
		return []webhook.Event{streamEvent(r.Body, nil)}
	}
	items, problem := webhook.Elements(r.Body)
	if problem != "" {
		return []webhook.Event{{ID: webhook.HashID(r.Body), IDOrigin: webhook.FromHash, Problem: string(problem)}}
	}
	var events []webhook.Event
	for _, item := range items {
		events = append(events, streamEvent(item, item))
	}
	return events
}

// callback reads a form. The idempotency token is the same on each attempt and tells two callbacks
// with equal parameters apart; without one, equal parameters of one query are one event. They are signed in any order
// and with any escapes, right behind the query: a captured form comes to the same event in another spelling,
// and cut otherwise.
func callback(r *webhook.Request) webhook.Event {
	form, err := parseForm(r.Body)
	e := webhook.Event{ID: webhook.HashID(r.Body), IDOrigin: webhook.FromHash}
	if err == nil {
		params := signedParams(form)
		text := signedText(r.URL, params)
		e.Signed = []byte(strings.ReplaceAll(text, "=", "")) // Node's form of a name without value has one more
		e.ID = webhook.HashID(e.Signed)
		switch {
		case len(params) == 0:
			// The URL is what differs between callbacks that carry their parameters there. It is signed in
			// any of its spellings: a captured one comes to the same event in another.
			e.ID = webhook.HashID([]byte(spelling(r.URL)))
			e.Problem = string(webhook.EmptyBody)
		case strings.Contains(text, bodyHashParam+"=") && !account.MatchString(text):
			// Twilio signed the URL of a body that is no form, and the end of the URL came as parameters.
			e.Problem = string(webhook.UnknownEnvelope)
		}
	}
	if token := r.Header.Get(idempotencyHeader); token != "" {
		var problem string
		if e.ID, e.IDOrigin, problem = webhook.UsableID(token, webhook.FromHeader); problem != "" {
			e.Problem = string(webhook.InvalidEventID) + ": " + problem
		}
	}
	if err != nil {
		e.Problem = string(webhook.NotAForm)
		return e
	}
	e.Account = webhook.Tag(form.Get("AccountSid"))
	e.Type, e.Object = describe(form)
	e.OccurredAt = webhook.ParseMoment(form.Get("Timestamp"), time.RFC1123Z)
	return e
}

// describe returns the type and object of a callback, of the first kind that tells both. If none does, the type is
// EventType, as TaskRouter (twilio.com/docs/taskrouter/api/event/reference) and Conversations call it, or "", and the
// object the first that is named.
func describe(form url.Values) (eventType, object string) {
	for _, k := range kinds {
		named := webhook.Tag(form.Get(k.object))
		if status := webhook.Tag(form.Get(k.status)); named != "" && status != "" {
			return k.name + "." + status, named
		}
		if object == "" {
			object = named
		}
	}
	object = cmp.Or(object, webhook.Tag(form.Get("ResourceSid")), webhook.Tag(form.Get("ConversationSid")))
	return webhook.Tag(form.Get("EventType")), object
}

// streamEvent reads one CloudEvent of Event Streams.
func streamEvent(raw, own []byte) webhook.Event {
	body := webhook.ReadEnvelope(raw)
	e := webhook.Event{
		ID:       webhook.HashID(raw),
		IDOrigin: webhook.FromHash,
		// Messaging, Conversations, and Studio and TaskRouter (twilio.com/docs/events/event-types).
		Account: cmp.Or(body.Tag("data.accountSid"), body.Tag("data.AccountSid"), body.Tag("data.account_sid")),
		Object:  body.Tag("subject"),
		Body:    own,
	}
	if body.Has("specversion") {
		e.ID, e.IDOrigin = body.EventID("id")
		e.Type = body.EventType("type")
		e.OccurredAt = body.RFC3339("time")
	}
	e.Problem = body.Problem()
	return e
}
