// Package adyen verifies Adyen's webhooks in both of its schemes.
//
// Payments ("standard") webhooks carry a signature inside each item, over eight of its fields.
// All others (platform, management, …) carry one in the header HmacSignature, over the raw body.
//
// Source: docs.adyen.com/development-resources/webhooks, adyen-python-api-library and
// adyen-node-api-library hmacValidator.
package adyen

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	signatureHeader = "HmacSignature"
	protocolHeader  = "Protocol"

	// schemeOption is a key of Settings.Options. If it is not set, the request determines the scheme.
	schemeOption = "scheme"
	paymentsItem = "payments_item"
	rawBody      = "raw_body"
	keyBytes     = 32
)

// Provider is Adyen. Its secrets are HMAC keys in hex. options.scheme is payments_item or raw_body; without it, a
// request with the header HmacSignature is verified by that header, and any other by its items. Deliveries have no
// signed time: only deduplication stops a replay.
//
// Only these fields of a payments item are authentic: pspReference, originalReference, merchantAccountCode,
// merchantReference, amount, eventCode and success. An attacker who can change a delivery in transit can change all
// others, so a flow must not trust them.
var Provider = webhook.Provider{
	Name: "adyen",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 with a hex key, base64, of eight fields of each item (payments) or of the body (others)",
		ID:           "pspReference:eventCode:success of each item; others: none (hash)",
		Type:         "eventCode of each item; others: body type",
		Account:      "merchantAccountCode of each item; others: body data.balancePlatform, data.merchantId or data.merchantAccount",
		Object:       "pspReference of each item; others: the ID in body data",
		OccurredAt:   "eventDate of each item (unsigned); others: body timestamp or createdAt",
		Mode:         "body live or environment",
		Identity:     webhook.ByID,
		Dedupe:       "pspReference, eventCode and success",
		AnswerWithin: 10 * time.Second,
		Retries:      "3 at once (9, 18, 27 s), then 2, 5, 10, 15, 30 min, 1, 2, 4 h and every 8 h",
		RetryFor:     30 * 24 * time.Hour,
		Disables:     "never; the endpoint's queue waits behind a failure",
		Headers:      webhook.Headers{Plain: []string{protocolHeader}, Signatures: []string{signatureHeader}},
		Options: map[string]string{
			schemeOption: "`" + paymentsItem + "` (a signature in each item of a payments webhook) or `" + rawBody +
				"` (one in the header); left out, the delivery determines it",
		},
	},
	New:  newVerifier,
	Sign: sign,
	// Type is an authorised payment. A source with raw_body gets an account holder that was created.
	Sample: webhook.Sample{
		Type:     "AUTHORISATION",
		TypeWith: map[string]string{schemeOption + "=" + rawBody: "balancePlatform.accountHolder.created"},
		EventID:  func() string { return webhook.RandomNumber(16) },
	},
}

type verifier struct {
	keys   *webhook.Keyring[[]byte]
	scheme string // "" if the request determines it
}

func newVerifier(s webhook.Settings) (webhook.Verifier, error) {
	keys, err := webhook.NewHMACKeyring(s, func(value string) ([]byte, error) {
		key, err := webhook.HexKey(value)
		if err == nil && len(key) != keyBytes {
			return nil, errors.New("it is not 64 hexadecimal digits; copy the HMAC key from the webhook's page")
		}
		return key, err
	})
	scheme, schemeErr := s.Choice(schemeOption, paymentsItem, rawBody)
	return webhook.AsVerifier(&verifier{keys, scheme}, errors.Join(err, schemeErr))
}

// Verify checks the signature in the header or in every item. One item with a wrong signature rejects the whole
// delivery.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	if !v.isRaw(r) {
		return v.verifyItems(r)
	}
	signature, err := r.HeaderOnce(signatureHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	return webhook.MatchHMAC(v.keys, r.ReceivedAt, sha256.New, [][]byte{webhook.DecodeBase64(signature)}, r.Body)
}

// isRaw reports whether r is verified by the raw-body scheme.
func (v *verifier) isRaw(r *webhook.Request) bool {
	switch v.scheme {
	case paymentsItem:
		return false
	case rawBody:
		return true
	}
	return len(r.Header.Values(signatureHeader)) > 0 || !webhook.ReadEnvelope(r.Body).Has(itemsField)
}

// Events returns an event for each item, or the one event of the body.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	if v.isRaw(r) {
		return []webhook.Event{rawEvent(r.Body)}
	}
	return itemEvents(r.Body)
}

// sign makes a delivery as Adyen does. It writes the signatures of a payments body into the body.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	key, err := webhook.HexKey(in.Secret)
	if err != nil {
		return webhook.SignOutput{}, fmt.Errorf("sign for adyen: secret: %w", err)
	}
	out := in.Output()
	payments := in.Options[schemeOption] == paymentsItem ||
		in.Options[schemeOption] == "" && webhook.ReadEnvelope(in.Body).Has(itemsField)
	if payments {
		out.Body, err = signItems(in.Body, key)
		return out, err
	}
	out.Header.Set(protocolHeader, "HmacSHA256")
	out.Header.Set(signatureHeader, base64.StdEncoding.EncodeToString(webhook.MAC(sha256.New, key, in.Body)))
	return out, nil
}
