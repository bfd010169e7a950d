// Package gitlab verifies GitLab's webhooks by secret token or by signing token.
//
// Source: docs.gitlab.com/user/project/integrations/webhooks; signing tokens:
// gitlab.com/gitlab-org/gitlab merge request 230944.
package gitlab

import (
	"cmp"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	tokenHeader       = "X-Gitlab-Token"
	eventHeader       = "X-Gitlab-Event"
	eventUUIDHeader   = "X-Gitlab-Event-Uuid"
	hookHeader        = "X-Gitlab-Webhook-Uuid"
	instanceHeader    = "X-Gitlab-Instance"
	idempotencyHeader = "Idempotency-Key"
	// systemHook is X-Gitlab-Event of every system hook.
	systemHook = "System Hook"

	// The headers of a signing token are the headers of Standard Webhooks.
	idHeader        = "Webhook-Id"
	timestampHeader = "Webhook-Timestamp"
	signatureHeader = "Webhook-Signature"
	signingPrefix   = "whsec_"
	tolerance       = 5 * time.Minute

	// schemeOption is a key of Settings.Options: "token", "signing" (or "signing_token"). If it is not set, the prefix
	// of each secret determines its scheme.
	schemeOption       = "scheme"
	tokenScheme        = "token"
	signingScheme      = "signing"
	signingTokenScheme = "signing_token"
)

// signed is the scheme of a signing token.
var signed = hmac.Scheme{
	Header: signatureHeader, Prefix: "v1,", Separator: " ", Encoding: "base64", DecodeKey: signingKey,
	Tolerance: tolerance,
	Template:  "{id}.{ts}.{body}", ID: "header:" + idHeader, Timestamp: "header:" + timestampHeader,
}

// Provider is GitLab.
//
// A secret that begins with whsec_ is a signing token, any other a secret token; options.scheme ("token" or "signing")
// applies to all secrets. While the source has a signing token, a delivery with a signature is verified by the
// signature alone. To end the transition, remove the secret token: it is a password that is part of every delivery, and
// signs nothing.
var Provider = webhook.Provider{
	Name: "gitlab",
	Contract: webhook.Contract{
		Scheme:       "secret token compared; signing token: HMAC-SHA256 of id.timestamp.body, base64",
		ID:           "header webhook-id (signed), else Idempotency-Key or X-Gitlab-Event-UUID, else a hash",
		Type:         "header X-Gitlab-Event; for system hooks and without the header: body object_kind, else event_name",
		Account:      "body project.id, project_id, group_id or object_attributes.project_id",
		Object:       "body object_attributes.id",
		OccurredAt:   "body object_attributes.updated_at",
		Dedupe:       "Idempotency-Key (= webhook-id, by itself where a signing token signs it)",
		AnswerWithin: 10 * time.Second,
		Retries:      "none; by hand",
		Disables:     "4 failures in a row for 1 min, doubling to 24 h; 40 in a row for good",
		DisablesAt:   4,
		Options: map[string]string{
			schemeOption: "`" + tokenScheme + "` or `" + signingScheme +
				"`: what all secrets are; left out, a secret that begins with `" + signingPrefix +
				"` is a signing token",
		},
		BodyLimit: 25 << 20,
		Tolerance: tolerance,
		Headers: webhook.Headers{
			Plain: []string{eventHeader, eventUUIDHeader, instanceHeader, idempotencyHeader,
				hookHeader},
			Signatures: []string{idHeader, timestampHeader, signatureHeader},
			Tokens:     []string{tokenHeader},
		},
	},
	New:    newVerifier,
	Sign:   sign,
	Sample: webhook.Sample{Type: "Issue Hook", EventID: webhook.RandomUUID},
}

type verifier struct {
	tokens  *webhook.Keyring[[]byte] // nil without secret tokens
	signing *hmac.Verifier           // nil without signing tokens
}

func newVerifier(s webhook.Settings) (webhook.Verifier, error) {
	scheme, err := s.Choice(schemeOption, tokenScheme, signingScheme, signingTokenScheme)
	faults := []error{err}
	tokens, signing := s, s
	tokens.Secrets, signing.Secrets = nil, nil
	for _, secret := range s.Secrets {
		if isSigning(scheme, secret.Value) {
			signing.Secrets = append(signing.Secrets, secret)
		} else {
			tokens.Secrets = append(tokens.Secrets, secret)
		}
	}
	v := &verifier{}
	if len(signing.Secrets) > 0 {
		v.signing, err = hmac.NewVerifier(signing, signed)
		faults = append(faults, err)
	}
	if len(tokens.Secrets) > 0 || len(signing.Secrets) == 0 {
		v.tokens, err = webhook.NewHMACKeyring(tokens, webhook.TextKey)
		faults = append(faults, err)
	}
	if _, err = s.ToleranceOr(tolerance); v.signing == nil { // validate it even if no signing token uses it yet
		faults = append(faults, err)
	}
	return webhook.AsVerifier(v, errors.Join(faults...))
}

// isSigning reports whether the secret is a signing token.
func isSigning(scheme, secret string) bool {
	return scheme == signingScheme || scheme == signingTokenScheme || scheme == "" &&
		strings.HasPrefix(secret, signingPrefix)
}

// signingKey decodes a signing token: base64 after whsec_, as in Standard Webhooks. GitLab does not document the
// decoding of a token without the prefix; its text is then the key.
func signingKey(value string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(value, signingPrefix)
	if !ok {
		return []byte(value), nil
	}
	return webhook.Base64Key(encoded)
}

// Verify checks the signature if the source has a signing token and the delivery has a signature, and X-Gitlab-Token
// otherwise.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	if v.bySignature(r) {
		return v.signing.Verify(r)
	}
	token, err := r.TokenOnce(tokenHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	match, err := webhook.MatchToken(v.tokens, r.ReceivedAt, token)
	match.Covers = webhook.SharedToken
	return match, err
}

// bySignature reports whether r is verified by its signature.
func (v *verifier) bySignature(r *webhook.Request) bool {
	return v.tokens == nil || v.signing != nil && len(r.Header.Values(signatureHeader)) > 0
}

func (v *verifier) Hints(r *webhook.Request) []webhook.Hint {
	token, signature := r.Header.Get(tokenHeader) != "", r.Header.Get(signatureHeader) != ""
	switch {
	case v.tokens == nil && token && !signature:
		return []webhook.Hint{{Code: webhook.UnknownScheme, Text: "it carries " + tokenHeader +
			" and no signature, and the source has signing tokens only: " +
			"give the webhook a signing token at GitLab, or the source its secret token"}}
	case v.signing == nil && signature && !token:
		return []webhook.Hint{{Code: webhook.UnknownScheme, Text: "it is signed with a signing token, and the source has secret tokens only: add the signing token, " + signingPrefix + "…"}}
	}
	return nil
}

// Events reads the one event of r.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	body := webhook.ReadEnvelope(r.Body)
	e := webhook.Event{
		Type:    eventType(r.HeaderTag(eventHeader), body),
		Account: body.FirstTag("project.id", "project_id", "group_id", "object_attributes.project_id"),
		Object:  body.Tag("object_attributes.id"),
		OccurredAt: webhook.ParseMoment(body.String("object_attributes.updated_at"), "2006-01-02 15:04:05 MST",
			time.RFC3339Nano), // GitLab sends both formats
	}
	e.ID, e.IDOrigin = eventID(r, body)
	e.Occurrence, e.Hook = r.HeaderTag(eventUUIDHeader), r.HeaderTag(hookHeader)
	// The signature always covers webhook-id.
	if e.IDOrigin == webhook.FromHeader && v.bySignature(r) {
		e.Identity = webhook.ByID
	}
	if e.Problem = body.Problem(); e.Problem == "" && v.bySignature(r) {
		e.Problem = v.signing.SchemeProblem(r, body)
	}
	return []webhook.Event{e}
}

// eventType returns the type in the header, or else in the body.
func eventType(header string, body *webhook.Envelope) string {
	if header != "" && header != systemHook {
		return header
	}
	path := "object_kind"
	if !body.Has(path) && body.Has("event_name") {
		path = "event_name"
	}
	if header != "" && !body.Has(path) {
		return header
	}
	return body.EventType(path)
}

// eventID returns the delivery's ID. X-Gitlab-Event-UUID comes last, because all hooks of one event share it.
func eventID(r *webhook.Request, body *webhook.Envelope) (string, webhook.IDOrigin) {
	for _, header := range []string{idHeader, idempotencyHeader, eventUUIDHeader} {
		if r.Header.Get(header) != "" {
			return r.HeaderID(body, header)
		}
	}
	return webhook.HashID(r.Body), webhook.FromHash
}

// sign makes a delivery as GitLab does: signed if the secret is a signing token, with the token otherwise.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	out := in.Output(eventHeader, in.Type, instanceHeader, in.Account, idempotencyHeader, in.ID)
	if !isSigning(in.Options[schemeOption], in.Secret) {
		out.Header.Set(tokenHeader, in.Secret)
		return out, nil
	}
	in.ID = cmp.Or(in.ID, webhook.HashID(in.Body))
	under, err := hmac.Sign(signed, in)
	maps.Copy(out.Header, under.Header)
	return out, err
}
