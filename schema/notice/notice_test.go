package notice_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// setup returns the notices of a test database with a clock that the test moves.
type setup struct {
	*notice.Store
	t  *testing.T
	db *pgxpool.Pool
}

func begin(t *testing.T) setup {
	db := schematest.New(t)
	return setup{notice.New(db), t, db}
}

// pass runs one pass and returns the keys of the new messages, without the times in the keys.
func (s setup) pass(p notice.Pass) []string {
	s.t.Helper()
	if p.Sinks == nil {
		p.Sinks = []string{"notify:chat"}
	}
	p.Quiescence = time.Minute
	if err := s.Run(s.t.Context(), p); err != nil {
		s.t.Fatal(err)
	}
	var told []string
	for _, sink := range append(slices.Clone(p.Sinks), p.Pagers...) {
		for {
			m, found, err := s.Take(s.t.Context(), sink, time.Minute)
			if err != nil {
				s.t.Fatal(err)
			}
			if !found {
				break
			}
			word := string(m.Severity)
			if m.Over != nil {
				word = "over"
			}
			told = append(told, fmt.Sprintf("%s %s %s %d", sink, m.Name, word, m.Count))
			if err := s.Sent(s.t.Context(), m); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return told
}

// later moves all stored times into the past.
func (s setup) later(d time.Duration) {
	s.t.Helper()
	for _, sql := range []string{
		`update notices set since = since - $1::interval, seen_at = seen_at - $1::interval, told_at = told_at - $1::interval`,
		`update notice_messages set created_at = created_at - $1::interval, next_at = next_at - $1::interval`,
	} {
		if _, err := s.db.Exec(s.t.Context(), sql, d); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s setup) want(got []string, want ...string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("notified %q, want %q", got, want)
	}
}

func cause(name string, severity notice.Severity, count int) notice.Condition {
	return notice.Condition{Name: name, Severity: severity, Message: name, Count: count, Command: "status", Runbook: "status"}
}

// A condition is reported once when it begins, once a day while it lasts, and once when it ends. If the condition
// begins again, it is reported again.
func TestRun_OneCause_OnceADayAndWhenOver(t *testing.T) {
	t.Parallel()
	s := begin(t)
	lasts := notice.Pass{Found: []notice.Condition{cause("sink:crm", notice.Ticket, 1)}}
	s.want(s.pass(lasts), "notify:chat sink:crm ticket 1")
	s.want(s.pass(lasts))
	s.later(23 * time.Hour)
	s.want(s.pass(lasts))
	s.later(time.Hour + time.Second)
	s.want(s.pass(lasts), "notify:chat sink:crm ticket 1")
	s.want(s.pass(lasts))
	// The condition disappears only for a moment.
	s.want(s.pass(notice.Pass{}))
	s.want(s.pass(lasts))
	s.want(s.pass(notice.Pass{}))
	s.later(2 * time.Minute)
	// The pass could not read the state of the sinks.
	s.want(s.pass(notice.Pass{Unread: []string{"sink"}}))
	s.want(s.pass(notice.Pass{}), "notify:chat sink:crm over 1")
	s.want(s.pass(notice.Pass{}))
	s.later(time.Hour)
	s.want(s.pass(lasts), "notify:chat sink:crm ticket 1")
}

// If a condition becomes much worse, it is reported before the next day.
func TestRun_Worse_ToldAtOnce(t *testing.T) {
	t.Parallel()
	s := begin(t)
	at := func(severity notice.Severity, count int) notice.Pass {
		return notice.Pass{Found: []notice.Condition{cause("task:live:dispute", severity, count)}}
	}
	s.want(s.pass(at(notice.Ticket, 2)), "notify:chat task:live:dispute ticket 2")
	s.want(s.pass(at(notice.Ticket, 19)))
	s.want(s.pass(at(notice.Ticket, 20)), "notify:chat task:live:dispute ticket 20")
	s.want(s.pass(at(notice.Ticket, 20)))
	s.want(s.pass(at(notice.Page, 20)), "notify:chat task:live:dispute page 20")
	s.want(s.pass(at(notice.Page, 20)))
	s.want(s.pass(at(notice.Ticket, 20)))
	// The recipients of a page also receive the end of the condition, even if it was no longer a page.
	s.later(25 * time.Hour)
	s.want(s.pass(at(notice.Ticket, 20)), "notify:chat task:live:dispute ticket 20")
	s.later(2 * time.Minute)
	s.want(s.pass(notice.Pass{Quiet: true, Pagers: []string{"notify:pager"}}), "notify:chat task:live:dispute over 20", "notify:pager task:live:dispute over 20")
}

// Quiet hours delay tickets and their end, but not pages. If a ticket begins and ends within the quiet hours, it is
// never reported.
func TestRun_QuietHours_PagesAlone(t *testing.T) {
	t.Parallel()
	s := begin(t)
	quiet := func(found ...notice.Condition) notice.Pass {
		return notice.Pass{Found: found, Quiet: true, Pagers: []string{"notify:pager"}}
	}
	loud := func(found ...notice.Condition) notice.Pass {
		return notice.Pass{Found: found, Pagers: []string{"notify:pager"}}
	}
	ticket, page := cause("job:1", notice.Ticket, 1), cause("parked:live", notice.Page, 1)
	s.want(s.pass(quiet(ticket, page)), "notify:chat parked:live page 1", "notify:pager parked:live page 1")
	s.later(2 * time.Minute)
	// the ticket has begun and ended
	s.want(s.pass(quiet()), "notify:chat parked:live over 1", "notify:pager parked:live over 1")
	s.want(s.pass(loud()))
	s.want(s.pass(quiet(ticket)))
	s.want(s.pass(loud(ticket)), "notify:chat job:1 ticket 1")
	s.later(2 * time.Minute)
	s.want(s.pass(quiet()))
	s.want(s.pass(loud()), "notify:chat job:1 over 1")
}

// A condition with Once is reported once, and its end is not reported.
func TestRun_Once_NeverOver(t *testing.T) {
	t.Parallel()
	s := begin(t)
	happened := cause("rules:changed", notice.Ticket, 1)
	happened.Once = true
	s.want(s.pass(notice.Pass{Found: []notice.Condition{happened}}), "notify:chat rules:changed ticket 1")
	s.later(25 * time.Hour)
	s.want(s.pass(notice.Pass{Found: []notice.Condition{happened}}))
	s.later(2 * time.Minute)
	s.want(s.pass(notice.Pass{}))
	if now, err := s.Now(t.Context()); err != nil || len(now) != 0 {
		t.Errorf("kept %+v, %v", now, err)
	}
}

// Many workers run passes and send messages concurrently: each message is written once and sent once.
func TestRun_ManyWorkers_OneMessageEach(t *testing.T) {
	t.Parallel()
	s := begin(t)
	var found []notice.Condition
	for i := range 20 {
		found = append(found, cause(fmt.Sprintf("parked:%d", i), notice.Page, 1))
	}
	var mu sync.Mutex
	taken := map[string]int{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				if err := s.Run(t.Context(), notice.Pass{Found: found, Sinks: []string{"notify:a", "notify:b"}, Quiescence: time.Minute}); err != nil {
					t.Error(err)
				}
				for _, sink := range []string{"notify:a", "notify:b"} {
					if m, found, err := s.Take(t.Context(), sink, time.Hour); err != nil {
						t.Error(err)
					} else if found {
						mu.Lock()
						taken[sink+" "+m.Key]++
						mu.Unlock()
					}
				}
			}
		})
	}
	all.Wait()
	for _, sink := range []string{"notify:a", "notify:b"} {
		for m, found, err := s.Take(t.Context(), sink, time.Hour); found || err != nil; m, found, err = s.Take(t.Context(), sink, time.Hour) {
			if err != nil {
				t.Fatal(err)
			}
			taken[sink+" "+m.Key]++
		}
	}
	for key, times := range taken {
		if times != 1 {
			t.Errorf("%s was taken %d times", key, times)
		}
	}
	var messages int
	if err := s.db.QueryRow(t.Context(), `select count(*) from notice_messages`).Scan(&messages); err != nil || messages != 40 || len(taken) != 40 {
		t.Errorf("%d messages, %d taken, %v; want 40", messages, len(taken), err)
	}
}

// A sink was down for days. When the sink recovers, it receives one message per condition, and then the message about
// the end. A message that is no longer retried does not block later messages.
func TestTake_SinkWasOut_OneMessageInOrder(t *testing.T) {
	t.Parallel()
	s := begin(t)
	run := func(p notice.Pass) {
		t.Helper()
		p.Sinks, p.Quiescence = []string{"notify:chat"}, time.Minute
		if err := s.Run(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	take := func() notice.Message {
		t.Helper()
		m, found, err := s.Take(t.Context(), "notify:chat", time.Minute)
		if err != nil || !found {
			t.Fatalf("found %t, %v", found, err)
		}
		return m
	}
	lasts := notice.Pass{Found: []notice.Condition{cause("sink:crm", notice.Ticket, 1)}}
	run(lasts)
	first := take()
	if err := s.Again(t.Context(), first, time.Hour, true, "no answer in time"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.later(24*time.Hour - time.Minute)
		run(lasts)
		s.later(time.Minute)
		run(lasts)
	}
	s.later(2 * time.Minute)
	run(notice.Pass{})
	again := take()
	if again.Key != first.Key || again.Attempts != 2 {
		t.Errorf("tried %+v, want the first again", again)
	}
	if m, found, err := s.Take(t.Context(), "notify:chat", time.Minute); found || err != nil {
		t.Errorf("notified %+v, %v before the first", m, err)
	}
	if err := s.Again(t.Context(), again, 0, false, "no answer in time"); err != nil {
		t.Fatal(err)
	}
	if over := take(); over.Over == nil || over.Name != "sink:crm" {
		t.Errorf("then notified %+v", over)
	}
	s.later(-71 * time.Hour)
	unsent, err := s.Unsent(t.Context(), time.Minute)
	if err != nil || len(unsent) != 1 || unsent[0].Messages != 1 || unsent[0].Error != "no answer in time" {
		t.Errorf("unsent %+v, %v", unsent, err)
	}
}
