package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/send"
)

// receiver counts what it is sent.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies map[string]int
}

func receive(t *testing.T, status func(n int) int) *receiver {
	t.Helper()
	rec := &receiver{bodies: map[string]int{}}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.bodies[string(body)]++
		n := 0
		for _, c := range rec.bodies {
			n += c
		}
		w.WriteHeader(status(n))
	}))
	t.Cleanup(rec.Close)
	return rec
}

var eventID = regexp.MustCompile(`^evt_[A-Z2-7]{24}$`)

func TestSend_CountAndDuplicates_Summary(t *testing.T) {
	t.Parallel()
	rec := receive(t, func(int) int { return http.StatusAccepted })
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	r := s.pawl(t, "send", "--source", "stripe", "--type", "invoice.paid", "--url", rec.URL, "--count", "3", "--duplicates", "2", "--concurrency", "4", "--json")
	got := decode[send.Result](t, r)
	if r.code != 0 || got.Sent != 9 || got.Statuses["202"] != 9 || len(got.Events) != 3 {
		t.Fatalf("exit %d, %+v; want nine deliveries of three events", r.code, got)
	}
	for _, e := range got.Events {
		if !eventID.MatchString(e.EventID) || len(e.Statuses) != 3 {
			t.Errorf("event %+v, want an evt_ ID and three answers", e)
		}
	}
	if len(rec.bodies) != 3 {
		t.Errorf("received %d different bodies, want 3", len(rec.bodies))
	}
	for body, n := range rec.bodies {
		if n != 3 {
			t.Errorf("a body came %d times, want 3: %.60s", n, body)
		}
	}
}

func TestSend_Refused_ExitOneWithStatus(t *testing.T) {
	t.Parallel()
	rec := receive(t, func(n int) int {
		if n == 2 {
			return http.StatusUnauthorized
		}
		return http.StatusOK
	})
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	r := s.pawl(t, "send", "--source", "stripe", "--event-id", "evt_mine", "--duplicates", "2", "--url", rec.URL)
	if r.code != 1 || !strings.Contains(r.err, "1 of 3 deliveries") || !strings.Contains(r.err, "401 Unauthorized") {
		t.Errorf("exit %d, stderr %q", r.code, r.err)
	}
	if strings.Count(r.out, "evt_mine") != 3 || strings.Count(r.out, "\n") != 3 {
		t.Errorf("stdout %q, want a line per delivery", r.out)
	}
}

func TestSend_NobodyListens_ExitOne(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	r := s.pawl(t, "send", "--source", "stripe", "--url", "http://127.0.0.1:1/hooks/stripe", "--json")
	if got := decode[send.Result](t, r); r.code != 1 || got.Statuses["error"] != 1 {
		t.Errorf("exit %d, %+v; want exit 1 and one error", r.code, got)
	}
	if !strings.Contains(r.err, "connection refused: does the ingress run?") {
		t.Errorf("stderr %q", r.err)
	}
	// The stand-in of Stripe's API runs in pawl dev.
	write(t, s.file, strings.Replace(read(t, s.file), "mode: live", "mode: live, api_key: env:KEY, api_url: 'http://127.0.0.1:1/stripe'", 1))
	if r := s.with("KEY", "rk_dev").pawl(t, "send", "--source", "stripe"); r.code != 1 || !strings.Contains(r.err, "connection refused: does `pawl dev` run?") {
		t.Errorf("exit %d, stderr %q", r.code, r.err)
	}
}

func TestSend_Choices(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe", "gh-a": "github", "gh-b": "github"})
	for _, tt := range []struct {
		says string
		args []string
	}{
		{`no source "nope" is configured`, []string{"--source", "nope"}},
		{"gh-a, gh-b", []string{"--provider", "github"}},
		{"no source of provider", []string{"--provider", "shopify"}},
		{"is of provider stripe", []string{"--source", "stripe", "--provider", "github"}},
		{"invoice.paid", []string{"--source", "stripe", "--type", "no.such.type"}},
		{"--template", []string{"--source", "stripe", "--template", filepath.Join(t.TempDir(), "none")}},
		{"--key", []string{"--source", "stripe", "--key", filepath.Join(t.TempDir(), "none")}},
	} {
		r := s.pawl(t, append([]string{"send"}, tt.args...)...)
		if r.code != 1 || !strings.Contains(r.err, tt.says) {
			t.Errorf("send %v: exit %d, stderr %q; want exit 1 that says %q", tt.args, r.code, r.err, tt.says)
		}
	}
}

// Where the source holds a public key only, the error names the flag that takes the private one.
func TestSend_PublicKeyOnly_NamesFlag(t *testing.T) {
	t.Parallel()
	rec := receive(t, func(int) int { return http.StatusOK })
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := setup(t, "postgres://localhost/none", map[string]string{"chat": "discord", "pay": "paypal", "mail": "sendgrid", "std": "standardwebhooks"})
	for source, secret := range map[string]string{
		"chat": hex.EncodeToString(public), "pay": testSecret, "mail": testSecret, "std": "whpk_" + base64.StdEncoding.EncodeToString(public),
	} {
		r := s.with("SECRET", secret).pawl(t, "send", "--source", source, "--url", rec.URL)
		if r.code != 1 || !strings.Contains(r.err, "--key FILE") || !strings.Contains(r.err, source) {
			t.Errorf("%s: exit %d, stderr %q; want 1 and --key", source, r.code, r.err)
		}
	}
	key := filepath.Join(t.TempDir(), "key")
	write(t, key, hex.EncodeToString(private))
	if r := s.with("SECRET", hex.EncodeToString(public)).pawl(t, "send", "--source", "chat", "--url", rec.URL, "--key", key); r.code != 0 {
		t.Errorf("with the key: exit %d, stderr %q", r.code, r.err)
	}
	if len(rec.bodies) != 1 {
		t.Errorf("received %d bodies, want that of the one that was signed", len(rec.bodies))
	}
}

func TestCountsOf(t *testing.T) {
	t.Parallel()
	if got, want := countsOf(map[string]int{"202": 1, "200": 200}), "200 × 200, 1 × 202"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
