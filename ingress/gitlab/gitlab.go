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
	// systemHook is the value of X-Gitlab-Event in each delivery of a system hook.
	systemHook = "System Hook"

	// A delivery that is signed with a signing token has the headers of Standard Webhooks.
	idHeader        = "Webhook-Id"
	timestampHeader = "Webhook-Timestamp"
	signatureHeader = "Webhook-Signature"
	signingPrefix   = "whsec_"
	tolerance       = 5 * time.Minute

	// schemeOption is a key in Settings.Options with the value "token", "signing" or "signing_token". If it is not set,
	// the prefix of each secret determines its kind.
	schemeOption       = "scheme"
	tokenScheme        = "token"
	signingScheme      = "signing"
	signingTokenScheme = "signing_token"
)

// signed is the signature scheme of deliveries with a signing token.
var signed = hmac.Scheme{
	Header: signatureHeader, Prefix: "v1,", Separator: " ", Encoding: "base64", DecodeKey: signingKey,
	Tolerance: tolerance,
	Template:  "{id}.{ts}.{body}", ID: "header:" + idHeader, Timestamp: "header:" + timestampHeader,
}

// Provider is GitLab.
//
// A secret that begins with whsec_ is a signing token, and any other secret is a secret token. options.scheme overrides
// this rule for all secrets of the source. If the source has a signing token and a delivery has a signature, Verify
// checks only the signature. After you have replaced a secret token by a signing token, remove the secret token: it
// signs nothing, and every delivery contains it.
var Provider = webhook.Provider{
	Name: "gitlab",
	Contract: webhook.Contract{
		Scheme:       "secret token: comparison with X-Gitlab-Token; signing token: HMAC-SHA256 of id.timestamp.body, in base64",
		ID:           "header webhook-id (signed), else Idempotency-Key or X-Gitlab-Event-UUID, else the hash of the body",
		Type:         "header X-Gitlab-Event; system hooks and deliveries without this header: object_kind in the body, else event_name",
		Account:      "in the body: project.id, project_id, group_id or object_attributes.project_id",
		Object:       "object_attributes.id in the body",
		OccurredAt:   "object_attributes.updated_at in the body",
		Dedupe:       "secret token: Idempotency-Key and hash of the body; signing token: webhook-id, which is signed",
		AnswerWithin: 10 * time.Second,
		Retries:      "none; you can resend by hand",
		Disables:     "after 4 failures in a row for 1 min, and then for twice as long after each failure, up to 24 h; after 40 failures in a row permanently",
		DisablesAt:   4,
		Options: map[string]string{
			schemeOption: "`" + tokenScheme + "` or `" + signingScheme +
				"`: the kind of all secrets of the source. Without this option, a secret that begins with `" + signingPrefix +
				"` is a signing token, and any other is a secret token",
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
	if _, err = s.ToleranceOr(tolerance); v.signing == nil { // err reports an invalid tolerance in any case
		faults = append(faults, err)
	}
	return webhook.AsVerifier(v, errors.Join(faults...))
}

// isSigning reports whether the secret is a signing token.
func isSigning(scheme, secret string) bool {
	return scheme == signingScheme || scheme == signingTokenScheme || scheme == "" &&
		strings.HasPrefix(secret, signingPrefix)
}

// signingKey decodes a signing token: base64 after whsec_, as in Standard Webhooks. GitLab does not document how to
// decode a token without the prefix, so the text of such a token is the key.
func signingKey(value string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(value, signingPrefix)
	if !ok {
		return []byte(value), nil
	}
	return webhook.Base64Key(encoded)
}

// Verify checks the signature if the source has a signing token and the delivery has a signature. Otherwise it checks
// X-Gitlab-Token.
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

// bySignature reports whether Verify checks the signature of r, and not X-Gitlab-Token.
func (v *verifier) bySignature(r *webhook.Request) bool {
	return v.tokens == nil || v.signing != nil && len(r.Header.Values(signatureHeader)) > 0
}

func (v *verifier) Hints(r *webhook.Request) []webhook.Hint {
	token, signature := r.Header.Get(tokenHeader) != "", r.Header.Get(signatureHeader) != ""
	switch {
	case v.tokens == nil && token && !signature:
		return []webhook.Hint{{Code: webhook.UnknownScheme, Text: "it carries " + tokenHeader +
			" and no signature, but the source has only signing tokens: " +
			"set a signing token in the webhook at GitLab, or add the webhook's secret token to the source"}}
	case v.signing == nil && signature && !token:
		return []webhook.Hint{{Code: webhook.UnknownScheme, Text: "it is signed with a signing token, but the source has only secret tokens: add the signing token, " + signingPrefix + "…"}}
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
	// The signature covers webhook-id.
	if e.IDOrigin == webhook.FromHeader && v.bySignature(r) {
		e.Identity = webhook.ByID
	}
	if e.Problem = body.Problem(); e.Problem == "" && v.bySignature(r) {
		e.Problem = v.signing.SchemeProblem(r, body)
	}
	return []webhook.Event{e}
}

// eventType returns the event type of the header. It returns the type in the body if the header is missing or names a
// system hook.
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

// eventID returns the delivery's ID. It uses X-Gitlab-Event-UUID only if the other headers are missing, because all
// hooks of one event send the same UUID.
func eventID(r *webhook.Request, body *webhook.Envelope) (string, webhook.IDOrigin) {
	for _, header := range []string{idHeader, idempotencyHeader, eventUUIDHeader} {
		if r.Header.Get(header) != "" {
			return r.HeaderID(body, header)
		}
	}
	return webhook.HashID(r.Body), webhook.FromHash
}

// sign makes a delivery as GitLab does: with a signature if the secret is a signing token, and with X-Gitlab-Token
// otherwise.
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
