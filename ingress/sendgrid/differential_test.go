package sendgrid_test

import (
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	vendor "github.com/sendgrid/sendgrid-go/helpers/eventwebhook"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

// TestDifferential compares with sendgrid-go.
func TestDifferential(t *testing.T) {
	t.Parallel()
	v, key := setup(t)
	public, err := vendor.ConvertPublicKeyBase64ToECDSA(key.Verify)
	if err != nil {
		t.Fatal(err)
	}
	good := signed(t, key, body)
	der, err := base64.StdEncoding.DecodeString(good.Header.Get(signatureHeader))
	if err != nil {
		t.Fatal(err)
	}
	webhooktest.Differential{
		Ours: v,
		Theirs: func(r *webhook.Request) error {
			ok, err := vendor.VerifySignature(public, r.Body, r.Header.Get(signatureHeader), r.Header.Get(timestampHeader))
			if err == nil && !ok {
				err = errors.New("refused")
			}
			return err
		},
		Sign: func(rnd *rand.Rand) *webhook.Request {
			r := *good
			r.Header = good.Header.Clone()
			if rnd.IntN(10) == 0 {
				r.Header.Set(signatureHeader, base64.StdEncoding.EncodeToString(append(der[:len(der):len(der)], 0, 1)))
			}
			return &r
		},
		Headers:   []string{signatureHeader, timestampHeader},
		Fragments: []string{"=", "\n", "\r\n", "A", " ", "0", "+", "\x00"},
		Stricter: map[string]func(*webhook.Request) bool{
			"ours refuses line breaks and spare bits in base64": func(r *webhook.Request) bool {
				text := r.Header.Get(signatureHeader)
				_, err := base64.StdEncoding.Strict().DecodeString(text)
				return err != nil || strings.ContainsAny(text, "\r\n")
			},
			"ours refuses bytes behind the signature": func(r *webhook.Request) bool {
				raw, err := base64.StdEncoding.DecodeString(r.Header.Get(signatureHeader))
				return err == nil && len(raw) > len(der)
			},
		},
		Rounds: 4_000,
	}.Run(t)
}
