package activities_test

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/schema/schematest"
)

// retries is a policy that never gives up during these tests.
var retries = effect.Retries{InitialInterval: time.Second, MaxInterval: time.Minute, MaxElapsed: 24 * time.Hour}

func sink(url string) activities.Sink {
	return activities.Sink{
		URL: url, Token: "token", Client: httpcall.NewClient(),
		Policy:   effect.Policy{Timeout: 500 * time.Millisecond, Retries: retries, KeyLifetime: time.Hour},
		Refusals: []activities.Refusal{{Status: 402}, {Status: 422}, {Status: 403, Code: "not_entitled"}},
	}
}

// After any failure, the repeated requests have the same bytes and key, and the sink applies them once.
func TestPostEntry_EveryBreak_AppliedOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cue   activitiestest.Cue
		state effect.State // "" means that the effect is retried and succeeds
	}{
		"503":                 {activitiestest.Cue{Status: 503}, ""},
		"503 after it":        {activitiestest.Cue{Status: 503, Apply: true}, ""},
		"429":                 {activitiestest.Cue{Status: 429}, ""},
		"cut before":          {activitiestest.Cue{Drop: true}, ""},
		"cut after":           {activitiestest.Cue{Drop: true, Apply: true}, ""},
		"unanswered":          {activitiestest.Cue{Hang: true}, ""},
		"unanswered after it": {activitiestest.Cue{Hang: true, Apply: true}, ""},
		"409":                 {activitiestest.Cue{Status: 409}, ""},
		"400":                 {activitiestest.Cue{Status: 400}, effect.Failed},
		"404":                 {activitiestest.Cue{Status: 404}, effect.Failed},
		"a redirect":          {activitiestest.Cue{Status: 307, Header: map[string]string{"Location": "/elsewhere"}}, ""},
		"protocols switched":  {activitiestest.Cue{Status: 101, Header: map[string]string{"Connection": "Upgrade", "Upgrade": "websocket"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			s := activitiestest.NewSink(t)
			// The first request makes a connection that later requests reuse, because net/http repeats some failed
			// requests on reused connections.
			finance := b.finance(s.URL)
			must(b, effect.Done, finance.PostEntry, payment("in_0"))
			s.Next(tt.cue)
			in := payment("in_1")
			if tt.state != "" {
				must(b, tt.state, finance.PostEntry, in)
				if got := s.Requests(); len(got) != 2 {
					t.Errorf("%d requests, want only the refused one", len(got)-1)
				}
				return
			}
			_, err := do(b, finance.PostEntry, in)
			wantAgain(t, err)
			if got := s.Requests(); len(got) != 2 {
				t.Errorf("%d requests in one attempt", len(got)-1)
			}
			// a second event, which would result in other bytes
			in.Effect.Ref, in.For.Plan = schematest.Ref("evt_2"), "other"
			must(b, effect.Done, finance.PostEntry, in)
			got := s.Requests()[1:]
			if len(got) != 2 || got[0].Body != got[1].Body || got[0].Key != got[1].Key {
				t.Errorf("requests %+v, want the same twice", got)
			}
			if applied := s.Applied(); len(applied) != 2 {
				t.Errorf("applied %+v, want it once", applied[1:])
			}
		})
	}
}

func TestPostEntry_RetryAfter(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	s.Next(activitiestest.Cue{Status: 429, Header: map[string]string{"Retry-After": "17"}})
	_, err := do(b, b.finance(s.URL).PostEntry, payment("in_1"))
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.NextRetryDelay() < 17*time.Second || app.NextRetryDelay() > 21*time.Second {
		t.Errorf("error %v, want a delay of 17s", err)
	}
}

// A wrong token or path is not the fault of the customer, and must not compensate anything. Only the statuses in the
// sink's configuration are refusals.
func TestPostEntry_OnlyWhatIsDeclared_Refuses(t *testing.T) {
	t.Parallel()
	coded := func(body string) activitiestest.Cue {
		return activitiestest.Cue{Status: 403, Header: map[string]string{"Content-Type": "application/problem+json"}, Body: body}
	}
	for name, tt := range map[string]struct {
		cue activitiestest.Cue
		// "" means that the effect waits until the fault is fixed, and then succeeds with the same key
		state effect.State
	}{
		"401":             {activitiestest.Cue{Status: 401}, ""},
		"402":             {activitiestest.Cue{Status: 402}, effect.Refused},
		"403":             {activitiestest.Cue{Status: 403}, ""},
		"403, a code":     {coded(`{"code":"not_entitled"}`), effect.Refused},
		"403, in error":   {coded(`{"error":{"code":"not_entitled","message":"no"}}`), effect.Refused},
		"403, other code": {coded(`{"code":"token_expired","error":"not_entitled"}`), ""},
		"403, no JSON":    {activitiestest.Cue{Status: 403, Body: `{"code":"not_entitled"}`}, ""},
		"404":             {activitiestest.Cue{Status: 404}, effect.Failed},
		"405":             {activitiestest.Cue{Status: 405}, effect.Failed},
		"413":             {activitiestest.Cue{Status: 413}, effect.Failed},
		"422":             {activitiestest.Cue{Status: 422}, effect.Refused},
		"451, undeclared": {activitiestest.Cue{Status: 451}, effect.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			s := activitiestest.NewSink(t)
			s.Next(tt.cue)
			in := payment("in_1")
			if tt.state == "" {
				_, err := do(b, b.finance(s.URL).PostEntry, in)
				wantAgain(t, err)
				must(b, effect.Done, b.finance(s.URL).PostEntry, in)
				return
			}
			if got := must(b, tt.state, b.finance(s.URL).PostEntry, in); got.MayHaveHappened() {
				t.Errorf("result %+v", got)
			}
			in.Effect.Round = 1 // after the fix, a new key is used, so that the sink does not return its stored answer
			must(b, effect.Done, b.finance(s.URL).PostEntry, in)
			if got := s.Applied(); len(got) != 1 || got[0].Key != in.Effect.Key+":g2" {
				t.Errorf("applied %+v", got)
			}
		})
	}
}

// A 422 to a repeated request may mean that the key was used before, so the first attempt may have been applied.
func TestPostEntry_422ToARepeat_ParksAndMayHaveHappened(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	s.Next(activitiestest.Cue{Status: 429}, activitiestest.Cue{Status: 422}, activitiestest.Cue{Status: 422})
	in := payment("in_1")
	_, err := do(b, b.finance(s.URL).PostEntry, in)
	wantAgain(t, err)
	got := must(b, effect.Failed, b.finance(s.URL).PostEntry, in)
	if !got.MayHaveHappened() || !strings.HasPrefix(got.Reason, "fault: ") {
		t.Errorf("result %+v", got)
	}
	in.Effect.Round = got.Round + 1
	must(b, effect.Failed, b.finance(s.URL).PostEntry, in)
	for _, r := range s.Requests() {
		if r.Key != in.Effect.Key {
			t.Errorf("sent under %s, want one key", r.Key)
		}
	}
}

// The sink's answer is stored in the ledger for operators, and not in Temporal.
func TestPostEntry_SinksWords_InTheLedgerAlone(t *testing.T) {
	t.Parallel()
	for body, words := range map[string]string{
		`{"error":"period closed","stack":"secret"}`:                       " – period closed",
		`{"error":{"message":"period closed","code":7},"message":"other"}`: " – period closed",
		`{"message":"period closed"}`:                                      " – period closed",
		`["period closed"]`:                                                "",
	} {
		t.Run(body, func(t *testing.T) {
			b := setup(t)
			s := activitiestest.NewSink(t)
			s.Next(activitiestest.Cue{Status: 422, Header: map[string]string{"Content-Type": "application/json"}, Body: body})
			answered := strings.TrimPrefix(s.URL, "http://") + " answered 422"
			if got := must(b, effect.Refused, b.finance(s.URL).PostEntry, payment("in_1")); got.Reason != answered {
				t.Errorf("the flow receives %q", got.Reason)
			}
			if got := b.lines(`select error from effects`); got[0] != answered+words {
				t.Errorf("the ledger holds %q, want %q", got[0], answered+words)
			}
		})
	}
}

// If the failure happened before the connection was established, the sink received nothing.
func TestPostEntry_NotConnected_NotInDoubt(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String()
	_ = listener.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // a server that accepts connections and never responds
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	for name, url := range map[string]string{
		"nobody listens": nobody, "certificate not trusted": untrusted.URL, "no handshake": "https://" + silent.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			finance := b.finance(url)
			in := payment("in_1")
			for range 2 {
				_, err := do(b, finance.PostEntry, in)
				wantAgain(t, err)
			}
			b.passes(25 * time.Hour)
			if got := must(b, effect.Failed, finance.PostEntry, in); got.MayHaveHappened() {
				t.Errorf("result %+v: what never left cannot have happened", got)
			}
		})
	}
}

// The error is stored, logged and shown in Temporal, so it must not contain the tokens in a URL.
func TestPostEntry_TokensInURL_NotTold(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	in := payment("in_1")
	url := strings.Replace(s.URL, "http://", "http://ann:hush1@", 1) + "/hush2?code=hush3"
	for _, cue := range []activitiestest.Cue{{Drop: true}, {Hang: true}} {
		s.Next(cue)
		_, err := do(b, b.finance(url).PostEntry, in)
		wantAgain(t, err)
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("the error is %q", err)
		}
	}
	b.passes(25 * time.Hour)
	s.Next(activitiestest.Cue{Drop: true})
	host := strings.TrimPrefix(s.URL, "http://")
	if got := must(b, effect.Failed, b.finance(url).PostEntry, in); got.Reason != "exhausted: "+host+": the connection broke" {
		t.Errorf("the reason is %q, want the host and what went wrong", got.Reason)
	}
}
