// Package meta verifies the webhooks of Meta's Graph API: Facebook pages, Instagram, Messenger, WhatsApp. It answers
// the handshake of a subscription and splits batches.
//
// Source: developers.facebook.com/docs/graph-api/webhooks. The secret is the app secret.
package meta

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// verifyTokenOption is the key in Settings.Options for the token that is entered in Meta's dashboard. Without it, the
// handshake of a subscription is rejected; deliveries are not.
const verifyTokenOption = "verify_token"

// Provider is Meta.
var Provider = hmac.New(webhook.Provider{
	Name: "meta",
	Contract: webhook.Contract{
		Scheme:     "HMAC-SHA256 of body, hex",
		ID:         "none (hash of each change)",
		Type:       "body object.field of each change",
		Account:    "id of each entry",
		Object:     "id of the first message or status of a change",
		OccurredAt: "time of each entry",
		Identity:   webhook.ByID,
		Dedupe:     "hash of each change with its entry; messages and their statuses are hashed without the entry's time, which is the time of sending",
		Retries:    "for some hours (not re-checked)",
		Disables:   "when it fails for long (not re-checked)",
		Options: map[string]string{
			verifyTokenOption: "the token that is entered in Meta's dashboard, of 24 bytes at least; without it the subscription's handshake is refused",
		},
	},
	Sample: webhook.Sample{Type: "page.feed"},
}, hmac.Scheme{Header: "X-Hub-Signature-256", Prefix: "sha256="}, newVerifier)

type verifier struct {
	*hmac.Verifier
	tokens *webhook.Keyring[[]byte] // nil if no verify_token is set
}

func newVerifier(v *hmac.Verifier, s webhook.Settings) (webhook.Verifier, error) {
	token := s.Options[verifyTokenOption]
	if token == "" {
		return &verifier{Verifier: v}, nil
	}
	s.Secrets = []webhook.Secret{{Label: "options." + verifyTokenOption, Value: token}}
	tokens, err := webhook.NewHMACKeyring(s, webhook.TextKey)
	return &verifier{v, tokens}, err
}

// Verify checks the signature of a delivery. A handshake is a GET without a signature; Verify compares its
// hub.verify_token with the configured one.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	if r.Method != http.MethodGet {
		return v.Verifier.Verify(r)
	}
	query := handshake(r)
	switch {
	case query == nil:
		return webhook.Refuse(webhook.MissingSignature, "a GET that is not a subscription handshake")
	case v.tokens == nil:
		return webhook.Refuse(webhook.NoMatchingSignature, "options.%s is not set, so no handshake is admitted",
			verifyTokenOption)
	}
	return webhook.MatchToken(v.tokens, r.ReceivedAt, webhook.HashToken(query.Get("hub.verify_token")))
}

// Answer answers the handshake with its challenge.
func (v *verifier) Answer(r *webhook.Request) (webhook.Answer, bool) {
	query := handshake(r)
	if query == nil {
		return webhook.Answer{}, false
	}
	return webhook.Answer{
		Status:      http.StatusOK,
		ContentType: "text/plain; charset=utf-8",
		Body:        []byte(query.Get("hub.challenge")),
	}, true
}

// handshake returns the query of a subscription handshake, or nil.
func handshake(r *webhook.Request) url.Values {
	if r.Method != http.MethodGet {
		return nil
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil
	}
	query := u.Query()
	if query.Get("hub.mode") != "subscribe" || query.Get("hub.challenge") == "" {
		return nil
	}
	return query
}

// Events returns an event for each change of each entry. Meta batches up to 1,000 changes, and may split a batch
// differently when it retries.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	if r.Method == http.MethodGet {
		return nil
	}
	body := webhook.ReadEnvelope(r.Body)
	object := body.EventType("object")
	raw, _ := body.Raw("entry")
	entries, problem := webhook.Elements(raw)
	if problem != "" || body.Problem() != "" {
		if body.Problem() == "" {
			body.Note(webhook.UnknownEnvelope, "entry is no array")
		}
		return []webhook.Event{{ID: webhook.HashID(r.Body), IDOrigin: webhook.FromHash, Type: object,
			Problem: body.Problem()}}
	}
	var events []webhook.Event
	for _, entry := range entries {
		events = append(events, entryEvents(object, entry)...)
	}
	return events
}

// entryEvents returns an event for each change of an entry (Graph API, WhatsApp) or each message (Messenger). For other
// entries, which only list the names of the changed fields, it returns one event.
func entryEvents(object string, raw json.RawMessage) []webhook.Event {
	entry := webhook.ReadEnvelope(raw)
	for _, list := range []string{"changes", "messaging"} {
		value, there := entry.Raw(list)
		if !there {
			continue
		}
		items, problem := webhook.Elements(value)
		if problem != "" {
			entry.Note(webhook.UnknownEnvelope, list+" is no array")
			break
		}
		events := make([]webhook.Event, 0, len(items))
		for _, item := range items {
			events = append(events, changeEvent(object, list, entry, item))
		}
		return events
	}
	return []webhook.Event{changeEvent(object, "entry", entry, raw)}
}

// changeEvent returns the event of one change. A message has its own ID. Other changes may repeat, so equal changes
// with equal entry times are one event. The entry's time is the time of sending; a batch that is split differently on a
// retry may have another time.
func changeEvent(object, list string, entry *webhook.Envelope, raw json.RawMessage) webhook.Event {
	change := webhook.ReadEnvelope(raw)
	field := list
	if list == "changes" {
		field = change.EventType("field")
	}
	identity := strconv.AppendQuote(nil, object)
	identity = strconv.AppendQuote(identity, entry.Text("id"))
	message := messageID(change)
	if message == "" {
		identity = strconv.AppendQuote(identity, entry.Text("time"))
	}
	e := webhook.Event{
		ID:       webhook.HashID(append(identity, raw...)),
		IDOrigin: webhook.FromHash,
		Type:     webhook.Tag(object + "." + field),
		Account:  entry.Tag("id"),
		Object:   message,
		Body:     raw,
	}
	if at, err := webhook.ParseUnix("time", entry.Text("time")); err == nil {
		e.OccurredAt = at.UTC()
	} else if at, err := webhook.ParseUnixMilli("time", entry.Text("time")); err == nil { // Messenger
		e.OccurredAt = at.UTC()
	}
	if e.Problem = entry.Problem(); e.Problem == "" {
		e.Problem = change.Problem()
	}
	return e
}

// messageID returns the ID of the first message or status of a change, or "".
func messageID(change *webhook.Envelope) string {
	if id := change.Tag("message.mid"); id != "" {
		return id
	}
	for _, list := range []string{"value.messages", "value.statuses"} {
		raw, _ := change.Raw(list)
		if items, problem := webhook.Elements(raw); problem == "" && len(items) > 0 {
			return webhook.ReadEnvelope(items[0]).Tag("id")
		}
	}
	return ""
}
