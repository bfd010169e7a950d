package receipt_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A commit that hangs (a synchronous standby that is gone) is in doubt: Insert fails in time, and
// the next try finds the row. Not parallel: the setting is the whole server's.
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
		for deadline := time.Now().Add(10 * time.Second); ; {
			if count(t, pool, `select (current_setting('synchronous_standby_names') = '`+name+`')::int`) == 1 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("the server did not take the setting")
			}
		}
	}
	standby("ghost")
	begin := time.Now()
	_, err = s.Insert(t.Context(), delivery(event("evt_1")))
	if took := time.Since(begin); err == nil || took > 2*timeout {
		t.Errorf("got %v after %s, want an error after %s", err, took, timeout)
	}
	standby("")
	if out := mustInsert(t, s, delivery(event("evt_1")))[0]; !out.Duplicate {
		t.Errorf("next try: %+v, want a duplicate: the row was committed after all", out)
	}
}
