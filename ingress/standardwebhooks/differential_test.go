package standardwebhooks_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	vendor "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

// TestDifferential compares with the specification's own library. The library uses the system clock, so deliveries are
// signed around now, well within the tolerance. It supports v1 only.
func TestDifferential(t *testing.T) {
	t.Parallel()
	theirs, err := vendor.NewWebhook(secretA)
	if err != nil {
		t.Fatal(err)
	}
	many := strings.Repeat("v1,AAAA ", 17)
	webhooktest.Differential{
		Ours:   verifier(t, standardwebhooks.Provider, secretA),
		Theirs: func(r *webhook.Request) error { return theirs.Verify(r.Body, r.Header) },
		Sign: func(rnd *rand.Rand) *webhook.Request {
			now := time.Now()
			skews := []time.Duration{0, 0, 0, -200 * time.Second, 200 * time.Second, -400 * time.Second, 400 * time.Second}
			in := webhook.SignInput{Secret: secretA, At: now.Add(skews[rnd.IntN(len(skews))]), ID: "msg_1", Body: []byte(body)}
			out, err := standardwebhooks.Provider.Sign(in)
			if err != nil {
				t.Fatal(err)
			}
			switch rnd.IntN(20) {
			case 0: // the ID contains a dot when it is signed
				signature, err := theirs.Sign("msg.1", in.At, in.Body)
				if err != nil {
					t.Fatal(err)
				}
				out.Header.Set("webhook-id", "msg.1")
				out.Header.Set("webhook-signature", signature)
			case 1: // another text for the same time
				out.Header.Set("webhook-timestamp", []string{"+", "0"}[rnd.IntN(2)]+out.Header.Get("webhook-timestamp"))
			}
			return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: now}
		},
		Headers:   []string{"webhook-id", "webhook-timestamp", "webhook-signature", "webhook-signature"},
		Fragments: []string{",", " ", "v1,", "v1a,", "v2,x ", " v1,AAAA", ",x", "=", ".", "+", "0", "\n", "\x00", many, " " + many},
		Stricter: map[string]func(*webhook.Request) bool{
			"ours refuses a dot in the ID": func(r *webhook.Request) bool { return strings.Contains(r.Header.Get("webhook-id"), ".") },
			"ours refuses other texts of a time (+1, 01)": func(r *webhook.Request) bool {
				return regexp.MustCompile(`^[+0]`).MatchString(r.Header.Get("webhook-timestamp"))
			},
			"ours refuses a second comma in an entry": func(r *webhook.Request) bool {
				return regexp.MustCompile(`,[^ ]*,`).MatchString(r.Header.Get("webhook-signature"))
			},
			"ours compares 16 signatures": func(r *webhook.Request) bool {
				return strings.Count(r.Header.Get("webhook-signature"), "v1,") > webhook.MaxSignatures
			},
		},
		Rounds: 20_000,
	}.Run(t)
}
