package slack

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// urlVerification is the type of the handshake that validates a new endpoint.
const urlVerification = "url_verification"

// Answer answers url_verification with its challenge. The ingress calls Answer after Verify: if it also answered
// unsigned challenges, anybody could register the endpoint for another app.
//
// A form is a slash command or an interaction. Its answer is empty, because Slack shows the body to the user. Its
// status is 200: "This confirmation must be an HTTP 200 response" (docs.slack.dev, Implementing slash commands).
func (v verifier) Answer(r *webhook.Request) (webhook.Answer, bool) {
	if isForm(r) && r.Method == http.MethodPost {
		return webhook.Answer{Status: http.StatusOK}, true
	}
	challenge := challengeOf(r.Body)
	if challenge == "" {
		return webhook.Answer{}, false
	}
	return webhook.Answer{Status: http.StatusOK, ContentType: "text/plain; charset=utf-8", Body: []byte(challenge)},
		true
}

// challengeOf returns the challenge of url_verification, or "" for any other body.
func challengeOf(raw []byte) string {
	body := webhook.ReadEnvelope(raw)
	if body.String("type") != urlVerification {
		return ""
	}
	return body.String("challenge")
}

// Events returns the one event of r, or no event for url_verification.
func (v verifier) Events(r *webhook.Request) []webhook.Event {
	if isForm(r) {
		return []webhook.Event{formEvent(r)}
	}
	if challengeOf(r.Body) != "" {
		return nil
	}
	return []webhook.Event{jsonEvent(r.Body)}
}

// jsonEvent reads an event of the Events API.
func jsonEvent(raw []byte) webhook.Event {
	body := webhook.ReadEnvelope(raw)
	e := webhook.Event{Account: body.Tag("team_id")}
	switch outer := body.String("type"); outer {
	case "event_callback":
		e.ID, e.IDOrigin = body.EventID("event_id")
		e.Type = body.EventType("event.type")
		e.OccurredAt = body.UnixTime("event_time")
	case "app_rate_limited":
		// A rate-limit notice contains a minute and no ID. All notices about one minute are one event.
		e.ID, e.IDOrigin = webhook.HashID(raw), webhook.FromHash
		e.Type = outer
		e.OccurredAt = body.UnixTime("minute_rate_limited")
	default:
		e.ID, e.IDOrigin = webhook.HashID(raw), webhook.FromHash
		if e.Type = body.EventType("type"); e.Type != "" {
			body.Note(webhook.UnknownEnvelope, "")
		}
	}
	e.Problem = body.Problem()
	return e
}

// formEvent reads a slash command or an interaction. Neither has an event ID. Each body contains a unique trigger_id,
// so the hash of the body identifies the event.
func formEvent(r *webhook.Request) webhook.Event {
	e := webhook.Event{ID: webhook.HashID(r.Body), IDOrigin: webhook.FromHash}
	form, err := url.ParseQuery(string(r.Body))
	switch {
	case len(r.Body) == 0:
		e.Problem = string(webhook.EmptyBody)
	case err != nil:
		e.Problem = string(webhook.NotAForm)
	case form.Has("payload"):
		payload := webhook.ReadEnvelope([]byte(form.Get("payload")))
		e.Type = payload.EventType("type")
		e.Account = payload.Tag("team.id")
		e.Problem = payload.Problem()
	case form.Has("command"):
		e.Type = "slash_command"
		e.Account = webhook.Tag(form.Get("team_id"))
	default:
		e.Problem = string(webhook.UnknownEnvelope)
	}
	return e
}

// isForm reports whether r is a form. The content type is not signed, so a body that begins like JSON is not a form:
// otherwise an attacker with a captured event could send the text of a message as a command. Any other body is a form
// if it has the content type of a form, or no content type.
func isForm(r *webhook.Request) bool {
	body := bytes.TrimLeft(r.Body, " \t\r\n")
	if len(body) > 0 && body[0] == '{' {
		return false
	}
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		return len(body) > 0
	}
	mediaType, _, _ := mime.ParseMediaType(contentType)
	return mediaType == "application/x-www-form-urlencoded"
}
