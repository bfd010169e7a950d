package retention_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/retention"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

const day = 24 * time.Hour

var ages = retention.Ages{Payloads: 90 * day, Redeliveries: 90 * day, Runs: 400 * day, PublishedEvents: 30 * day, Jobs: 90 * day}

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// worker returns connections with the role and the settings of a worker.
func worker(t *testing.T, owner *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	options := owner.Config().Copy()
	options.ConnConfig.User, options.ConnConfig.Password = schematest.Worker, schematest.Worker
	schema.Bound(options, schema.Handle)
	pool, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// world is a database with helpers that write rows of a chosen age.
type world struct {
	*testing.T
	pool *pgxpool.Pool
	made int
}

func setup(t *testing.T) *world {
	t.Helper()
	return &world{T: t, pool: schematest.New(t)}
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.pool.Exec(w.Context(), sql, args...); err != nil {
		w.Fatal(err)
	}
}

// receipt inserts a receipt of an age with a payload. It last changed when it was received. change is SQL that then
// changes the receipt.
func (w *world) receipt(event string, age time.Duration, status, change string) (id string) {
	w.Helper()
	w.made++
	at := time.Now().Add(-age)
	v7 := uuid.UUID{6: 0x70, 8: 0x80}
	binary.BigEndian.PutUint64(v7[:8], uint64(at.UnixMilli())<<16|0x7000)
	binary.BigEndian.PutUint32(v7[12:], uint32(w.made))
	w.exec(`insert into receipts (id, source, provider, account, mode, event_id, identity, type, received_at, updated_at, body_hash, status)
		values ($1, 's', 'stripe', '', 'live', $2::text, 'id', 'invoice.paid', $3, $3, sha256(convert_to($2::text, 'UTF8')), $4)`, v7.String(), event, at, status)
	w.exec(`insert into receipt_bodies (receipt_id, headers, body) values ($1, '{}', convert_to($2, 'UTF8'))`, v7.String(), event)
	if change != "" {
		w.exec(`update receipts set `+change+` where id = $1`, v7.String())
	}
	return v7.String()
}

// sweep runs with the role and the settings of a worker.
func (w *world) sweep(change func(*retention.Sweep)) retention.Run {
	w.Helper()
	run, err := w.trySweep(w.Context(), change)
	if err != nil {
		w.Fatal(err)
	}
	return run
}

func (w *world) trySweep(ctx context.Context, change func(*retention.Sweep)) (retention.Run, error) {
	w.Helper()
	s := &retention.Sweep{DB: worker(w.T, w.pool), Ages: ages, Within: time.Hour, Look: time.Millisecond}
	s.SetRows(2)
	if change != nil {
		change(s)
	}
	return s.Run(ctx, retention.Run{})
}

func (w *world) list(sql string) string {
	w.Helper()
	rows, err := w.pool.Query(w.Context(), sql)
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			w.Fatal(err)
		}
		all = append(all, one)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

const payloads = `select r.event_id from receipts r join receipt_bodies b on b.receipt_id = r.id`

// The payloads of finished events go after their age. The payload of an event stays as long as something can still need
// it.
func TestSweep_Payloads(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, status := range []string{"processed", "compensated", "ignored"} {
		w.receipt("gone-"+status, 100*day, status, "")
		w.receipt("young-"+status, 80*day, status, "")
	}
	for _, status := range []string{"received", "processing", "retrying", "needs_review", "dead"} {
		w.receipt("open-"+status, 300*day, status, "")
	}
	w.receipt("ended-lately", 300*day, "processed", "updated_at = now() - interval '13 days'")
	w.receipt("ended", 300*day, "processed", "updated_at = now() - interval '15 days'")
	w.receipt("taken-over", 300*day, "processed", "received_at = now() - interval '20 days', updated_at = now() - interval '20 days'")
	w.receipt("unlinked", 300*day, "ignored", "reason = 'account_not_mapped: x', account = 'acct_1'")
	w.receipt("declined", 300*day, "ignored", "reason = 'account_not_mapped: x', account = 'acct_2'")
	w.exec(`insert into tasks (mode, kind, object, state, title, effect_key) values ('live', 'unknown_account', 'acct_1', 'open', '', ''), ('live', 'unknown_account', 'acct_2', 'done', '', '')`)
	run := w.sweep(nil)
	want := "ended-lately open-dead open-needs_review open-processing open-received open-retrying taken-over unlinked young-compensated young-ignored young-processed"
	if got := w.list(payloads); got != want {
		t.Errorf("the payloads that stay:\ngot  %s\nwant %s", got, want)
	}
	if run.Deleted["payloads"] != 5 || !run.Complete {
		t.Errorf("the run is %+v, want 5 deleted payloads", run)
	}
	if again := w.sweep(nil); again.Deleted["payloads"] != 0 || !again.Complete || w.list(payloads) != want {
		t.Errorf("the second run is %+v", again)
	}
	if n := w.list(`select count(*)::text from receipts`); n != "16" {
		t.Errorf("%s receipts are left, want all 16", n)
	}
}

// A job that has not reached an event yet, and the release of withheld effects, need its payload.
func TestSweep_PayloadOfAJob_AndOfWithheldEffects(t *testing.T) {
	t.Parallel()
	w := setup(t)
	job := func(name, state, result string) {
		id := w.receipt(name, 300*day, "ignored", "")
		w.exec(`insert into jobs (id, action, filter, who, why, rate, state, items) values ($1::text, 'run', '{}', 'ada', 'x', 1, $2, 1)`, "job-"+name, state)
		w.exec(`insert into job_items (job, target, name, result) values ($1::text, $2::text, $3::text, $4)`, "job-"+name, id, name, result)
	}
	job("running", "running", "")
	job("paused", "paused", "")
	job("reached", "running", "done")
	job("cancelled", "cancelled", "")
	for name, released := range map[string]string{"withheld": "null", "released": "now()"} {
		id := w.receipt(name, 300*day, "processed", "")
		w.exec(`insert into withheld (key, kind, mode, receipt_id, withheld_at, released_at) values ($1::text, 'relay', 'live', $2, now(), `+released+`)`, "relay:"+name, id)
	}
	w.sweep(nil)
	if got, want := w.list(payloads), "paused running withheld"; got != want {
		t.Errorf("the payloads that stay: %s, want %s", got, want)
	}
}

// A statement that fails ends only its kind: the other kinds are deleted, and the run reports the error.
func TestSweep_AKindFails_OthersGoOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.receipt("old", 300*day, "processed", "")
	id := w.receipt("repeated", 300*day, "processed", "")
	w.exec(`insert into redeliveries (receipt_id, source, received_at, body_hash) values ($1, 's', now() - interval '300 days', '\x01')`, id)
	w.exec(`create function refuse() returns trigger language plpgsql as $$ begin raise 'refused by the test'; end $$`)
	w.exec(`create trigger refuse before delete on receipt_bodies for each row execute function refuse()`)
	run, err := w.trySweep(w.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "refused by the test") {
		t.Errorf("got %v, want the error of the payloads", err)
	}
	if run.Complete || run.Deleted["redeliveries"] != 1 {
		t.Errorf("the run is %+v, want one deleted redelivery and an incomplete run", run)
	}
}

// A suspected replay without a payload uses the payload of the first event with the same bytes. That payload stays
// until the replay needs it no longer.
func TestSweep_SharedPayload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		age    time.Duration
		status string
		change string
		own    bool // the replay stores its own payload
		stays  string
	}{
		"parked":         {200 * day, "needs_review", "", false, "first replay"},
		"ended lately":   {200 * day, "processed", "updated_at = now() - interval '3 days'", false, "first replay"},
		"young":          {50 * day, "processed", "", false, "first replay"},
		"expired":        {200 * day, "processed", "", false, ""},
		"with its own":   {50 * day, "needs_review", "", true, "replay"},
		"of other bytes": {50 * day, "needs_review", `body_hash = '\x01'`, false, "replay"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.receipt("first", 205*day, "processed", "identity = 'bytes'")
			id := w.receipt("replay", c.age, c.status, `identity = 'bytes', replayed = true, body_hash = sha256('first')`)
			if c.change != "" {
				w.exec(`update receipts set `+c.change+` where id = $1`, id)
			}
			if !c.own {
				w.exec(`update receipt_bodies set body = null where receipt_id = $1`, id)
			}
			w.sweep(nil)
			if got := w.list(payloads); got != c.stays {
				t.Errorf("the payloads that stay: %q, want %q", got, c.stays)
			}
		})
	}
}

// Old deliveries, attempts, runs and interventions go, unless the event is open, or an effect is not settled.
func TestSweep_Rows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, e := range []struct{ event, status string }{{"done", "processed"}, {"open", "retrying"}, {"parked", "dead"}} {
		id := w.receipt(e.event, 500*day, e.status, "")
		for _, days := range []int{95, 85} {
			w.exec(`insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label) values ($1, 's', now() - make_interval(days => $2), '', $3)`,
				id, days, fmt.Sprint(e.event, days))
		}
		for _, days := range []int{410, 390} {
			name := fmt.Sprint(e.event, days)
			for _, state := range []string{"done", "uncertain"} {
				w.exec(`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until) values ($1, 'k', $2, $3, 'e', 'r', now())`, name+state, state, id)
				w.exec(`insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, ended_at)
					values ($1, 1, $2, 'r', 1, 'failed', now(), now() - make_interval(days => $3))`, name+state, id, days)
			}
			w.exec(`insert into runs (workflow_id, run_id, receipt_id, kind, closed_at) values ($1, 'r', $2, 'original', now() - make_interval(days => $3))`, name, id, days)
			w.exec(`insert into interventions (workflow_id, run_id, what, receipt_id, at) values ($1, 'r', 'reset', $2, now() - make_interval(days => $3))`, name, id, days)
		}
		w.exec(`insert into runs (workflow_id, run_id, receipt_id, kind) values ($1, 'r', $2, 'due')`, e.event+"-running", id)
	}
	run := w.sweep(nil)
	for sql, want := range map[string]string{
		`select secret_label from redeliveries`: "done85 open85 open95 parked85 parked95",
		`select key from effect_attempts`:       "done390done done390uncertain done410uncertain open390done open390uncertain open410done open410uncertain parked390done parked390uncertain parked410done parked410uncertain",
		`select workflow_id from runs`:          "done-running done390 open-running open390 open410 parked-running parked390 parked410",
		`select workflow_id from interventions`: "done390 open390 open410 parked390 parked410",
	} {
		if got := w.list(sql); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", sql, got, want)
		}
	}
	want := map[string]int64{"payloads": 1, "redeliveries": 1, "attempts": 1, "runs": 1, "interventions": 1, "published_events": 0, "job_items": 0, "jobs": 0}
	if !maps.Equal(run.Deleted, want) {
		t.Errorf("deleted %v, want %v", run.Deleted, want)
	}
	if again := w.sweep(nil); again.Deleted["runs"]+again.Deleted["attempts"] != 0 {
		t.Errorf("the second run deleted %v", again.Deleted)
	}
}

// Published events go, unless their event is open or a flow may still have to receive them. The history of access stays.
func TestSweep_PublishedEvents(t *testing.T) {
	t.Parallel()
	w := setup(t)
	done, open := w.receipt("done", 60*day, "processed", ""), w.receipt("open", 60*day, "dead", "")
	flows := `now()`
	write := func(name, eventType, receipt, published string) {
		w.exec(`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, created_at, published_at, flows_at)
			values (gen_random_uuid(), 'live', 'a', $1, $2, $3, '{}', now() - interval '60 days', `+published+`, `+flows+`)`, eventType, receipt, name)
	}
	for range 3 {
		write("old", "entry.booked", done, `now() - interval '31 days'`)
	}
	write("waits", "entry.booked", done, `null`)
	write("late", "entry.booked", done, `now() - interval '29 days'`)
	write("access", "access.changed", done, `now() - interval '31 days'`)
	write("open", "entry.booked", open, `now() - interval '31 days'`)
	write("no-receipt", "entry.booked", uuid.NewString(), `now() - interval '31 days'`)
	flows = `null`
	write("flow", "entry.booked", done, `now() - interval '31 days'`)
	if run := w.sweep(nil); run.Deleted["published_events"] != 4 {
		t.Errorf("deleted %v, want 4 published events", run.Deleted)
	}
	if got := w.list(`select effect_key from outbox`); got != "access flow late open waits" {
		t.Errorf("the events that stay: %s", got)
	}
}

// A finished job goes with its items. The items go in batches, and the job after the last of them.
func TestSweep_Jobs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, c := range map[string]struct {
		state string
		days  any
	}{"finished": {"finished", 91}, "cancelled": {"cancelled", 91}, "late": {"finished", 89}, "running": {"running", nil}, "paused": {"paused", nil}} {
		w.exec(`insert into jobs (id, action, filter, who, why, rate, state, items, created_at, finished_at)
			values ($1, 'retry', '{}', 'ada', 'w', 1, $2, 5, now() - interval '100 days', now() - make_interval(days => $3))`, name, c.state, c.days)
		w.exec(`insert into job_items (job, target, name) select $1, n::text, 'x' from generate_series(1, 5) n`, name)
	}
	if run := w.sweep(nil); run.Deleted["jobs"] != 2 || run.Deleted["job_items"] != 10 {
		t.Errorf("deleted %v, want 2 jobs and 10 items", run.Deleted)
	}
	if got := w.list(`select id from jobs`); got != "late paused running" {
		t.Errorf("the jobs that stay: %s", got)
	}
	if got := w.list(`select count(*)::text from job_items`); got != "15" {
		t.Errorf("%s items stay, want 15", got)
	}
}

// An age of 0 keeps the rows of its kind forever.
func TestSweep_Never(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.receipt("old", 1000*day, "processed", "")
	if run := w.sweep(func(s *retention.Sweep) { s.Ages = retention.Ages{} }); len(run.Deleted) != 0 || !run.Complete {
		t.Errorf("the run is %+v", run)
	}
	if got := w.list(payloads); got != "old" {
		t.Errorf("the payloads that stay: %q", got)
	}
}

// A row that another transaction has locked is left to the next run, which is not delayed.
func TestSweep_LockedRow_LeftToTheNextRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.receipt("locked", 100*day, "processed", "")
	w.receipt("free", 100*day, "processed", "")
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `update receipt_bodies set headers = '{"X":["1"]}' where receipt_id = $1`, id); err != nil {
		t.Fatal(err)
	}
	w.sweep(nil)
	if got := w.list(payloads); got != "locked" {
		t.Errorf("the payloads that stay: %q", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.sweep(nil)
	if got := w.list(payloads); got != "" {
		t.Errorf("the payloads that stay after the commit: %q", got)
	}
}

// count adds requests to the counts of an ingress.
func (w *world) count(what string, n int) {
	w.Helper()
	w.exec(`insert into source_counts (source, what, name, day, count, last) values ('s', $1, '', (now() at time zone 'utc')::date, $2, now())
		on conflict (source, what, name, day) do update set count = source_counts.count + excluded.count`, what, n)
}

// While more than one in a hundred deliveries is answered slowly, nothing is deleted. A run continues as soon as that is
// over, and a run whose time is over leaves the rest to the next one.
func TestSweep_SlowAnswers_Waits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 5 {
		w.receipt(fmt.Sprint("old-", i), 100*day, "processed", "")
	}
	looks := 0
	run := w.sweep(func(s *retention.Sweep) {
		s.Progress = func(r retention.Run) {
			if looks++; looks > 20 {
				w.count("admitted", 101) // exactly the bound, and below it
				w.count("slow", 1)
				return
			}
			w.count("admitted", 50)
			w.count("slow", 1)
			if r.Deleted["payloads"] > 0 {
				t.Errorf("it deleted %d payloads while answers were slow", r.Deleted["payloads"])
			}
		}
	})
	if run.PausedSeconds == 0 || run.Deleted["payloads"] != 5 || !run.Complete {
		t.Errorf("the run is %+v, want a pause and 5 deleted payloads", run)
	}
}

func TestSweep_SlowAnswersUntilTheEnd_LeavesTheRest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.receipt("old", 100*day, "processed", "")
	run := w.sweep(func(s *retention.Sweep) {
		s.Within = 200 * time.Millisecond
		s.Progress = func(retention.Run) { w.count("slow", 1) }
	})
	if run.Complete || run.Deleted["payloads"] != 0 {
		t.Errorf("the run is %+v, want that it leaves the payload", run)
	}
	if run := w.sweep(nil); !run.Complete || run.Deleted["payloads"] != 1 {
		t.Errorf("the next run is %+v, want that it deletes the payload", run)
	}
}

// A run that was interrupted continues with its counts.
func TestSweep_Interrupted_Continues(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 6 {
		w.receipt(fmt.Sprint("old-", i), 100*day, "processed", "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, err := w.trySweep(ctx, func(s *retention.Sweep) {
		s.Progress = func(r retention.Run) {
			if r.Deleted["payloads"] >= 2 {
				cancel()
			}
		}
	})
	if !errors.Is(err, context.Canceled) || first.Deleted["payloads"] == 0 || first.Deleted["payloads"] == 6 {
		t.Fatalf("the first attempt: %+v, %v", first, err)
	}
	s := &retention.Sweep{DB: worker(t, w.pool), Ages: ages, Within: time.Hour, Look: time.Millisecond}
	second, err := s.Run(t.Context(), first)
	if err != nil || second.Deleted["payloads"] != 6 || !second.StartedAt.Equal(first.StartedAt) {
		t.Errorf("the second attempt: %+v, %v", second, err)
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if s, err := retention.ReadState(t.Context(), w.pool, 0); err != nil || s != nil {
		t.Fatalf("before the first run: %+v, %v", s, err)
	}
	w.exec(`insert into retention_runs (started_at, ended_at, deleted, paused_seconds, complete, bytes, tables)
		values (now() - interval '91 days', now() - interval '91 days', '{}', 0, true, 1, '{}')`)
	run := w.sweep(nil)
	for range 2 { // an activity may be repeated
		if err := retention.Keep(t.Context(), worker(t, w.pool), run); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.list(`select count(*)::text from retention_runs`); n != "1" {
		t.Errorf("%s runs are stored, want only the new one", n)
	}
	s, err := retention.ReadState(t.Context(), w.pool, 1<<40)
	if err != nil || s == nil || s.Bytes == 0 || s.Tables["receipts"] == 0 || s.GrowthPerDay != nil || s.DiskFullAt != nil || !s.LastRun.Complete {
		t.Fatalf("after the first run: %+v, %v", s, err)
	}
	w.exec(`insert into retention_runs (started_at, ended_at, deleted, paused_seconds, complete, bytes, tables)
		select started_at - interval '1 day' * n, ended_at - interval '1 day' * n, '{}', 0, true, bytes - n * 1000, '{}' from retention_runs, unnest(array[2, 9]) n`)
	s, err = retention.ReadState(t.Context(), w.pool, s.Bytes+5000)
	if err != nil || s.GrowthPerDay == nil || *s.GrowthPerDay != 1000 {
		t.Fatalf("after two days: %+v, %v", s, err)
	}
	if s.DiskFullAt == nil || s.DiskFullAt.Sub(s.MeasuredAt).Round(time.Minute) != 5*day {
		t.Errorf("the disk is full at %v, want five days after %v", s.DiskFullAt, s.MeasuredAt)
	}
	if s, err = retention.ReadState(t.Context(), w.pool, 0); err != nil || s.DiskFullAt != nil {
		t.Errorf("without the size of the disk: %+v, %v", s, err)
	}
}
