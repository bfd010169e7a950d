package webhooktest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawlhq/pawl/ingress/webhook"
)

func (s Suite) testValid(t *testing.T) {
	t.Parallel()
	v := s.verifier(t, s.secret(0))
	r := s.delivery(t, 0)
	body := bytes.Clone(r.Body)
	admitted(t, v, r, "first")
	events := v.Events(r)
	if len(events) == 0 {
		t.Fatal("Events: none, want one")
	}
	compareEvent(t, events[0], s.Want)
	if events[0].Problem != s.Want.Problem {
		t.Errorf("Problem: got %q, want %q", events[0].Problem, s.Want.Problem)
	}
	if again := v.Events(r); !reflect.DeepEqual(again, events) {
		t.Errorf("Events: a second reading differs:\n%+v\n%+v", events, again)
	}
	if !bytes.Equal(r.Body, body) {
		t.Error("the body was changed")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := v.Verify(r); err != nil {
				t.Errorf("concurrent Verify: %v", err)
			}
			v.Events(r)
		})
	}
	wg.Wait()
	if !s.NoSecret {
		s.refused(t, s.verifier(t, s.secret(1)), r, webhook.NoMatchingSignature)
	}
}

// compareEvent compares the fields of want that are not zero.
func compareEvent(t *testing.T, got, want webhook.Event) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range w.NumField() {
		name := w.Type().Field(i).Name
		if name == "OccurredAt" {
			if !want.OccurredAt.IsZero() && !got.OccurredAt.Equal(want.OccurredAt) {
				t.Errorf("OccurredAt: got %s, want %s", got.OccurredAt, want.OccurredAt)
			}
			continue
		}
		if !w.Field(i).IsZero() && !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			t.Errorf("%s: got %q, want %q", name, g.Field(i).Interface(), w.Field(i).Interface())
		}
	}
}

func (s Suite) testRotation(t *testing.T) {
	t.Parallel()
	both := s.verifier(t, s.secret(0), s.secret(1))
	admitted(t, both, s.delivery(t, 0), "first")
	admitted(t, both, s.delivery(t, 1), "second")

	at := now.Truncate(time.Second)
	windows := map[string]struct {
		notBefore, notAfter time.Time
		ok                  bool
	}{
		"inside":     {at.Add(-time.Hour), at.Add(time.Hour), true},
		"expired":    {time.Time{}, at.Add(-time.Second), false},
		"not yet":    {at.Add(2 * time.Second), time.Time{}, false},
		"unbounded":  {ok: true},
		"just begun": {notBefore: at, ok: true},
	}
	for name, w := range windows {
		t.Run(name, func(t *testing.T) {
			old := s.secret(0)
			old.NotBefore, old.NotAfter = w.notBefore, w.notAfter
			v := s.verifier(t, old, s.secret(1))
			if w.ok {
				admitted(t, v, s.delivery(t, 0), "first")
			} else {
				s.refused(t, v, s.delivery(t, 0), webhook.NoMatchingSignature)
				s.refused(t, s.verifier(t, old), s.delivery(t, 0), webhook.NoMatchingSignature)
			}
			admitted(t, v, s.delivery(t, 1), "second")
		})
	}
}

func (s Suite) testSeveralSignatures(t *testing.T) {
	t.Parallel()
	v := s.verifier(t, s.secret(0))
	good := s.delivery(t, 0).Header.Get(s.Signature)
	bad := s.delivery(t, 1).Header.Get(s.Signature)
	with := func(values ...string) *webhook.Request {
		r := s.delivery(t, 0)
		r.Header.Set(s.Signature, s.Join(values...))
		return r
	}
	admitted(t, v, with(good, bad, bad), "first")
	admitted(t, v, with(bad, good, bad), "first")
	admitted(t, v, with(bad, bad, good), "first")
	s.refused(t, v, with(bad, bad, bad), webhook.NoMatchingSignature)
	many := make([]string, 1000)
	for i := range many {
		many[i] = bad
	}
	s.refused(t, v, with(many...), webhook.NoMatchingSignature, webhook.MalformedHeader)
	s.refused(t, v, with(append(many, good)...), webhook.NoMatchingSignature, webhook.MalformedHeader)
}

func (s Suite) testClock(t *testing.T, tolerance time.Duration) {
	t.Parallel()
	v := s.verifier(t, s.secret(0))
	for _, c := range []struct {
		skew  time.Duration
		class webhook.Class
	}{
		{-tolerance - time.Second, webhook.TimestampTooOld},
		{-tolerance, ""},
		{-tolerance + time.Second, ""},
		{tolerance - time.Second, ""},
		{tolerance, ""},
		{tolerance + time.Second, webhook.TimestampTooNew},
		{24 * 365 * time.Hour, webhook.TimestampTooNew},
	} {
		t.Run(c.skew.String(), func(t *testing.T) {
			r := s.sign(t, s.input(0, now.Add(c.skew)))
			if c.class == "" {
				admitted(t, v, r, "first")
			} else {
				s.refused(t, v, r, c.class)
			}
			// A stored request is verified with its own receive time.
			r.ReceivedAt = now.Add(c.skew)
			admitted(t, v, r, "first")
		})
	}
}

func (s Suite) testChangedBody(t *testing.T) {
	t.Parallel()
	v := s.verifier(t, s.secret(0))
	body := s.delivery(t, 0).Body
	changes := map[string][]byte{
		"truncated by one": body[:len(body)-1],
		"half":             body[:len(body)/2],
		"emptied":          {},
		"newline appended": append(bytes.Clone(body), '\n'),
		"BOM in front":     append([]byte("\uFEFF"), body...),
		"one bit flipped":  bytes.Clone(body),
	}
	changes["one bit flipped"][len(body)/2] ^= 1
	var value any
	if json.Unmarshal(body, &value) == nil {
		if b, err := json.MarshalIndent(value, "", "   "); err == nil && !bytes.Equal(b, body) {
			changes["re-encoded, indented"] = b
		}
		if b, err := json.Marshal(value); err == nil && !bytes.Equal(b, body) {
			changes["re-encoded, compact"] = b
		}
	}
	for name, changed := range changes {
		t.Run(name, func(t *testing.T) {
			r := s.delivery(t, 0)
			r.Body = changed
			s.refused(t, v, r)
		})
	}
}

func (s Suite) testHeaders(t *testing.T) {
	t.Parallel()
	v := s.verifier(t, s.secret(0))
	for _, name := range s.Headers {
		t.Run(name, func(t *testing.T) {
			value := s.delivery(t, 0).Header.Get(name)
			if value == "" {
				t.Fatalf("the signer sets no header %s", name)
			}
			set := func(values ...string) *webhook.Request {
				r := s.delivery(t, 0)
				r.Header[http.CanonicalHeaderKey(name)] = values
				return r
			}
			r := s.delivery(t, 0)
			r.Header.Del(name)
			s.refused(t, v, r, webhook.MissingHeader)
			s.refused(t, v, set(""), webhook.MissingHeader, webhook.MalformedHeader, webhook.NoMatchingSignature)
			admitted(t, v, set(value, value), "first")
			s.refused(t, v, set(value, value+"0"), webhook.MalformedHeader)
			s.refused(t, v, set("0"+value, value), webhook.MalformedHeader)
			s.refused(t, v, set(value+strings.Repeat("a", 64<<10)))
			s.refused(t, v, set(strings.Repeat(value+",", 1+(64<<10)/len(value))+"\x00"))
			s.refused(t, v, set("\xff\x00\u0661"))
		})
	}
}

func (s Suite) testNew(t *testing.T) {
	t.Parallel()
	spoiled := s.secret(0)
	spoiled.Value += "\n"
	if strings.HasPrefix(spoiled.Value, "-----BEGIN ") {
		spoiled.Value = spoiled.Value[:40]
	}
	empty, blank, short := s.secret(0), s.secret(0), s.secret(0)
	empty.Value, blank.Value, short.Value = "", "  ", "c2hvcnQ="
	backwards := s.secret(0)
	backwards.NotBefore, backwards.NotAfter = now, now.Add(-time.Hour)
	for name, secrets := range map[string][]webhook.Secret{
		"none":        nil,
		"empty":       {empty},
		"blank":       {blank},
		"short":       {short},
		"spoiled":     {spoiled},
		"one of two":  {s.secret(1), empty},
		"label twice": {s.secret(0), s.secret(0)},
		"backwards":   {backwards},
	} {
		t.Run(name, func(t *testing.T) {
			settings := s.Settings
			settings.Source, settings.Secrets = "suite-source", secrets
			v, err := s.Provider.New(settings)
			if err == nil {
				t.Fatal("New: no error")
			}
			if v != nil {
				t.Error("New: got a verifier together with an error")
			}
			if !strings.Contains(err.Error(), "suite-source") {
				t.Errorf("New: %q does not name the source", err)
			}
			for _, sec := range secrets {
				if len(sec.Value) > 4 && strings.Contains(err.Error(), sec.Value) {
					t.Error("New: the error contains a secret")
				}
			}
		})
	}
	for _, tolerance := range []time.Duration{-time.Second, 1000 * time.Hour} {
		settings := s.Settings
		settings.Secrets, settings.Tolerance = []webhook.Secret{s.secret(0)}, tolerance
		if _, err := s.Provider.New(settings); err == nil && s.Provider.Contract.Tolerance != 0 {
			t.Errorf("New: tolerance %s is accepted", tolerance)
		}
	}
}

// testKept verifies a rejected request again with its stored headers, and fails if other headers are stored.
func (s Suite) testKept(t *testing.T) {
	t.Parallel()
	v := s.verifier(t, s.secret(0))
	r := s.delivery(t, 0)
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "X-Stranger", "X-Auth-Token"} {
		r.Header.Set(name, "hush")
	}
	headers := webhook.HeadersOf(s.Provider, v)
	again := *r
	again.Kept, again.Header = true, headers.OfRefusal(r.Header)
	admitted(t, v, &again, "first")
	if live, kept := v.Events(r), v.Events(&again); !reflect.DeepEqual(live, kept) {
		t.Errorf("events of the kept request:\n got %+v\nwant %+v", kept, live)
	}
	secret := s.Keys[0].signing()
	for name, values := range again.Header {
		if len(secret) >= webhook.MinSecret && strings.Contains(values[0], secret) || values[0] == "hush" {
			t.Errorf("header %s is kept: %q", name, values)
		}
	}
	// Admitted deliveries are never verified again.
	for name, values := range headers.OfReceipt(r.Header) {
		if strings.EqualFold(name, s.Signature) || values[0] == "hush" {
			t.Errorf("header %s is kept with a receipt: %q", name, values)
		}
	}
}

// CheckEvents checks that the events of any body can be stored.
func CheckEvents(t *testing.T, events []webhook.Event) {
	t.Helper()
	for _, e := range events {
		if e.ID == "" || len(e.ID) > webhook.MaxEventID {
			t.Errorf("event ID %.300q of %d bytes", e.ID, len(e.ID))
		}
		switch e.IDOrigin {
		case webhook.FromBody, webhook.FromHeader, webhook.FromHash:
		default:
			t.Errorf("event ID origin %q", e.IDOrigin)
		}
		for _, field := range []string{e.ID, e.Type, e.Account, e.Object, e.APIVersion, e.Problem} {
			if !utf8.ValidString(field) || strings.ContainsFunc(field, unicode.IsControl) || len(field) > 512 {
				t.Errorf("a field cannot be stored: %.300q", field)
			}
		}
		if y := e.OccurredAt.Year(); !e.OccurredAt.IsZero() && (y < 0 || y > 9999) {
			t.Errorf("OccurredAt %s", e.OccurredAt)
		}
	}
}

func (s Suite) testContract(t *testing.T) {
	t.Parallel()
	c := s.Provider.Contract
	for name, value := range map[string]string{
		"Name": s.Provider.Name, "Scheme": c.Scheme, "ID": c.ID, "Type": c.Type, "Dedupe": c.Dedupe,
		"Retries": c.Retries, "Disables": c.Disables,
	} {
		if value == "" {
			t.Errorf("Contract.%s is empty", name)
		}
	}
}

// SameEvents compares events field by field, the times as instants.
func SameEvents(t *testing.T, got, want []webhook.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d events, want %d:\n%+v", len(got), len(want), got)
	}
	for i := range got {
		g, w := got[i], want[i]
		if !g.OccurredAt.Equal(w.OccurredAt) {
			t.Errorf("event %d: OccurredAt: got %s, want %s", i, g.OccurredAt, w.OccurredAt)
		}
		g.OccurredAt = w.OccurredAt
		if !reflect.DeepEqual(g, w) {
			t.Errorf("event %d:\n got %+v\nwant %+v", i, g, w)
		}
	}
}
