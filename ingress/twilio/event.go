package twilio

import (
	"bytes"
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// kinds are the kinds of callbacks with a status. The order matters: a recording's callback also contains a call, and a
// transcription's callback also contains a recording. Rooms and conferences have the same status parameter.
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

// Events returns the event of a callback, or the events of an Event Streams batch.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	// A delivery with bodySHA256 is not a form, although a proxy may have removed its content type.
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

// callback reads a form, or the query of a request without a body, because Twilio can send callbacks as GET. The event
// ID is the idempotency token, which is the same in each attempt. Without a token, two callbacks with equal query and
// parameters are one event. The signed text contains the parameters sorted, decoded and directly after the query. An
// attacker can therefore change the spelling of a captured form or the boundary between query and form, so the identity
// ignores both.
func callback(r *webhook.Request) webhook.Event {
	form, err := parseForm(string(r.Body))
	e := webhook.Event{ID: webhook.HashID(r.Body), IDOrigin: webhook.FromHash}
	if err == nil {
		params := signedParams(form)
		text := signedText(r.URL, params)
		e.Signed = []byte(strings.ReplaceAll(text, "=", "")) // Node writes a name without a value with "="
		e.ID = webhook.HashID(e.Signed)
		if len(params) == 0 {
			// Twilio may sign any of several spellings of the URL. Deliveries with different spellings are the same
			// event.
			e.ID, e.Body = webhook.HashID([]byte(spelling(r.URL))), []byte(r.Query())
			form, err = parseForm(r.Query())
		}
		switch {
		case account.MatchString(text) && len(params) == 0,
			strings.Contains(text, bodyHashParam+"=") && !account.MatchString(text):
			// An attacker moved the boundary between URL and parameters: parameters of a form into the URL, or the end
			// of the URL of a JSON delivery into the parameters.
			e.Problem = string(webhook.UnknownEnvelope)
		case len(params) == 0 && form.Get("AccountSid") == "":
			e.Problem = string(webhook.EmptyBody)
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

// describe returns the type and the object of a callback. It uses the first of kinds for which the form contains both
// parameters. If no kind fits, the type is EventType, which TaskRouter and Conversations send
// (twilio.com/docs/taskrouter/api/event/reference), and the object is the first known ID in the form.
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

// streamEvent reads one CloudEvent of Event Streams. own is its part of the body, or nil if it is the whole body.
func streamEvent(raw, own []byte) webhook.Event {
	body := webhook.ReadEnvelope(raw)
	e := webhook.Event{
		ID:       webhook.HashID(raw),
		IDOrigin: webhook.FromHash,
		// The key depends on the product: Messaging, Conversations, or Studio and TaskRouter
		// (twilio.com/docs/events/event-types).
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
