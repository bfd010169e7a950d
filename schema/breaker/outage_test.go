package breaker_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/schematest"
)

// hit returns the affected events with these IDs.
func hit(eventIDs ...string) (events []breaker.Affected) {
	for _, id := range eventIDs {
		ref := schematest.Ref(id)
		events = append(events, breaker.Affected{ReceiptID: ref.ReceiptID, Mode: ref.Mode})
	}
	return events
}

type outageTest struct {
	*testing.T
	db    *pgxpool.Pool
	store *breaker.Store
}

func newOutageTest(t *testing.T) *outageTest {
	t.Helper()
	db := schematest.New(t)
	return &outageTest{t, db, breaker.New(db)}
}

func (o *outageTest) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

func (o *outageTest) exec(sql string, args ...any) {
	o.Helper()
	_, err := o.db.Exec(o.Context(), sql, args...)
	o.must(err)
}

func (o *outageTest) open(sink, reason, said string) {
	o.Helper()
	o.must(o.store.Open(o.Context(), sink, breaker.Failures{Reason: reason, Said: said}, time.Hour))
}

func (o *outageTest) close(sink string) {
	o.Helper()
	closed, err := o.store.Close(o.Context(), sink)
	o.must(err)
	if !closed {
		o.Fatalf("the breaker of %s was not open", sink)
	}
}

func (o *outageTest) list(f breaker.OutageFilter) []breaker.Outage {
	o.Helper()
	if f.Limit == 0 {
		f.Limit = 50
	}
	if f.Mode == "" {
		f.Mode = "live"
	}
	found, err := breaker.Outages(o.Context(), o.db, f)
	o.must(err)
	return found
}

// An outage lasts from the opening of the breaker to its end. A later failure of a probe changes neither its reason nor
// its events, and the next opening begins another outage.
func TestOutage_FromOpenToClose(t *testing.T) {
	t.Parallel()
	o := newOutageTest(t)
	o.must(o.store.Affects(t.Context(), "finance", hit("evt_0")...)) // before the first outage
	o.open("finance", "finance answered 503", "no room for ada@example.com today")
	o.must(o.store.Affects(t.Context(), "finance", append(hit("evt_1", "evt_2", "evt_1"), breaker.Affected{Mode: "live"})...))
	o.must(o.store.Affects(t.Context(), "finance", hit("evt_2", "test_1")...))
	o.must(o.store.Failed(t.Context(), "finance", breaker.Failures{Reason: "finance answered 500"}, time.Hour))
	o.open("finance", "finance answered 502", "")
	open := o.list(breaker.OutageFilter{})
	if len(open) != 1 || open[0].Until != nil || open[0].Events != 2 || open[0].Reason != "finance answered 503" || !open[0].Complete {
		t.Fatalf("during the outage: %+v", open)
	}
	if open[0].Answer != "no room for (erased) today" {
		t.Errorf("stored answer %q, want it without the address", open[0].Answer)
	}
	o.close("finance")
	o.must(o.store.Affects(t.Context(), "finance", hit("evt_3")...)) // by a worker that has not read the end yet
	closed := o.list(breaker.OutageFilter{})
	if len(closed) != 1 || closed[0].Until == nil || closed[0].Until.Before(closed[0].Since) || closed[0].Events != 3 {
		t.Fatalf("after the outage: %+v", closed)
	}
	o.open("finance", "finance answered 401", "")
	o.must(o.store.Affects(t.Context(), "finance", hit("evt_1")...))
	both := o.list(breaker.OutageFilter{})
	if len(both) != 2 || both[0].Reason != "finance answered 401" || both[0].Events != 1 || both[1].ID != closed[0].ID ||
		!both[1].Until.Equal(*closed[0].Until) || both[1].Events != 3 {
		t.Errorf("after the second opening: %+v", both)
	}
}

// A sink that answers some probes and then fails for the same reason has one outage. After a longer time, or for another
// reason, it has another one.
func TestOutage_Flapping_One(t *testing.T) {
	t.Parallel()
	o := newOutageTest(t)
	for range 3 {
		o.open("finance", "finance answered 503", "")
		o.close("finance")
	}
	if found := o.list(breaker.OutageFilter{}); len(found) != 1 || found[0].Until == nil {
		t.Errorf("flapping: %+v, want one that has ended", found)
	}
	o.exec(`update outages set since = since - interval '1 hour', until = until - interval '61 seconds'`)
	o.open("finance", "finance answered 503", "")
	if found := o.list(breaker.OutageFilter{}); len(found) != 2 || found[0].Until != nil || found[1].Until == nil {
		t.Errorf("after a minute: %+v, want a second one", found)
	}
}

// One worker closes the breaker while another one opens it and a third one closes it again. No outage stays without an
// end when the breaker is closed.
func TestOutage_OpenedAndClosedConcurrently_Ends(t *testing.T) {
	t.Parallel()
	o := newOutageTest(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 25 {
				if i%2 == 0 {
					if err := o.store.Open(t.Context(), "finance", breaker.Failures{Reason: fmt.Sprint("reason ", i)}, time.Hour); err != nil {
						t.Error(err)
					}
				} else if _, err := o.store.Close(t.Context(), "finance"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	_, err := o.store.Close(t.Context(), "finance")
	o.must(err)
	var open int
	o.must(o.db.QueryRow(t.Context(), `select count(*) from outages where until is null`).Scan(&open))
	if open != 0 {
		t.Errorf("%d outages have no end, and the breaker is closed", open)
	}
}

// Workers that open a breaker at the same time begin one outage, and record each event once.
func TestOutage_ManyWorkers_One(t *testing.T) {
	t.Parallel()
	o := newOutageTest(t)
	events := hit("evt_1", "evt_2", "evt_3", "evt_4")
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() {
			mine := slices.Clone(events)
			if i%2 == 1 {
				slices.Reverse(mine)
			}
			err := o.store.Open(t.Context(), "finance", breaker.Failures{Reason: "finance answered 503"}, time.Hour)
			if err == nil {
				err = o.store.Affects(t.Context(), "finance", mine...)
			}
			errs[i] = err
		})
	}
	group.Wait()
	for _, err := range errs {
		o.must(err)
	}
	if found := o.list(breaker.OutageFilter{}); len(found) != 1 || found[0].Events != 4 {
		t.Errorf("outages %+v, want one with four events", found)
	}
}

// The list adds up the main objects of the events of one mode, each object once, and never two currencies.
func TestOutages_Sums(t *testing.T) {
	t.Parallel()
	o := newOutageTest(t)
	o.open("finance", "finance answered 503", "")
	o.must(o.store.Affects(t.Context(), "finance", hit("evt_1", "evt_2", "evt_3", "evt_4", "test_1")...))
	for _, s := range []struct {
		event, object, account, currency string
		main                             bool
		amount                           int64
	}{
		{"evt_1", "in_1", "acme", "usd", true, 4900}, {"evt_1", "ch_1", "acme", "usd", false, 4900},
		{"evt_2", "in_1", "acme", "usd", true, 4900}, {"evt_3", "in_3", "beta", "eur", true, 700},
		{"test_1", "in_9", "test", "usd", true, 100},
	} {
		o.exec(`insert into event_subjects (receipt_id, object, main, account, amount, currency) values ($1, $2, $3, $4, $5, $6)`,
			schematest.Ref(s.event).ReceiptID, s.object, s.main, s.account, s.amount, s.currency)
	}
	live, test := o.list(breaker.OutageFilter{})[0], o.list(breaker.OutageFilter{Mode: "test"})[0]
	if got := fmt.Sprint(live.Events, live.Accounts, live.Money, " ", live.Mode); got != "4 2 map[eur:700 usd:4900] live" {
		t.Errorf("live: %s", got)
	}
	if got := fmt.Sprint(test.Events, test.Accounts, test.Money, " ", test.Mode); got != "1 1 map[usd:100] test" {
		t.Errorf("test: %s", got)
	}
}

func TestOutages_FiltersAndPages(t *testing.T) {
	t.Parallel()
	o := newOutageTest(t)
	for _, sink := range []string{"finance", "workspaces:live", "workspaces:test"} {
		o.open(sink, "down", "")
	}
	o.exec(`delete from outages`)
	at := func(day int) time.Time { return time.Date(2026, 10, day, 12, 0, 0, 0, time.UTC) }
	for _, row := range []struct {
		sink, name  string
		since, days int
	}{{"finance", "a", 1, 1}, {"workspaces:live", "b", 2, 8}, {"finance", "c", 5, 1}, {"workspaces:test", "d", 6, 1}, {"finance", "e", 9, 0}} {
		until := at(row.since + row.days)
		ends := &until
		if row.days == 0 {
			ends = nil
		}
		o.exec(`insert into outages (sink, since, until, reason) values ($1, $2, $3, $4)`, row.sink, at(row.since), ends, row.name)
	}
	names := func(f breaker.OutageFilter) string {
		t.Helper()
		var names []string
		for _, found := range o.list(f) {
			names = append(names, found.Reason)
		}
		return strings.Join(names, " ")
	}
	all := o.list(breaker.OutageFilter{})
	for _, tt := range []struct {
		f    breaker.OutageFilter
		want string
	}{
		{breaker.OutageFilter{}, "e c b a"},
		{breaker.OutageFilter{Mode: "test"}, "e d c a"},
		{breaker.OutageFilter{Sink: "finance"}, "e c a"},
		{breaker.OutageFilter{Sink: "workspaces"}, "b"},
		{breaker.OutageFilter{Sink: "workspaces:live"}, "b"},
		{breaker.OutageFilter{Sink: "fin"}, ""},
		{breaker.OutageFilter{Since: at(8)}, "e b"},
		{breaker.OutageFilter{Since: at(3), Until: at(6)}, "c b"},
		{breaker.OutageFilter{Since: at(20)}, "e"},
		{breaker.OutageFilter{Until: at(1)}, ""},
		{breaker.OutageFilter{Limit: 2}, "e c"},
		{breaker.OutageFilter{Limit: 2, After: all[1]}, "b a"},
		{breaker.OutageFilter{Limit: 2, After: all[2]}, "a"},
	} {
		if got := names(tt.f); got != tt.want {
			t.Errorf("Outages(%+v) = %q, want %q", tt.f, got, tt.want)
		}
	}
	if all[1].Seconds != 24*60*60 || all[0].Seconds <= 0 {
		t.Errorf("durations %d and %d", all[1].Seconds, all[0].Seconds)
	}
}
