// Package adyen verifies Adyen's webhooks in both of its schemes.
//
// In payments ("standard") webhooks, each item contains a signature of eight of its fields. All other webhooks
// (platform, management, …) have one signature of the raw body in the header HmacSignature.
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

	// schemeOption is the key in Settings.Options for the signature scheme. If it is not set, each request determines
	// its scheme.
	schemeOption = "scheme"
	paymentsItem = "payments_item"
	rawBody      = "raw_body"
	keyBytes     = 32
)

// Provider is Adyen. Its secrets are HMAC keys in hex. options.scheme is payments_item or raw_body. Without this
// option, pawl verifies the header HmacSignature if the request has it, and the items otherwise. Deliveries have no
// signed time, so only deduplication stops a replay.
//
// Only these fields of a payments item are authentic: pspReference, originalReference, merchantAccountCode,
// merchantReference, amount, eventCode and success. A flow must not trust the other fields: an attacker can change them
// in transit.
var Provider = webhook.Provider{
	Name: "adyen",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 with a hex key, in base64. It covers eight fields of each item (payments webhooks) or the body (other webhooks)",
		ID:           "payments webhooks: pspReference:eventCode:success of each item; other webhooks: none, pawl uses the hash of the body",
		Type:         "payments webhooks: eventCode of each item; other webhooks: type in the body",
		Account:      "payments webhooks: merchantAccountCode of each item; other webhooks: data.balancePlatform, data.merchantId or data.merchantAccount in the body",
		Object:       "payments webhooks: pspReference of each item; other webhooks: the ID of the object in data",
		OccurredAt:   "payments webhooks: eventDate of each item (unsigned); other webhooks: timestamp or createdAt in the body",
		Mode:         "live or environment in the body",
		Identity:     webhook.ByID,
		Dedupe:       "payments webhooks: pspReference, eventCode and success of the item; other webhooks: hash of the body",
		AnswerWithin: 10 * time.Second,
		Retries:      "after 9, 18 and 27 s, then after 2, 5, 10, 15 and 30 min, after 1, 2 and 4 h, and then every 8 h",
		RetryFor:     30 * 24 * time.Hour,
		Disables:     "never; a failed delivery blocks all later deliveries to the endpoint",
		Headers:      webhook.Headers{Plain: []string{protocolHeader}, Signatures: []string{signatureHeader}},
		Options: map[string]string{
			schemeOption: "`" + paymentsItem + "` (payments webhooks: each item contains a signature) or `" + rawBody +
				"` (other webhooks: the header contains one signature). Without this option, each delivery determines its scheme",
		},
	},
	New:  newVerifier,
	Sign: sign,
	// The default test event is an authorised payment, or a new account holder for a source with raw_body.
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

// Verify checks the signature in the header, or the signature in every item. It rejects a delivery with one wrong item.
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

// Events returns one event for each item, or one event if the body has no items.
func (v *verifier) Events(r *webhook.Request) []webhook.Event {
	if v.isRaw(r) {
		return []webhook.Event{rawEvent(r.Body)}
	}
	return itemEvents(r.Body)
}

// sign signs a delivery as Adyen does. It writes the signature of each payments item into the item.
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
