package twilio

import (
	"bytes"
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// kinds are the callbacks with a status, the more specific first: the callback of a recording names its call as well,
// and the callback of a transcription its recording. Rooms and conferences share a parameter.
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

// Events returns the one event of a callback, or the events of an Event Streams batch.
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

// callback reads a form, or the query of a request without a body, because Twilio can send callbacks as GET. The
// idempotency token is the same on each attempt and distinguishes two callbacks with equal parameters. Without a token,
// equal parameters of one query are one event. They are signed in any order, with any escapes, directly after the
// query. So a captured form is the same event in another spelling, and if it is split at another place.
func callback(r *webhook.Request) webhook.Event {
	form, err := parseForm(string(r.Body))
	e := webhook.Event{ID: webhook.HashID(r.Body), IDOrigin: webhook.FromHash}
	if err == nil {
		params := signedParams(form)
		text := signedText(r.URL, params)
		e.Signed = []byte(strings.ReplaceAll(text, "=", "")) // Node's spelling of a name without a value has one more
		e.ID = webhook.HashID(e.Signed)
		if len(params) == 0 {
			// Twilio signs any spelling of the URL. All spellings are the same event.
			e.ID, e.Body = webhook.HashID([]byte(spelling(r.URL))), []byte(r.Query())
			form, err = parseForm(r.Query())
		}
		switch {
		case account.MatchString(text) && len(params) == 0,
			strings.Contains(text, bodyHashParam+"=") && !account.MatchString(text):
			// The boundary between URL and parameters has moved: parameters of a form into the URL, or the end of the
			// URL of another body into the parameters.
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

// describe returns the type and object of a callback from the first kind that has both. Otherwise the type is
// EventType, as in TaskRouter (twilio.com/docs/taskrouter/api/event/reference) and Conversations, or "", and the object
// is the first one in the form.
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
