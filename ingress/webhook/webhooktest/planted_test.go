package webhooktest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA   = "whsec_0123456789abcdefghijklmnop"
	secretB   = "whsec_zyxwvutsrqponmlkjihgfedcba"
	signature = "Stripe-Signature"
	plantEnv  = "PAWL_PLANTED_BUG"
)

// plant is a verifier with a bug: verify and events replace the methods of a correct verifier.
type plant struct {
	settings func(webhook.Settings) webhook.Settings
	anyNew   bool // New accepts any settings
	verify   func(webhook.Verifier, *webhook.Request) (webhook.Match, error)
	events   func([]webhook.Event) []webhook.Event
}

// plants are the bugs that the conformance suite must find. Each was found in a public receiver.
var plants = map[string]plant{
	"first secret only": {settings: func(s webhook.Settings) webhook.Settings {
		s.Secrets = s.Secrets[:min(1, len(s.Secrets))]
		return s
	}},
	"secrets never end": {settings: func(s webhook.Settings) webhook.Settings {
		s.Secrets = slices.Clone(s.Secrets)
		for i := range s.Secrets {
			s.Secrets[i].NotAfter = s.Secrets[i].NotBefore
		}
		return s
	}},
	"starts without a secret": {anyNew: true},
	"first signature only": {verify: func(v webhook.Verifier, r *webhook.Request) (webhook.Match, error) {
		parts := strings.SplitN(r.Header.Get(signature), ",", 3)
		return v.Verify(withHeader(r, strings.Join(parts[:min(2, len(parts))], ",")))
	}},
	"last signature only": {verify: func(v webhook.Verifier, r *webhook.Request) (webhook.Match, error) {
		value := r.Header.Get(signature)
		stamp, _, _ := strings.Cut(value, ",")
		return v.Verify(withHeader(r, stamp+value[max(0, strings.LastIndexByte(value, ',')):]))
	}},
	"one-sided clock":              admitting(webhook.TimestampTooNew),
	"no clock":                     admitting(webhook.TimestampTooOld, webhook.TimestampTooNew),
	"missing header falls through": admitting(webhook.MissingHeader),
	"first of repeated headers": {verify: func(v webhook.Verifier, r *webhook.Request) (webhook.Match, error) {
		return v.Verify(withHeader(r, r.Header.Get(signature)))
	}},
	"body is trimmed": {verify: func(v webhook.Verifier, r *webhook.Request) (webhook.Match, error) {
		trimmed := *r
		trimmed.Body = bytes.TrimSpace(r.Body)
		return v.Verify(&trimmed)
	}},
	"refuses content": {verify: func(v webhook.Verifier, r *webhook.Request) (webhook.Match, error) {
		m, err := v.Verify(r)
		if err == nil && !json.Valid(r.Body) {
			return webhook.Refuse(webhook.MalformedBody, "no JSON")
		}
		return m, err
	}},
	"drops content": {events: func(events []webhook.Event) []webhook.Event {
		return slices.DeleteFunc(events, func(e webhook.Event) bool { return e.Problem != "" })
	}},
	"plain errors": {verify: func(v webhook.Verifier, r *webhook.Request) (webhook.Match, error) {
		m, err := v.Verify(r)
		if err != nil {
			err = errors.New(err.Error())
		}
		return m, err
	}},
	"error tells the secret": {verify: func(v webhook.Verifier, r *webhook.Request) (webhook.Match, error) {
		m, err := v.Verify(r)
		if err != nil {
			err = webhook.Errorf(webhook.NoMatchingSignature, "does not fit %s", secretA)
		}
		return m, err
	}},
	"changes the body": {events: func(events []webhook.Event) []webhook.Event { return events },
		verify: func(v webhook.Verifier, r *webhook.Request) (webhook.Match, error) {
			m, err := v.Verify(r)
			if len(r.Body) > 0 {
				r.Body[0] ^= 1
			}
			return m, err
		}},
	"ID of any length": {events: func(events []webhook.Event) []webhook.Event {
		for i := range events {
			events[i].ID += strings.Repeat("x", webhook.MaxEventID)
		}
		return events
	}},
	"no ID": {events: func(events []webhook.Event) []webhook.Event {
		for i := range events {
			if events[i].IDOrigin == webhook.FromHash {
				events[i].ID = ""
			}
		}
		return events
	}},
}

// admitting is a verifier that accepts deliveries that it should reject with one of the given classes.
func admitting(classes ...webhook.Class) plant {
	return plant{verify: func(v webhook.Verifier, r *webhook.Request) (webhook.Match, error) {
		m, err := v.Verify(r)
		for _, c := range classes {
			if class, ok := webhook.ClassOf(err); ok && class == c {
				return webhook.Match{Secret: "first"}, nil
			}
		}
		return m, err
	}}
}

func withHeader(r *webhook.Request, value string) *webhook.Request {
	if len(r.Header.Values(signature)) == 0 {
		return r
	}
	changed := *r
	changed.Header = r.Header.Clone()
	changed.Header.Set(signature, value)
	return &changed
}

// planted is a verifier with the bug p.
type planted struct {
	webhook.Verifier
	p plant
}

func (v planted) Verify(r *webhook.Request) (webhook.Match, error) {
	if v.p.verify == nil {
		return v.Verifier.Verify(r)
	}
	return v.p.verify(v.Verifier, r)
}

func (v planted) Events(r *webhook.Request) []webhook.Event {
	if v.p.events == nil {
		return v.Verifier.Events(r)
	}
	return v.p.events(v.Verifier.Events(r))
}

func provider(p plant) webhook.Provider {
	provider := stripe.Provider
	provider.New = func(s webhook.Settings) (webhook.Verifier, error) {
		if p.settings != nil {
			s = p.settings(s)
		}
		v, err := stripe.Provider.New(s)
		if err != nil && !p.anyNew {
			return nil, err
		}
		return planted{v, p}, nil
	}
	return provider
}

// TestRun_FindsPlantedBugs runs the suite on verifiers with a bug. Every bug must fail the suite. Each bug runs in
// its own process, because a test cannot catch a failing subtest. Without a bug, TestPlanted checks that a correct
// verifier passes.
func TestRun_FindsPlantedBugs(t *testing.T) {
	t.Parallel()
	for name := range plants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := runPlanted(t, name); err == nil {
				t.Errorf("the suite passes:\n%s", out)
			}
		})
	}
}

func runPlanted(t *testing.T, name string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPlanted$")
	cmd.Env = append(os.Environ(), plantEnv+"="+name)
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("panic: ")) {
		t.Errorf("%s: the bug panics instead of being found:\n%s", name, out)
	}
	return out, err
}

// TestPlanted is the child process of TestRun_FindsPlantedBugs if an environment variable names a bug. Otherwise it
// runs the suite on a correct verifier.
func TestPlanted(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: provider(plants[os.Getenv(plantEnv)]),
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{Body: []byte(`{"id":"evt_1", "object":"event","type":"a","data":{"object":{"id":"x"}}}`)},
		Want:     webhook.Event{ID: "evt_1", Type: "a", Object: "x"},
		Headers:  []string{signature}, Signature: signature,
		Join: func(values ...string) string {
			joined, _, _ := strings.Cut(values[0], ",")
			for _, v := range values {
				_, sig, _ := strings.Cut(v, ",")
				joined += "," + sig
			}
			return joined
		},
	})
}
