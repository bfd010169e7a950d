package job_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

// rig contains the job store of a test database.
type rig struct {
	*job.Store
	pool *pgxpool.Pool
}

func setup(t *testing.T) rig {
	t.Helper()
	t.Parallel()
	pool := schematest.New(t)
	return rig{job.New(pool), pool}
}

func retry(id string) job.Job {
	return job.Job{ID: id, Action: "retry", Filter: map[string]string{"status": "dead"}, Actor: "ada", Reason: "finance is back", Rate: 5, Money: map[string]int64{"usd": 100}}
}

func items(n int) []job.Item {
	list := make([]job.Item, n)
	for i := range list {
		list[i] = job.Item{Target: uuid.NewString(), Name: fmt.Sprintf("evt_%d", i)}
	}
	return list
}

// make creates a job in its own transaction.
func (r rig) make(t *testing.T, j job.Job, items []job.Item) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error { return job.MakeIn(t.Context(), tx, j, items) })
}

// move changes the state of a job in its own transaction.
func (r rig) move(t *testing.T, id string, to job.State, from ...job.State) (j *job.Job, moved bool, err error) {
	t.Helper()
	err = pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) (err error) {
		j, moved, err = job.MoveIn(t.Context(), tx, id, to, "by ada", from...)
		return err
	})
	return j, moved, err
}

func TestMake_SameIDTwice_OneJobWithItsItems(t *testing.T) {
	r := setup(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = r.make(t, retry("x"), items(3)) })
	}
	wg.Wait()
	news := 0
	for _, err := range errs {
		if err == nil {
			news++
		}
	}
	all, err := r.Items(t.Context(), "x", "", 50)
	if err != nil || news != 1 || len(all) != 3 {
		t.Errorf("%d calls made the job, with %d items, %v; want one, with 3", news, len(all), err)
	}
	j, err := r.Get(t.Context(), "x")
	if err != nil || j.Items != 3 || j.State != job.Running || j.Money["usd"] != 100 || j.Filter["status"] != "dead" {
		t.Errorf("made %+v, %v", j, err)
	}
	if _, err := r.Get(t.Context(), "y"); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("y: %v, want none", err)
	}
}

// If an item cannot be written, no job is created, and the next call with the same ID creates the job.
func TestMake_ItemRefused_NoJob(t *testing.T) {
	jobs := setup(t)
	twice := items(1)
	if err := jobs.make(t, retry("x"), append(twice, twice...)); err == nil {
		t.Fatal("a job was made that has an event twice")
	}
	if err := jobs.make(t, retry("x"), twice); err != nil {
		t.Errorf("created again: %v", err)
	}
}

func TestEnd_EachItemOnce_CountedAndFinished(t *testing.T) {
	jobs := setup(t)
	all := items(4)
	if err := jobs.make(t, retry("x"), all); err != nil {
		t.Fatal(err)
	}
	end := func(i int, r job.Result, note string) {
		t.Helper()
		if err := jobs.End(t.Context(), "x", all[i].Target, r, note); err != nil {
			t.Fatal(err)
		}
	}
	end(0, job.Done, "")
	end(0, job.Failed, "too late: the first result stays")
	end(1, job.Refused, "not parked")
	if err := jobs.Tried(t.Context(), "x", all[2].Target, "nobody answered"); err != nil {
		t.Fatal(err)
	}
	j, err := jobs.Finish(t.Context(), "x")
	if err != nil || j.State != job.Running || j.Done != 1 || j.Refused != 1 || j.Failed != 0 || j.Left() != 2 {
		t.Errorf("two are left: %+v, %v", j, err)
	}
	// Items with failed attempts come last.
	open, err := jobs.Take(t.Context(), "x", 10)
	if err != nil || len(open) != 2 || open[0].Name != "evt_3" || open[1].Name != "evt_2" || open[1].Attempts != 1 {
		t.Errorf("open: %+v, %v", open, err)
	}
	end(2, job.Failed, "nobody answered")
	end(3, job.Done, "")
	j, err = jobs.Finish(t.Context(), "x")
	if err != nil || j.State != job.Finished || j.FinishedAt == nil || j.Done != 2 || j.Failed != 1 || j.Left() != 0 {
		t.Errorf("all have a result: %+v, %v", j, err)
	}
	list, err := jobs.Items(t.Context(), "x", "", 50)
	if err != nil || list[0].Result != job.Failed || list[1].Result != job.Refused || list[1].Note != "not parked" {
		t.Errorf("items %+v, %v", list, err)
	}
	if refused, err := jobs.Items(t.Context(), "x", "refused", 50); err != nil || len(refused) != 1 {
		t.Errorf("refused: %+v, %v", refused, err)
	}
}

func TestMove_OnlyFromTheStatesNamed(t *testing.T) {
	jobs := setup(t)
	if err := jobs.make(t, retry("x"), items(2)); err != nil {
		t.Fatal(err)
	}
	move := func(to job.State, want bool, from ...job.State) {
		t.Helper()
		j, moved, err := jobs.move(t, "x", to, from...)
		if err != nil || moved != want || want && j.State != to {
			t.Errorf("to %s: %t, %+v, %v; want %t", to, moved, j, err, want)
		}
	}
	taken := func(want int) {
		t.Helper()
		if open, err := jobs.Take(t.Context(), "x", 10); err != nil || len(open) != want {
			t.Errorf("taken %+v, %v; want %d", open, err, want)
		}
	}
	taken(2)
	move(job.Running, false, job.Paused)
	move(job.Paused, true, job.Running)
	taken(0)
	if open, err := jobs.Open(t.Context()); err != nil || len(open) != 1 || open[0].StateNote != "by ada" {
		t.Errorf("open jobs %+v, %v", open, err)
	}
	move(job.Running, true, job.Paused)
	move(job.Cancelled, true, job.Running, job.Paused)
	taken(0)
	move(job.Running, false, job.Running, job.Paused)
	if open, err := jobs.Open(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open jobs %+v, %v", open, err)
	}
	if _, _, err := jobs.move(t, "y", job.Paused, job.Running); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("of no job: %v", err)
	}
}

func TestStanding_HowTheEventsAreNow(t *testing.T) {
	jobs := setup(t)
	all := items(3)
	for i, now := range [][2]string{{"processed", ""}, {"dead", "effect_failed: x"}, {"dead", "effect_failed: y"}} {
		if _, err := jobs.pool.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, received_at, body_hash, status, reason)
			values ($1, 's', 'stripe', 'live', $2, 'id', now(), '\x01', $3, $4)`, all[i].Target, all[i].Name, now[0], now[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := jobs.make(t, retry("x"), all); err != nil {
		t.Fatal(err)
	}
	for i, r := range []job.Result{job.Done, job.Done, job.Refused} {
		if err := jobs.End(t.Context(), "x", all[i].Target, r, ""); err != nil {
			t.Fatal(err)
		}
	}
	got, err := jobs.Standing(t.Context(), "x")
	if want := "[{dead effect_failed 1} {processed  1}]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("standing %v, %v; want %s", got, err, want)
	}
}
