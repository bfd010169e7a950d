package github_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	vendor "github.com/google/go-github/v66/github"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

// TestDifferential compares with google/go-github, the library of most Go receivers.
func TestDifferential(t *testing.T) {
	t.Parallel()
	const signature, sha1, contentType = "X-Hub-Signature-256", "X-Hub-Signature", "Content-Type"
	webhooktest.Differential{
		Ours: setup(t, nil),
		Theirs: func(r *webhook.Request) error {
			request, err := http.NewRequest(http.MethodPost, "https://example.com/", bytes.NewReader(r.Body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header = r.Header
			_, err = vendor.ValidatePayload(request, []byte(secretA))
			return err
		},
		Sign: func(rnd *rand.Rand) *webhook.Request {
			r := signed(t, "issues", body)
			switch rnd.IntN(10) {
			case 0:
				r.Header.Del(signature)
			case 1: // GitHub's own SHA-1 signature in the header for SHA-256
				r.Header.Set(signature, r.Header.Get(sha1))
			}
			return r
		},
		Headers:   []string{signature, signature, sha1, contentType},
		Fragments: []string{"sha256=", "sha1=", "sha512=", "=", "00", " ", `"`, "; charset=utf-8", "text/plain", "\n", "\x00"},
		Stricter: map[string]func(*webhook.Request) bool{
			"ours wants the SHA-256 signature, theirs falls back to SHA-1": func(r *webhook.Request) bool { return r.Header.Get(signature) == "" },
			"ours wants SHA-256 in the header of that name": func(r *webhook.Request) bool {
				return strings.HasPrefix(r.Header.Get(signature), "sha1=")
			},
		},
		Laxer: map[string]func(*webhook.Request) bool{
			"ours leaves the content type out of the verdict": func(r *webhook.Request) bool {
				return r.Header.Get(contentType) != "application/json"
			},
		},
		Rounds: 20_000,
	}.Run(t)
}
