package receipt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A commit hangs because a synchronous standby is down, so its outcome is unknown. Insert fails in time, and the next
// attempt finds the row. The test is not parallel, because the setting applies to the whole server.
func TestInsert_CommitInDoubt(t *testing.T) {
	config, err := pgxpool.ParseConfig(schematest.NewDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	const timeout = 2 * time.Second
	s := receipt.NewStore(pool, receipt.Options{Timeout: timeout})
	t.Cleanup(s.Close)
	mustInsert(t, s, delivery(event("before")))

	standby := func(name string) {
		t.Helper()
		for _, sql := range []string{`alter system set synchronous_standby_names = '` + name + `'`, `select pg_reload_conf()`} {
			if _, err := pool.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	standby("ghost")
	// The setting takes effect when the checkpointer has read it. No statement shows this moment, so the test inserts
	// events until a commit hangs.
	deadline := time.Now().Add(20 * time.Second)
	id := ""
	for i := 0; id == ""; i++ {
		next := fmt.Sprint("evt_", i)
		begin := time.Now()
		if _, err := s.Insert(t.Context(), delivery(event(next))); err != nil {
			id = next
		}
		if took := time.Since(begin); took > 2*timeout {
			t.Errorf("an insert with a hanging commit took %s, want an error after %s", took, timeout)
		}
		if time.Now().After(deadline) {
			t.Fatal("no commit hung")
		}
	}
	// The row of that event exists. If a delivery finds the row locked, it writes nothing, so it does not wait for
	// the standby.
	holder, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for locked := int64(0); locked == 0; {
		tag, err := holder.Exec(t.Context(), `select from receipts where event_id = $1 for update`, id)
		if locked = tag.RowsAffected(); err != nil || time.Now().After(deadline) {
			t.Fatalf("the row is not there: %v", err)
		}
	}
	if out, err := s.Insert(t.Context(), delivery(event(id))); err == nil {
		t.Errorf("a commit in doubt, found locked: %+v, want an error", out[0])
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	standby("")
	for {
		out, err := s.Insert(t.Context(), delivery(event(id)))
		if err == nil {
			if !out[0].Duplicate {
				t.Errorf("next try: %+v, want a duplicate: the row was committed after all", out[0])
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still failing: %v", err)
		}
	}
}
