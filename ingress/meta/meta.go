// Package meta verifies the webhooks of Meta's Graph API: Facebook pages, Instagram, Messenger, WhatsApp. It answers
// the handshake of a webhook subscription, and splits batches into events.
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

// verifyTokenOption is the key in Settings.Options for the token that the operator entered in Meta's dashboard. Without
// it, Verify rejects the handshake of a subscription, but not deliveries.
const verifyTokenOption = "verify_token"

// Provider is Meta.
var Provider = hmac.New(webhook.Provider{
	Name: "meta",
	Contract: webhook.Contract{
		Scheme:     "HMAC-SHA256 of the body, in hex",
		ID:         "none; pawl uses the hash of each change",
		Type:       "object in the body and field of each change, joined by a dot: page.feed",
		Account:    "id of each entry",
		Object:     "id of the first message or status in a change",
		OccurredAt: "time of each entry",
		Identity:   webhook.ByID,
		Dedupe:     "hash of each change and its entry. The hash of a message or a status omits the time of the entry, because each attempt has another time",
		Retries:    "for several hours (unconfirmed)",
		Disables:   "if deliveries fail for a long time (unconfirmed)",
		Options: map[string]string{
			verifyTokenOption: "the verify token that you entered in Meta's dashboard, at least 24 bytes. Without this option, pawl refuses the handshake of a webhook subscription",
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

// Verify checks the signature of a delivery. A handshake is a GET request without a signature: Verify compares its
// hub.verify_token with the configured token.
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

// Answer returns the challenge of a handshake as the answer.
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

// Events returns an event for each change of each entry. A delivery contains up to 1,000 changes. When Meta retries, it
// may distribute the changes differently among deliveries.
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

// entryEvents returns one event for each change of an entry (Graph API, WhatsApp) or each message (Messenger). Other
// entries only list the names of the changed fields, and are one event each.
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

// changeEvent returns the event of one change. The hash of a message or a status omits the time of the entry: that is
// the time of sending, and a retry may have another time. The message contains its own ID. Any other change can happen
// again, so its hash includes the time of the entry.
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

// messageID returns the ID of the first message or status in a change, or "" if the change contains neither.
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
