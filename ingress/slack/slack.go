// Package slack verifies Slack's requests: the Events API, slash commands and interactivity.
//
// Source: docs.slack.dev/authentication/verifying-requests-from-slack, python-slack-sdk.
package slack

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	signatureHeader = "X-Slack-Signature"
	timestampHeader = "X-Slack-Request-Timestamp"
	version         = "v0"
	tolerance       = 5 * time.Minute
)

// Provider is Slack. One signing secret belongs to one app, and regenerating it leaves no
// overlap: configure old and new together during a change.
var Provider = webhook.Provider{
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
		Headers:      webhook.Headers{Plain: []string{"X-Slack-Retry-Num", "X-Slack-Retry-Reason"}, Signatures: []string{signatureHeader, timestampHeader}},
		Tolerance:    tolerance,
	},
	New:    newVerifier,
	Sign:   sign,
	Sample: sample,
}

type verifier struct {
	keys      *webhook.Keyring[[]byte]
	tolerance time.Duration
}

func newVerifier(s webhook.Settings) (webhook.Verifier, error) {
	keys, limit, err := webhook.NewTimedHMACKeyring(s, webhook.TextKey, tolerance)
	if err != nil {
		return nil, err
	}
	return &verifier{keys: keys, tolerance: limit}, nil
}

// Verify checks X-Slack-Signature over v0:timestamp:body, and the timestamp.
func (v *verifier) Verify(r *webhook.Request) (webhook.Match, error) {
	signature, err := r.HeaderOnce(signatureHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	stamp, err := r.HeaderOnce(timestampHeader)
	if err != nil {
		return webhook.Match{}, err
	}
	at, err := webhook.ParseUnix(timestampHeader, stamp)
	if err != nil {
		return webhook.Match{}, err
	}
	mac, ok := strings.CutPrefix(signature, version+"=")
	if !ok {
		return webhook.Match{}, webhook.Errorf(webhook.MalformedHeader, "%s does not begin with %s=", signatureHeader, version)
	}
	match, err := webhook.MatchHMAC(v.keys, r.ReceivedAt, sha256.New,
		[][]byte{webhook.DecodeHex(mac)}, []byte(version+":"+stamp+":"), r.Body)
	if err != nil {
		return webhook.Match{}, err
	}
	if err := r.CheckClock(at, v.tolerance); err != nil {
		return webhook.Match{}, err
	}
	return match, nil
}

// sign makes a request as Slack does.
func sign(in webhook.SignInput) (webhook.SignOutput, error) {
	stamp := strconv.FormatInt(in.At.Unix(), 10)
	mac := webhook.MAC(sha256.New, []byte(in.Secret), []byte(version+":"+stamp+":"), in.Body)
	contentType := in.ContentType
	if contentType == "" {
		contentType = "application/json"
	}
	header := http.Header{}
	header.Set("Content-Type", contentType)
	header.Set(timestampHeader, stamp)
	header.Set(signatureHeader, version+"="+hex.EncodeToString(mac))
	return webhook.SignOutput{Header: header, Body: in.Body, URL: in.URL}, nil
}
