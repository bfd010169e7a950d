package rejected_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/gitlab"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/rejection"
)

// shelf is a store in memory that counts writes and can fail.
type shelf struct {
	mu      sync.Mutex
	writes  int
	rows    []rejection.Rejection
	err     error
	written chan struct{}
}

func newShelf() *shelf { return &shelf{written: make(chan struct{}, 1000)} }

func (s *shelf) Keep(_ context.Context, batch []rejection.Rejection) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.err == nil {
		s.rows = append(s.rows, batch...)
	}
	s.written <- struct{}{}
	return s.err
}

func run(t *testing.T, cfg rejected.Config) (k *rejected.Keeper, stop func()) {
	t.Helper()
	if cfg.Diagnoser == nil {
		cfg.Diagnoser = diagnoser(t)
	}
	k = rejected.NewKeeper(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { k.Run(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return k, stop
}

func forged(i int) *webhook.Request {
	return &webhook.Request{Method: http.MethodPost, URL: "https://hooks.example/hooks/live?token=1", ReceivedAt: now,
		Header: http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%064x", now.Unix(), i)}}, Body: []byte(liveBody)}
}

var noMatch = &webhook.Error{Class: webhook.NoMatchingSignature, Detail: "no signature fits"}

func TestKeeper_KeepsWithDiagnosis(t *testing.T) {
	t.Parallel()
	store := newShelf()
	k, stop := run(t, rejected.Config{Store: store})
	r := sent(t, stripe.Provider, webhook.SignInput{Secret: testSecret, Body: []byte(liveBody), URL: "https://hooks.example/hooks/live?token=1"})
	k.Offer("live", r, noMatch, "192.0.2.1")
	r.Body[0], r.Header = 'x', nil // change the request, because the server reuses its memory
	<-store.written
	stop()
	if len(store.rows) != 1 {
		t.Fatalf("kept %d, want 1", len(store.rows))
	}
	got := store.rows[0]
	if got.Source != "live" || got.Class != "no_matching_signature" || got.RemoteAddr != "192.0.2.1" || got.Query != "" || string(got.Body) != liveBody || got.Header.Get("Stripe-Signature") == "" || !got.ReceivedAt.Equal(now) {
		t.Errorf("kept %+v", got)
	}
	if !got.Likely || len(got.Diagnosis) == 0 || got.Diagnosis[0].Code != rejected.OtherSource {
		t.Errorf("diagnosis %+v, want that it fits another source", got.Diagnosis)
	}
}

// Only headers and query parameters that the source's provider is known to send are stored with a rejected request,
// because others may contain a password. The signature is stored, because the request could not be admitted without it.
func TestKeeper_StrangersHeadersAndQueries_NotKept(t *testing.T) {
	t.Parallel()
	all := sources()
	all["gitlab"] = rejected.Source{Provider: gitlab.Provider, Settings: webhook.Settings{Source: "gitlab", Secrets: []webhook.Secret{{Label: "main", Value: "glwt-0123456789abcdefghijkl"}}}}
	all["keyed"] = rejected.Source{Provider: hmac.Provider, Settings: webhook.Settings{Source: "keyed", Options: map[string]string{"header": "X-Api-Key", "template": "{id}.{body}", "id": "header:X-Id"},
		Secrets: []webhook.Secret{{Label: "main", Value: strangeSecret}}}}
	all["calls"] = rejected.Source{Provider: twilio.Provider, Settings: webhook.Settings{Source: "calls", URL: "https://hooks.example/hooks/calls", Mode: webhook.Live,
		Secrets: []webhook.Secret{{Label: "main", Value: strangeSecret}}}}
	d, err := rejected.NewDiagnoser(all)
	if err != nil {
		t.Fatal(err)
	}
	for source, c := range map[string]struct {
		kept  []string
		query string
	}{
		"live":   {[]string{"Content-Type", "Stripe-Signature"}, ""},
		"gitlab": {[]string{"Content-Type", "X-Gitlab-Event", "X-Gitlab-Token"}, ""},
		"keyed":  {[]string{"Content-Type", "X-Api-Key", "X-Id"}, ""},
		"calls":  {[]string{"Content-Type", "X-Twilio-Signature"}, "bodySHA256=00"}, // this signature covers the query
	} {
		store := newShelf()
		k, stop := run(t, rejected.Config{Store: store, Diagnoser: d})
		r := forged(1)
		r.URL, r.Header = "https://hooks.example/hooks/x?bodySHA256=00", http.Header{}
		for _, name := range []string{
			"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "X-Gitlab-Token", "X-Gitlab-Event", "X-Id", "X-Forwarded-Access-Token",
			"Content-Type", "Stripe-Signature", "X-Twilio-Signature",
		} {
			r.Header.Set(name, "hush")
		}
		k.Offer(source, r, noMatch, "")
		<-store.written
		stop()
		row := store.rows[0]
		if got := slices.Sorted(maps.Keys(row.Header)); !slices.Equal(got, c.kept) || row.Query != c.query {
			t.Errorf("%s: kept the headers %v and the query %q, want %v and %q", source, got, row.Query, c.kept, c.query)
		}
		if token := row.Header.Get("X-Gitlab-Token"); token == "hush" {
			t.Errorf("%s: the token is kept", source)
		}
	}
}

// A flood of rejections causes a limited number of rows and writes.
func TestKeeper_Flood_Bounded(t *testing.T) {
	t.Parallel()
	store := newShelf()
	k, stop := run(t, rejected.Config{Store: store, PerSecond: 10, Burst: 20, Every: time.Hour})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 2500 {
				k.Offer("live", forged(w*2500+i), noMatch, "192.0.2.1")
			}
		})
	}
	wg.Wait()
	stop()
	if n := len(store.rows); n == 0 || n > 20 {
		t.Errorf("kept %d of 10,000 that came at once, want at most the burst of 20", n)
	}
	if store.writes > 3 {
		t.Errorf("%d writes, want a first, and one or two at the end", store.writes)
	}
}

// One sender of invalid requests, with any number of addresses in its network, leaves room for a provider with a
// wrong secret.
func TestKeeper_Flood_LeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]func(i int) string{
		"IPv4": func(int) string { return "192.0.2.1" },
		"IPv6": func(i int) string { return fmt.Sprintf("2001:db8::%x", i) },
	} {
		store := newShelf()
		k, stop := run(t, rejected.Config{Store: store, PerSecond: 10, Burst: 20, Every: time.Hour})
		for i := range 1000 {
			k.Offer("live", forged(i), noMatch, flood(i))
		}
		for i := range 5 {
			k.Offer("live", forged(i), noMatch, "198.51.100.7")
		}
		stop()
		kept := 0
		for _, r := range store.rows {
			if r.RemoteAddr == "198.51.100.7" {
				kept++
			}
		}
		if kept != 5 || len(store.rows) > 20 {
			t.Errorf("%s: of another address %d are kept, of all %d; want 5, of at most 20", name, kept, len(store.rows))
		}
	}
}

// The memory of queued rejections is limited.
func TestKeeper_LargeBodies_Bounded(t *testing.T) {
	t.Parallel()
	store := newShelf()
	k := rejected.NewKeeper(rejected.Config{Store: store, Diagnoser: diagnoser(t), Burst: 400})
	for i := range 200 {
		r := forged(i)
		r.Body = make([]byte, 1<<20)
		k.Offer("live", r, noMatch, "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.Run(ctx) // writes the queued rejections and returns
	if n := len(store.rows); n != 128 || len(store.rows[0].Body) != rejection.MaxBody {
		t.Errorf("%d requests waited, want 128 with 64 KiB each", n)
	}
}

// A body over 64 KiB is truncated at once and not diagnosed, because the diagnosis of a form of one megabyte took a
// quarter of a second.
func TestKeeper_LargeBody_KeptCut(t *testing.T) {
	t.Parallel()
	store := newShelf()
	k, stop := run(t, rejected.Config{Store: store})
	r := forged(1)
	r.Body = append(make([]byte, rejection.MaxBody), '\n')
	k.Offer("live", r, noMatch, "")
	stop()
	if len(store.rows) != 1 || !store.rows[0].Truncated || store.rows[0].BodySize != rejection.MaxBody+1 || len(store.rows[0].Body) != rejection.MaxBody || len(store.rows[0].Diagnosis) > 0 {
		t.Errorf("kept %d, want one, truncated and without a diagnosis", len(store.rows))
	}
}

// Replays of one expired delivery displace no other rejections, because only one of them is stored.
func TestKeeper_Replays_KeptOnce(t *testing.T) {
	t.Parallel()
	store := newShelf()
	k, stop := run(t, rejected.Config{Store: store, Burst: 1000})
	for i := range 100 {
		for _, body := range []string{liveBody, liveBody + " "} {
			r := sent(t, stripe.Provider, webhook.SignInput{Secret: liveSecret, Body: []byte(body), At: now.Add(-time.Hour)})
			k.Offer("live", r, &webhook.Error{Class: webhook.TimestampTooOld, Detail: "old", Skew: time.Hour}, fmt.Sprintf("192.0.2.%d", i))
		}
	}
	stop()
	if n := len(store.rows); n != 2 || !store.rows[0].Likely {
		t.Errorf("kept %d, want one of each body", n)
	}
}

func TestKeeper_StoreDown_GoesOn(t *testing.T) {
	t.Parallel()
	store := newShelf()
	store.err = errors.New("no database")
	k, stop := run(t, rejected.Config{Store: store, Every: time.Millisecond})
	k.Offer("live", forged(1), noMatch, "")
	<-store.written
	store.mu.Lock()
	store.err = nil
	store.mu.Unlock()
	k.Offer("live", forged(2), noMatch, "")
	<-store.written
	stop()
	if len(store.rows) != 1 {
		t.Errorf("kept %d, want the one after the database came back", len(store.rows))
	}
}

// A request with an incomplete body is stored as truncated: operators can view it, but not admit it.
func TestKeeper_Incomplete_IsTruncated(t *testing.T) {
	t.Parallel()
	store := newShelf()
	k, stop := run(t, rejected.Config{Store: store})
	r := sent(t, stripe.Provider, webhook.SignInput{Secret: testSecret, Body: []byte(liveBody)})
	k.Offer("live", r, &webhook.Error{Class: webhook.TooLarge, Detail: "the limit is 1 MiB"}, "")
	<-store.written
	stop()
	if got := store.rows[0]; !got.Truncated || got.Likely || len(got.Diagnosis) != 0 {
		t.Errorf("kept %+v, want it truncated and without a diagnosis", got)
	}
}

// Old rejections are deleted even if no new ones arrive.
func TestKeeper_Quiet_Trims(t *testing.T) {
	t.Parallel()
	store := newShelf()
	_, stop := run(t, rejected.Config{Store: store, Trim: time.Millisecond, Every: time.Millisecond})
	<-store.written
	stop()
	if len(store.rows) != 0 {
		t.Errorf("kept %d, want none", len(store.rows))
	}
}
