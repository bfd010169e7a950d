package activities_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/pause"
)

func (b *bundle) publisher(destinations ...activities.Destination) *activities.Publisher {
	for i := range destinations {
		destinations[i].Policy.Timeout = 500 * time.Millisecond
		if destinations[i].Events == nil {
			destinations[i].Events = []string{"*"}
		}
	}
	return &activities.Publisher{
		Outbox: outbox.New(b.pool), Destinations: destinations, Client: httpcall.NewClient(), Log: slog.New(slog.DiscardHandler),
	}
}

// announce writes events of accounts to the outbox, in order. An event's name is its index.
func (b *bundle) announce(accounts ...string) {
	b.Helper()
	for _, account := range accounts {
		b.exec(`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data) values ($1, 'live', $2, 'access.changed', $3, 'key', $4)`,
			uuid.New(), account, uuid.New(), news(account))
	}
}

// news returns an event about an account.
func news(account string) string {
	return `{"account": "` + account + `", "mode": "live", "version": 1, "state": "active", "plan": "pro", "quantity": 1, "features": [], "source_event": "evt_1"}`
}

// ids returns the event IDs of an account in the order of writing.
func (b *bundle) ids(account string) []string {
	b.Helper()
	return b.lines(`select event_id::text from outbox where account = '` + account + `' order by id`)
}

func (b *bundle) publish(r *activities.Publisher) (published bool) {
	b.Helper()
	published, err := r.RunOnce(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return published
}

// due makes events due that wait for a retry.
func (b *bundle) due() { b.exec(`update outbox set next_at = now() where published_at is null`) }

func received(s *activitiestest.Sink, account string) (ids []string) {
	for _, r := range s.Requests() {
		if r.CloudEvent["subject"] == account {
			ids = append(ids, r.CloudEvent["id"])
		}
	}
	return ids
}

// A destination receives only the types that it selects. An event type without destinations delays no other event.
func TestPublisher_Types(t *testing.T) {
	b := setup(t)
	some, all := activitiestest.NewSink(t), activitiestest.NewSink(t)
	for _, kind := range []string{"billing.invoice.paid", "access.changed", "billing.subscription.changed", "billing.invoice.closed"} {
		b.exec(`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data) values ($1, 'live', 'acme', $2, $3, 'key', $4)`,
			uuid.New(), kind, uuid.New(), news("acme"))
	}
	p := b.publisher(activities.Destination{Name: "crm", URL: some.URL, Events: []string{"access.changed", "billing.invoice.*"}}, activities.Destination{Name: "all", URL: all.URL})
	for b.publish(p) {
	}
	got := func(s *activitiestest.Sink) (types []string) {
		for _, r := range s.Requests() {
			types = append(types, r.CloudEvent["type"])
		}
		return types
	}
	if want := []string{"billing.invoice.paid", "access.changed", "billing.invoice.closed"}; !slices.Equal(got(some), want) {
		t.Errorf("asked for some: got %q, want %q", got(some), want)
	}
	if len(got(all)) != 4 {
		t.Errorf("asked for all: got %q", got(all))
	}
	b.exec(`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data) values ($1, 'live', 'acme', 'billing.refund.failed', $2, 'key', $3)`, uuid.New(), uuid.New(), news("acme"))
	b.publish(b.publisher(activities.Destination{Name: "crm", URL: some.URL, Events: []string{"access.changed"}}))
	if left := b.lines(`select type from outbox where published_at is null`); len(left) != 0 {
		t.Errorf("%q wait without a destination", left)
	}
}

// An event for one destination is sent to no other destination, and to no destination if that one no longer exists.
func TestPublisher_OnlyTo(t *testing.T) {
	b := setup(t)
	crm, other := activitiestest.NewSink(t), activitiestest.NewSink(t)
	for _, to := range []string{"crm", "gone", ""} {
		b.exec(`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, only_to) values ($1, 'live', 'acme', 'access.snapshot', $2, 'announce', $3, $4)`,
			uuid.New(), uuid.New(), news("acme"), to)
	}
	p := b.publisher(activities.Destination{Name: "crm", URL: crm.URL}, activities.Destination{Name: "other", URL: other.URL})
	for b.publish(p) {
	}
	if len(crm.Requests()) != 2 || len(other.Requests()) != 1 {
		t.Errorf("crm received %d events, the other %d", len(crm.Requests()), len(other.Requests()))
	}
	if left := b.lines(`select only_to from outbox where published_at is null`); len(left) != 0 {
		t.Errorf("%q wait without a destination", left)
	}
}

// A destination with secrets can verify pawl's own events in the same way as relayed events.
func TestPublisher_Signed(t *testing.T) {
	b := setup(t)
	c, url := newDestination(t)
	b.announce("acme")
	d := activities.Destination{Name: "crm", URL: url, Token: "token", Keys: [][]byte{[]byte(destinationKey)}}
	if !b.publish(b.publisher(d)) || len(c.bad) != 0 || c.first[b.ids("acme")[0]] != 1 {
		t.Errorf("received %v, faults %v; want the event signed under its ID", c.first, c.bad)
	}
}

func TestPublisher_CloudEvent(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	b.announce("acme")
	if !b.publish(b.publisher(activities.Destination{Name: "crm", URL: s.URL + "/events", Token: "token"})) {
		t.Error("nothing was published")
	}
	got := s.Requests()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	r := got[0]
	want := map[string]string{"id": b.ids("acme")[0], "type": "access.changed", "source": "/pawl/live", "subject": "acme", "specversion": "1.0"}
	for name, value := range want {
		if r.CloudEvent[name] != value {
			t.Errorf("ce-%s is %q, want %q", name, r.CloudEvent[name], value)
		}
	}
	if r.Method != "POST" || r.Path != "/events" || r.Authorization != "Bearer token" || r.ContentType != "application/json" || !strings.Contains(r.Body, `"plan": "pro"`) {
		t.Errorf("request %+v", r)
	}
}

func TestPublisher_OrderWithinAnAccount(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	b.announce("a", "b", "a", "a", "b", "c")
	r := b.publisher(activities.Destination{Name: "crm", URL: s.URL})
	for b.publish(r) {
	}
	for _, account := range []string{"a", "b", "c"} {
		if got := received(s, account); !slices.Equal(got, b.ids(account)) {
			t.Errorf("%s: received %v, want %v", account, got, b.ids(account))
		}
	}
}

// A rejected event delays only events of its account, and is sent again only to destinations that have not accepted
// it.
func TestPublisher_OneDestinationFails_OnlyItIsAskedAgain(t *testing.T) {
	for name, cue := range map[string]activitiestest.Cue{
		"503": {Status: 503}, "404": {Status: 404}, "cut after it": {Drop: true, Apply: true}, "unanswered": {Hang: true}, "redirect": {Status: 307},
		"protocols switched": {Status: 101, Header: map[string]string{"Connection": "Upgrade", "Upgrade": "websocket"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			crm, search := activitiestest.NewSink(t), activitiestest.NewSink(t)
			search.Next(cue)
			r := b.publisher(activities.Destination{Name: "crm", URL: crm.URL}, activities.Destination{Name: "search", URL: search.URL})
			b.announce("a", "a")
			if b.publish(r) {
				t.Error("an event was published that search has not taken")
			}
			if got := b.lines(`select last_error from outbox order by id`)[0]; !strings.HasPrefix(got, "destination search:") {
				t.Errorf("last error %q", got)
			}
			b.announce("b")
			for b.publish(r) {
			}
			if got := received(crm, "a"); len(got) != 1 {
				t.Errorf("crm got %v while the account's first event waits", got)
			}
			if got := received(search, "b"); len(got) != 1 {
				t.Errorf("search got %v of another account, want its event", got)
			}
			b.due()
			for b.publish(r) {
			}
			ids := b.ids("a")
			if got := received(crm, "a"); !slices.Equal(got, ids) {
				t.Errorf("crm got %v, want each once: %v", got, ids)
			}
			if got := received(search, "a"); !slices.Equal(got, []string{ids[0], ids[0], ids[1]}) {
				t.Errorf("search got %v, want the first again and then the second", got)
			}
			if applied := search.Applied(); len(applied) != 3 {
				t.Errorf("search applied %d events, want 3: a repeat has the ID of the first", len(applied))
			}
		})
	}
}

// A paused destination receives none of pawl's own events, and this does not count as a failure. After the pause, it
// receives each of these events once, in the order of writing. During the pause, the other destinations receive the
// first event of each account.
func TestPublisher_DestinationPaused_ReceivesItsEventsAfterThePause(t *testing.T) {
	b := setup(t)
	crm, search := activitiestest.NewSink(t), activitiestest.NewSink(t)
	gate := effect.NewGate("destinations:crm", 16, 0)
	r := b.publisher(activities.Destination{Name: "crm", URL: crm.URL, Policy: effect.Policy{Gate: gate}}, activities.Destination{Name: "search", URL: search.URL})
	pauses := pause.New(b.pool)
	reads := func() {
		(&effect.Runner{Config: effect.Config{
			Breakers: breaker.New(b.pool), Pauses: pauses, Log: slog.New(slog.DiscardHandler),
		}}).Read(b.Context(), []*effect.Gate{gate}, nil)
	}
	if begun, err := pauses.Begin(b.Context(), pause.Pause{Kind: pause.Sink, Name: gate.Sink(), Actor: "ada", Reason: "the CRM is migrated"}); err != nil || !begun {
		t.Fatalf("paused %t: %v", begun, err)
	}
	reads()
	b.announce("a", "a")
	for b.publish(r) {
	}
	if got := received(crm, "a"); len(got) != 0 {
		t.Errorf("the paused crm got %v", got)
	}
	ids := b.ids("a")
	if got := received(search, "a"); !slices.Equal(got, ids[:1]) {
		t.Errorf("search got %v, want the first event %v", got, ids[:1])
	}
	if got := b.lines(`select coalesce(last_error, '') from outbox order by id`); !slices.Equal(got, []string{"", ""}) {
		t.Errorf("errors %q of a pause, want none", got)
	}
	if ended, err := pauses.End(b.Context(), pause.Sink, gate.Sink()); err != nil || !ended {
		t.Fatalf("resumed %t: %v", ended, err)
	}
	reads()
	b.due()
	for b.publish(r) {
	}
	for name, s := range map[string]*activitiestest.Sink{"crm": crm, "search": search} {
		if got := received(s, "a"); !slices.Equal(got, ids) {
			t.Errorf("%s got %v, want %v", name, got, ids)
		}
	}
}

func TestPublisher_TwoAtOnce_EachEventOnceAndInOrder(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	for range 5 {
		b.announce("a", "b", "c", "d")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{}, 2)
	for range 2 {
		r := b.publisher(activities.Destination{Name: "crm", URL: s.URL})
		go func() {
			r.Run(ctx)
			ended <- struct{}{}
		}()
	}
	b.until(func() bool { return len(b.lines(`select account from outbox where published_at is null`)) == 0 })
	stop()
	<-ended
	<-ended
	for _, account := range []string{"a", "b", "c", "d"} {
		if got := received(s, account); !slices.Equal(got, b.ids(account)) {
			t.Errorf("%s: received %v, want %v", account, got, b.ids(account))
		}
	}
}

func TestPublisher_Wake_PublishesAtOnce(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	r := b.publisher(activities.Destination{Name: "crm", URL: s.URL})
	r.Wake()
	r.Wake() // never blocks
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	b.announce("a")
	go r.Run(ctx)
	b.until(func() bool { return len(s.Requests()) > 0 })
	if got := received(s, "a"); len(got) != 1 {
		t.Errorf("received %v", got)
	}
}

// If a destination hangs for one account, events of other accounts are delayed only briefly.
func TestPublisher_OneAccountHangs_OthersGoOn(t *testing.T) {
	b := setup(t)
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Subject") == "slow" {
			<-released
		}
	}))
	t.Cleanup(server.Close)
	b.announce("slow", "slow", "a", "a", "a", "b", "b", "b")
	r := b.publisher(activities.Destination{Name: "crm", URL: server.URL})
	r.Destinations[0].Policy.Timeout = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	release := sync.OnceFunc(func() { close(released) })
	defer func() {
		release()
		stop()
		<-ended
	}()
	b.until(func() bool {
		return slices.Equal(b.lines(`select account from outbox where published_at is null`), []string{"slow", "slow"})
	})
	if got := b.lines(`select attempts::text from outbox where account = 'slow' order by id`); !slices.Equal(got, []string{"1", "0"}) {
		t.Errorf("the slow account's events were taken %v times, want its first one once", got)
	}
	release()
	b.until(func() bool { return len(b.lines(`select account from outbox where published_at is null`)) == 0 })
}
