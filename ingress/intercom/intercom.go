// Package intercom verifies Intercom's webhooks.
//
// Source: developers.intercom.com/docs/webhooks. The secret is the app's client secret.
package intercom

import (
	"net/http"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Provider is Intercom.
var Provider = hmac.New(webhook.Provider{
	Name: "intercom",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA1 of the body, in hex",
		Identity:     webhook.ByID,
		Dedupe:       "id in the body (notif_…)",
		AnswerWithin: 5 * time.Second,
		Retries:      "one retry after 1 min",
		RetryFor:     time.Minute,
		Disables:     "after 1,000 errors in 15 min for 15 min; after 7 days of errors permanently",
		DisablesAt:   1000,
		AsksWithHead: true, // developers.intercom.com/docs/webhooks/setting-up-webhooks
	},
	Sample: webhook.Sample{Type: "conversation.user.created"},
}, hmac.Scheme{
	Header: "X-Hub-Signature", Prefix: "sha1=", Hash: "sha1",
	ID: "/id", Type: "/topic", Account: "/app_id", Object: "/data/item/id", OccurredAt: "/created_at",
	OccurredAtUnit: "s",
}, func(v *hmac.Verifier, _ webhook.Settings) (webhook.Verifier, error) { return verifier{v}, nil })

type verifier struct{ *hmac.Verifier }

// Answer answers the signed ping that Intercom sends when a webhook is registered.
func (v verifier) Answer(r *webhook.Request) (webhook.Answer, bool) {
	return webhook.Answer{Status: http.StatusOK}, webhook.ReadEnvelope(r.Body).String("topic") == "ping"
}

// Events returns the event of r, or no event for a ping.
func (v verifier) Events(r *webhook.Request) []webhook.Event {
	if _, ping := v.Answer(r); ping {
		return nil
	}
	return v.Verifier.Events(r)
}
