// Package sendgrid verifies SendGrid's Event Webhook: batches of mail events, signed with ECDSA.
//
// When SendGrid retries, it may distribute the events differently among deliveries. So a delivery has no identity, and
// each event has its own.
package sendgrid

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// The signature is base64 of an ASN.1 DER ECDSA signature over SHA-256 of the timestamp's bytes and
// the raw body, which ends with CRLF (sendgrid-go v3.16.1 helpers/eventwebhook).
const (
	signatureHeader = "X-Twilio-Email-Event-Webhook-Signature"
	timestampHeader = "X-Twilio-Email-Event-Webhook-Timestamp"

	// stampDigits is the number of digits in a timestamp from 2001 to 2286.
	stampDigits = 10
)

// Provider is SendGrid.
var Provider = webhook.Provider{
	Name: "sendgrid",
	Contract: webhook.Contract{
		Scheme:     "ECDSA P-256 with SHA-256, of timestamp and body",
		ID:         "sg_event_id of each item, else the hash of the item",
		Type:       "event of each item",
		Object:     "sg_message_id of each item",
		OccurredAt: "timestamp of each item",
		Identity:   webhook.ByID,
		Dedupe:     "ID of each item (a retry may distribute the items differently among deliveries)",
		Retries:    "at growing intervals, until 24 h after the event",
		RetryFor:   24 * time.Hour,
		Headers:    webhook.Headers{Signatures: []string{signatureHeader, timestampHeader}},
		Disables:   "not published",
		PublicKeys: true,
	},
	New:    newVerifier,
	Sign:   sign,
	Sample: webhook.Sample{Type: "delivered", EventID: webhook.RandomUUID, Keys: newKeys},
}

// verifier verifies the deliveries of one Event Webhook.
type verifier struct {
	ring *webhook.Keyring[*ecdsa.PublicKey]
	// tolerance is zero, the default, if Verify does not check the age of a delivery. SendGrid documents neither a
	// tolerance nor whether a retry has a new timestamp. Replays are detected by the IDs of the items.
	tolerance time.Duration
}

// newVerifier returns the verifier of the source with settings s. A secret is the verification key as SendGrid displays
// it (base64 of a public key in SPKI DER), or the same key in PEM.
func newVerifier(s webhook.Settings) (webhook.Verifier, error) {
	ring, ringErr := webhook.NewKeyring(s, parsePublicKey)
	tol, tolErr := s.ToleranceOr(0)
	return webhook.AsVerifier(&verifier{ring, tol}, errors.Join(ringErr, tolErr))
}

func parsePublicKey(value string) (*ecdsa.PublicKey, error) {
	der, err := decodeKey(value)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, errors.New("it is not a public key; copy the verification key from SendGrid's mail settings")
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("it is not an ECDSA key on the curve P-256, with which SendGrid signs; copy the verification key again")
	}
	return key, nil
}

// decodeKey returns the DER bytes of a key in base64 or PEM. Other text may precede the PEM block.
func decodeKey(value string) ([]byte, error) {
	if strings.Contains(value, "-----BEGIN ") {
		block, _ := pem.Decode([]byte(value))
		if block == nil {
			return nil, errors.New("it is incomplete PEM; copy the key with its first and its last line")
		}
		return block.Bytes, nil
	}
	return webhook.Base64Key(value)
}

// Verify checks the signature of the timestamp header and the body.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	text, err := r.HeaderOnce(signatureHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	stamp, err := timestamp(r)
	if err != nil {
		return webhook.Match{}, err
	}
	sig := webhook.DecodeBase64(text)
	if sig == nil {
		return webhook.Refuse(webhook.MalformedHeader, "header %s is not base64", signatureHeader)
	}
	hash := sha256.New()
	hash.Write([]byte(stamp))
	hash.Write(r.Body)
	sum := hash.Sum(nil)
	match, err := v.ring.Match(r.ReceivedAt, func(key *ecdsa.PublicKey) bool { return ecdsa.VerifyASN1(key, sum, sig) })
	if err != nil {
		return webhook.Match{}, err
	}
	// Check the length even if the age is not checked. The signed text has no separator between the timestamp and the
	// body, so an attacker with a captured delivery could move digits from one to the other.
	at, err := webhook.ParseUnix("header "+timestampHeader, stamp)
	if err != nil {
		return webhook.Match{}, err
	}
	if len(stamp) != stampDigits {
		return webhook.Refuse(webhook.MalformedHeader, "header %s has %d digits instead of %d", timestampHeader,
			len(stamp), stampDigits)
	}
	if v.tolerance == 0 {
		return match, nil
	}
	return match, r.CheckClock(at, v.tolerance)
}

// timestamp returns the text of the timestamp header. It accepts an empty header, because the signature covers the text
// and can be valid for an empty one. Verify then rejects the empty text as a malformed timestamp.
func timestamp(r *webhook.Request) (string, error) {
	if values := r.Header.Values(timestampHeader); len(values) == 1 {
		return values[0], nil
	}
	return r.HeaderOnce(timestampHeader)
}

// Events implements [webhook.Verifier]. It returns one event for each item of the batch. An item that cannot be parsed
// is an event with a problem. A body that is not an array is one event with a problem.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	items, problem := webhook.Elements(r.Body)
	if problem != "" {
		return []webhook.Event{{ID: webhook.HashID(r.Body), IDOrigin: webhook.FromHash, Problem: string(problem)}}
	}
	events := make([]webhook.Event, len(items))
	for i, item := range items {
		events[i] = readItem(item)
	}
	return events
}

// readItem reads one item. Senders can add custom arguments to an item, so it may contain any key.
func readItem(item []byte) webhook.Event {
	e := webhook.ReadSharedEnvelope(item)
	event := webhook.Event{ID: webhook.HashID(item), IDOrigin: webhook.FromHash, Body: item}
	if e.Has("sg_event_id") {
		event.ID, event.IDOrigin = e.EventID("sg_event_id")
	}
	event.Type = e.EventType("event")
	event.Object = e.Tag("sg_message_id")
	event.OccurredAt = e.UnixTime("timestamp")
	event.Problem = e.Problem()
	return event
}
