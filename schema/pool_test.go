package schema_test

import (
	"context"
	"log/slog"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

// settingsOf returns the settings of the sessions of a pool for dsn.
func settingsOf(t *testing.T, dsn string, use schema.Use) map[string]string {
	t.Helper()
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	schema.Bound(options, use)
	pool, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return settings(t, pool)
}

// settings returns the settings of [schema.Bounds] and [schema.Handling].
func settings(t *testing.T, db schema.Querier) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, list := range []schema.Settings{schema.Bounds, schema.Handling} {
		for name := range list {
			value, err := schema.One[string](t.Context(), db, "read "+name, `select current_setting($1)`, name)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = value
		}
	}
	return found
}

// No session waits long for a lock, and the locks of a disconnected session are released soon.
func TestBound_EveryUse_HasItsSettings(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	handling := maps.Clone(schema.Bounds)
	maps.Copy(handling, schema.Handling)
	asking := maps.Clone(schema.Bounds)
	maps.Copy(asking, map[string]string{
		"lock_timeout": "5s", "statement_timeout": "0", "plan_cache_mode": "force_custom_plan",
		"enable_seqscan": "on", "enable_hashjoin": "on", "enable_mergejoin": "on", "jit": "off",
	})
	own := maps.Clone(handling)
	own["lock_timeout"] = "1s"
	through := maps.Clone(asking) // a pooler must not receive these settings
	maps.Copy(through, map[string]string{
		"lock_timeout": "0", "idle_in_transaction_session_timeout": "0", "plan_cache_mode": "auto", "jit": "on",
		"tcp_keepalives_idle": "7200", "tcp_keepalives_interval": "75", "tcp_keepalives_count": "9", "tcp_user_timeout": "0",
	})
	for name, c := range map[string]struct {
		dsn  string
		use  schema.Use
		want map[string]string
	}{
		"handles events":       {dsn, schema.Handle, handling},
		"asks for a person":    {dsn, schema.Asking, asking},
		"the URL says its own": {dsn + "&lock_timeout=1s", schema.Handle, own},
		"through a pooler":     {dsn + "&default_query_exec_mode=cache_describe", schema.Handle, through},
	} {
		got := settingsOf(t, c.dsn, c.use)
		for setting, want := range c.want {
			if got[setting] != want {
				t.Errorf("%s: %s is %q, want %q", name, setting, got[setting], want)
			}
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

// Behind a pooler, the server sets the settings of a session by its role.
func TestSetRoles_SessionsHaveTheirs(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	admin := connect(t, dsn)
	var database string
	if err := admin.QueryRow(t.Context(), `select current_database()`).Scan(&database); err != nil {
		t.Fatal(err)
	}
	role := "worker of " + database
	if _, err := admin.Exec(t.Context(), `create role "`+role+`" login`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), `drop owned by "`+role+`"; drop role "`+role+`"`); err != nil {
			t.Error(err)
		}
	})
	for range 2 { // a second call changes nothing
		if err := schema.SetRoles(t.Context(), dsn, schema.Roles{Worker: []string{role}}, quiet); err != nil {
			t.Fatal(err)
		}
	}
	pooler := dsn + "&default_query_exec_mode=cache_describe"
	person := settingsOf(t, pooler, schema.Handle)
	for setting, want := range schema.Bounds {
		if person[setting] != want {
			t.Errorf("who migrates: %s is %q, want %q", setting, person[setting], want)
		}
	}
	if person["statement_timeout"] != "0" || person["enable_seqscan"] != "on" {
		t.Errorf("who migrates has %v: those are for ingress and worker", person)
	}
	var stored []string
	if err := admin.QueryRow(t.Context(), `select setconfig from pg_db_role_setting s join pg_roles r on r.oid = s.setrole where rolname = $1`, role).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if len(stored) != len(schema.Bounds)+len(schema.Handling) {
		t.Errorf("the role has %v", stored)
	}
	if err := schema.SetRoles(t.Context(), dsn, schema.Roles{Ingress: []string{"nobody of that name"}}, quiet); err == nil {
		t.Error("a role that there is not was bound")
	}
}
