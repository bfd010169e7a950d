// Package slack verifies Slack's requests: the Events API, slash commands and interactivity.
//
// Source: docs.slack.dev/authentication/verifying-requests-from-slack, python-slack-sdk.
package slack

import (
	"crypto/rand"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Provider is Slack. The secret of a source is the signing secret of one app. When you generate a new secret at Slack,
// the old secret becomes invalid. Configure both secrets before the change.
var Provider = hmac.New(webhook.Provider{
	Name: "slack",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of v0:timestamp:body, in hex",
		ID:           "event_id in the body; commands and interactions: none, pawl uses the hash of the body",
		Type:         "event.type in the body; commands: slash_command; interactions: type in the form field payload",
		Account:      "team_id in the body",
		OccurredAt:   "event_time in the body",
		Identity:     webhook.ByID,
		Dedupe:       "event_id in the body; commands and interactions: hash of the body",
		AnswerWithin: 3 * time.Second,
		Retries:      "3 retries: at once, after 1 min and after 5 min",
		RetryFor:     6 * time.Minute,
		Disables:     "if over 95 % of deliveries fail in 60 min, for apps with at least 1,000 events an hour",
		Headers:      webhook.Headers{Plain: []string{"X-Slack-Retry-Num", "X-Slack-Retry-Reason"}},
	},
	Sample: webhook.Sample{
		Type:    "app_mention",
		EventID: func() string { return "Ev" + rand.Text()[:9] },
	},
}, hmac.Scheme{
	Header: "X-Slack-Signature", Prefix: "v0=", Template: "v0:{ts}:{body}",
	Timestamp: "header:X-Slack-Request-Timestamp",
}, func(v *hmac.Verifier, _ webhook.Settings) (webhook.Verifier, error) { return verifier{v}, nil })

type verifier struct{ *hmac.Verifier }
