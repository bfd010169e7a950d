package webhook_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/ingress/webhook"
)

func TestCheckStandIn_Refused(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{
		"changemechangemechangeme", "whsec_REPLACE_ME_WITH_YOUR_SECRET", "whsec_" + strings.Repeat("0", 32), strings.Repeat("x", 24),
		strings.Repeat("abcd", 6), "xxxxxxxxxxxxxxxxxxxxxxxx-live", "<your-secret-goes-right-here>", "PlaceholderPlaceholder12", "\x00",
		"your_webhook_secret_goes_here", "whsec_your_signing_secret_0123", "<your webhook secret, see 1Password>", "TODO_set_in_production_1",
		"whsec_TODO-set-in-production", "supersecretsupersecret12", "super-secret-0123456789-", "My_Secret_Is_Not_Yet_Here", "your-api-key-0123456789ab",
		"whsec_<insert secret here 12>", "paste_your_secret_in_here",
		// These placeholders come from published configuration files.
		"changeme", "change-me", "CHANGE_ME_PLEASE_CHANGE_ME_PLEASE", "changeit", "secret", "secretsecretsecretsecret", "password", "password1234567890123456",
		"whsec_", "whsec_...", "whsec_…", "sk_live_...abcd", "whsec_xxx", "whsec_xxxxxxxxxxxxxxxxxxxxxxxx", "xxx", "xxxx-xxxx-xxxx-xxxx-xxxx-xxxx", "whsec_********",
		"your-secret-here", "your-webhook-secret-here", "your_stripe_webhook_secret", "replace-with-real-secret-123", "replace_me", "insert-secret-here-please",
		"enter your webhook secret here", "todo", "TBD", "none", "null", "undefined", "test", "test-secret-test-secret-test", "whsec_test_secret", "whsec_test", "dummy",
		"example-webhook-secret-0001", "the-webhook-secret-of-the-provider", "default", "redacted", "[redacted]", "[secret]", "<secret>", "<from 1Password, item 17>",
		"${STRIPE_WEBHOOK_SECRET}", "$STRIPE_WEBHOOK_SECRET", "{{ .Values.stripe.webhookSecret }}", "%STRIPE_SECRET%", "whsec_${SECRET}", "123456789012345678901234",
		"whsec_12345678901234567890", "abcdefabcdefabcdefabcdef", "topsecret", "very-secret-passphrase-1", "letmein", "qwertyqwertyqwertyqwerty",
	} {
		if err := webhook.CheckStandIn([]byte(secret)); err == nil {
			t.Errorf("%q is taken", secret)
		} else if !strings.Contains(err.Error(), "replace it by the secret") {
			t.Errorf("%q: %v, want the fix", secret, err)
		}
	}
}

// A secret is not a placeholder if it only contains such a word among other text, or in an unusual form.
func TestCheckStandIn_SecretsTaken(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{
		"correct-horse-battery-staple-42", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLjSw", "8c2f-test-9d1e-4b7a-a6f0", "rk_live_51HxQvTest0000aBcDeF", "3141592653589793238462643",
	} {
		if err := webhook.CheckStandIn([]byte(secret)); err != nil {
			t.Errorf("%q: %v", secret, err)
		}
	}
}

func TestCheckStandIn_RandomSecretsTaken(t *testing.T) {
	t.Parallel()
	for range 1000 {
		var secret [32]byte
		_, _ = rand.Read(secret[:])
		for _, text := range []string{string(secret[:webhook.MinSecret]), hex.EncodeToString(secret[:12]), base64.StdEncoding.EncodeToString(secret[:])} {
			if err := webhook.CheckStandIn([]byte(text)); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	}
}

// CheckKey also checks a key after decoding, because base64 hides the word.
func TestNewHMACKeyring_StandInInBase64_Refused(t *testing.T) {
	t.Parallel()
	s := webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: base64.StdEncoding.EncodeToString([]byte("changemechangemechangeme"))}}}
	if _, err := webhook.NewHMACKeyring(s, webhook.Base64Key); err == nil || !strings.Contains(err.Error(), "source s: secrets[0] (a)") {
		t.Errorf("got %v, want a fault of the secret", err)
	}
	s.Options = map[string]string{webhook.AllowShortSecrets: "true"}
	if _, err := webhook.NewHMACKeyring(s, webhook.Base64Key); err != nil {
		t.Errorf("in a test endpoint: %v", err)
	}
}

// lowOrder are the points of low order in RFC 8032 and libsodium's ge25519_has_small_order, including non-canonical
// encodings; each also exists with the sign bit set.
var lowOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func TestCheckEd25519_LowOrder_Refused(t *testing.T) {
	t.Parallel()
	for _, text := range lowOrder {
		for _, sign := range []byte{0, 0x80} {
			key, _ := hex.DecodeString(text)
			key[31] |= sign
			if err := webhook.CheckEd25519(key); err == nil {
				t.Errorf("%x is taken", key)
			}
		}
	}
	for range 20 {
		key, _, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := webhook.CheckEd25519(key); err != nil {
			t.Errorf("%x: %v", key, err)
		}
	}
}
