// Package github verifies GitHub's webhooks: repository, organization and App hooks, as JSON or as a form.
//
// GitHub signs only the body. The delivery's ID and the name of the event are unsigned, and there is no time. Package
// receipt therefore detects replays by the hash of the body.
package github

import (
	"mime"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// GitHub sends two signatures of the body, "sha256=<hex>" and "sha1=<hex>". The HMAC key is the text of the secret
// (docs.github.com, Validating webhook deliveries).
const (
	signatureHeader = "X-Hub-Signature-256"
	sha1Header      = "X-Hub-Signature"
	eventHeader     = "X-GitHub-Event"
	deliveryHeader  = "X-GitHub-Delivery"
	hookHeader      = "X-GitHub-Hook-ID"
)

// LegacySHA1Option is a key in Settings.Options. If its value is "true", Verify also admits deliveries that have only
// the SHA-1 signature. Old GitHub Enterprise servers and compatible senders send them. If a delivery has the SHA-256
// header, Verify checks only that header.
const LegacySHA1Option = "legacy_sha1"

// Provider is GitHub.
var Provider = hmac.New(webhook.Provider{
	Name: "github",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of the body",
		ID:           "header " + deliveryHeader,
		Type:         "header " + eventHeader + " and action in the body, joined by a dot: issues.opened",
		Account:      "in the body: installation.id, else organization.login, else repository.full_name",
		Object:       "in the body, depending on the event: issue.id, pull_request.id, …",
		OccurredAt:   "in the body: updated_at of the object; push events: head_commit.timestamp",
		Dedupe:       "delivery ID and hash of the body; a redelivery has the same ID",
		AnswerWithin: 10 * time.Second,
		Retries:      "none; you can redeliver by hand or through GitHub's API",
		Options: map[string]string{
			LegacySHA1Option: "`true`: pawl also accepts deliveries that have only `X-Hub-Signature` (SHA-1), which old GitHub Enterprise servers send",
		},
		Disables:  "not published",
		BodyLimit: 25 << 20,
		Headers: webhook.Headers{
			Plain: []string{eventHeader, hookHeader, "X-GitHub-Hook-Installation-Target-ID",
				"X-GitHub-Hook-Installation-Target-Type"},
			Signatures: []string{sha1Header},
		},
	},
	Sign: sign,
	Sample: webhook.Sample{
		Type:    "issues.opened",
		EventID: webhook.RandomUUID,
		Funcs:   map[string]any{"objects": objects},
	},
}, scheme, newVerifier)

var (
	scheme = hmac.Scheme{Header: signatureHeader, Prefix: "sha256=", ID: "header:" + deliveryHeader}
	legacy = hmac.Scheme{Header: sha1Header, Prefix: "sha1=", Hash: "sha1"}
)

// verifier verifies the deliveries of one GitHub hook.
type verifier struct {
	*hmac.Verifier
	legacy *hmac.Verifier // nil if SHA-1 is not accepted
}

func newVerifier(v *hmac.Verifier, s webhook.Settings) (webhook.Verifier, error) {
	option, err := s.Choice(LegacySHA1Option, "true", "false")
	if option != "true" {
		return &verifier{Verifier: v}, err
	}
	sha1, _ := hmac.NewVerifier(s, legacy) // v has the same faults
	return &verifier{v, sha1}, nil
}

func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	if v.legacy != nil && len(r.Header.Values(signatureHeader)) == 0 {
		return v.legacy.Verify(r)
	}
	return v.Verifier.Verify(r)
}

func (v *verifier) Hints(r *webhook.Request) []webhook.Hint {
	if v.legacy != nil || r.Header.Get(signatureHeader) != "" || r.Header.Get(sha1Header) == "" {
		return nil
	}
	return []webhook.Hint{{Code: webhook.UnknownScheme, Text: "it carries " + sha1Header +
		" (SHA-1) only, as old GitHub Enterprise servers send: options." +
		LegacySHA1Option + " takes that"}}
}

// Events implements [webhook.Verifier] and always returns one event. GitHub sends a ping when a hook is created. Events
// treats the ping like any other event.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	e := readPayload(r)
	var event webhook.Event
	event.ID, event.IDOrigin = r.HeaderID(e, deliveryHeader)
	event.Hook = r.HeaderTag(hookHeader)
	name := r.HeaderTag(eventHeader)
	if name == "" {
		e.Note(webhook.MissingEventType, "header "+eventHeader)
	}
	event.Type = name
	if action := e.Tag("action"); action != "" && name != "" {
		event.Type = webhook.Tag(name + "." + action)
	}
	event.Account = e.FirstTag("installation.id", "organization.login", "repository.full_name")
	s := shapeOf(name)
	event.Object, event.OccurredAt = e.Tag(s.id), e.Moment(s.at)
	if e.Readable() && !s.fits(e) {
		e.Note(webhook.HeaderDisagrees, eventHeader+" does not match the body")
	}
	event.Problem = e.Problem()
	return []webhook.Event{event}
}

// readPayload parses the JSON payload. A hook with content type "form" sends the payload in the form field payload, and
// the signature covers the whole form.
func readPayload(r *webhook.Request) *webhook.Envelope {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return webhook.ReadEnvelope(r.Body)
	}
	form, err := url.ParseQuery(string(r.Body))
	if err != nil || len(form["payload"]) != 1 {
		e := &webhook.Envelope{}
		e.Note(webhook.NotAForm, "no single field payload")
		return e
	}
	return webhook.ReadEnvelope([]byte(form.Get("payload")))
}

// sign signs a delivery as GitHub does, with both hashes. in.Type may be the name of an event ("issues") or the name
// and an action ("issues.opened"). The action itself must be in the body.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	out, err := hmac.Sign(scheme, in)
	if err != nil {
		return out, err
	}
	old, err := hmac.Sign(legacy, in)
	out.Header.Set(sha1Header, old.Header.Get(sha1Header))
	out.Header.Set("User-Agent", "GitHub-Hookshot/pawl")
	if name, _, _ := strings.Cut(in.Type, "."); name != "" {
		out.Header.Set(eventHeader, name)
	}
	return out, err
}
