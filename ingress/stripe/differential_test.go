package stripe_test

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	vendor "github.com/stripe/stripe-go/v76/webhook"

	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

// TestDifferential compares with stripe-go, which uses the system clock: deliveries are signed around now, well within
// the tolerance.
func TestDifferential(t *testing.T) {
	t.Parallel()
	header := func(r *webhook.Request) string { return r.Header.Get("Stripe-Signature") }
	odd := strings.Repeat(",v1=00", 17)
	webhooktest.Differential{
		Ours:   setup(t),
		Theirs: func(r *webhook.Request) error { return vendor.ValidatePayload(r.Body, header(r), secretA) },
		Sign: func(rnd *rand.Rand) *webhook.Request {
			now := time.Now()
			skews := []time.Duration{0, 0, 0, -200 * time.Second, 200 * time.Second, -400 * time.Second, 400 * time.Second, 24 * time.Hour}
			out, err := stripe.Provider.Sign(webhook.SignInput{Secret: secretA, At: now.Add(skews[rnd.IntN(len(skews))]), Body: []byte(body)})
			if err != nil {
				t.Fatal(err)
			}
			if rnd.IntN(10) == 0 { // other texts for the same time
				out.Header.Set("Stripe-Signature", strings.Replace(header(&webhook.Request{Header: out.Header}), "t=", "t="+[]string{"+", "0", "-"}[rnd.IntN(3)], 1))
			}
			return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: now}
		},
		Headers: []string{"Stripe-Signature"},
		Fragments: []string{
			",", "=", "t=", "v1=", "v0=", "t=1,", ",t=1", "t=99999999999,", "v1=00,", ",v1=zz", ",v2=a=b", "v0=00,", " ", "V1=", "\x00", odd[1:] + ",", odd,
		},
		Stricter: map[string]func(*webhook.Request) bool{
			"ours refuses what is signed in the future": func(r *webhook.Request) bool {
				for _, part := range strings.Split(header(r), ",") {
					if n, err := strconv.ParseInt(strings.TrimPrefix(part, "t="), 10, 64); err == nil && n > r.ReceivedAt.Unix()+300 {
						return true
					}
				}
				return false
			},
			"ours refuses other texts of a time (+1, 01)": func(r *webhook.Request) bool {
				return regexp.MustCompile(`(^|,)t=[+0-]`).MatchString(header(r))
			},
			"ours refuses two different times, theirs takes the last": func(r *webhook.Request) bool {
				return len(regexp.MustCompile(`(^|,)t=`).FindAllString(header(r), -1)) > 1
			},
			"ours compares 16 signatures": func(r *webhook.Request) bool { return strings.Count(header(r), "v1=") > webhook.MaxSignatures },
		},
		Laxer: map[string]func(*webhook.Request) bool{
			"ours ignores a part of an unknown scheme with a second =": func(r *webhook.Request) bool {
				return regexp.MustCompile(`=[^,]*=`).MatchString(header(r))
			},
		},
		Rounds: 20_000,
	}.Run(t)
}
