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

// Provider is Slack. One signing secret belongs to one app, and the old one ends when a new one is generated. Configure
// both during the change.
var Provider = hmac.New(webhook.Provider{
	Name: "slack",
	Contract: webhook.Contract{
		Scheme:       "HMAC-SHA256 of v0:timestamp:body, hex",
		ID:           "body event_id; commands and interactivity have none (hash)",
		Type:         "body event.type; slash_command; payload.type of interactivity",
		Account:      "body team_id",
		OccurredAt:   "body event_time",
		Identity:     webhook.ByID,
		Dedupe:       "event_id; X-Slack-Retry-Num does not identify an event",
		AnswerWithin: 3 * time.Second,
		Retries:      "3: at once, after 1 min, after 5 min",
		RetryFor:     6 * time.Minute,
		Disables:     "over 95 % failures in 60 min, for apps with 1,000 events an hour or more",
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
