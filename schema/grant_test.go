package schema_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

// allowed reports whether the role of a connection may run the statement sql. It does not execute the statement,
// because Postgres checks privileges before execution.
func allowed(t *testing.T, conn *pgx.Conn, sql string) bool {
	t.Helper()
	prepared, err := conn.Prepare(t.Context(), "checked", sql)
	if err == nil {
		nulls := strings.TrimSuffix(strings.Repeat("null, ", len(prepared.ParamOIDs)), ", ")
		if nulls != "" {
			nulls = "(" + nulls + ")"
		}
		_, err = conn.Exec(t.Context(), "explain execute checked "+nulls, pgx.QueryExecModeSimpleProtocol)
		err = errors.Join(err, conn.Deallocate(t.Context(), "checked"))
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" {
		return false
	}
	if err != nil {
		t.Errorf("%v: %s", err, sql)
	}
	return true
}

// notOf lists statements that neither a worker nor the command line runs.
var notOf = map[string]string{"session": "people sign in to a console", "request: send": "a console sends requests"}

// TestSetRoles_Statements_EachProcessMayRunItsOwn checks the privileges for each statement of the packages below
// schema.
func TestSetRoles_Statements_EachProcessMayRunItsOwn(t *testing.T) {
	t.Parallel()
	owner := schematest.New(t)
	worker, ingress, console := generic(t, owner, "worker"), generic(t, owner, "ingress"), generic(t, owner, "console")
	packages, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range packages {
		if !dir.IsDir() || dir.Name() == "migrations" || dir.Name() == "testdata" {
			continue
		}
		all := schematest.Statements(t, dir.Name())
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if notOf[dir.Name()] == "" && notOf[dir.Name()+": "+name] == "" && !allowed(t, worker, all[name]) {
				t.Errorf("a worker may not run %q of %s: %s", name, dir.Name(), howTo)
			}
		}
	}
	intake := maps.Clone(schematest.Statements(t, "receipt"))
	maps.Copy(intake, schematest.Statements(t, "rejection"))
	// A worker reads data that an ingress stores, and stores the account of a flow and the money of an event.
	for _, name := range []string{"body", "body size", "load", "trim counts", "get", "admitted", "repeated", "set account", "set paid"} {
		delete(intake, name)
	}
	for _, name := range slices.Sorted(maps.Keys(intake)) {
		if !allowed(t, ingress, intake[name]) {
			t.Errorf("an ingress may not run %q: %s", name, howTo)
		}
	}
	for dir, names := range map[string][]string{"session": slices.Collect(maps.Keys(schematest.Statements(t, "session"))),
		"token": {"find", "used", "list"}, "request": {"send", "answered"}, "audit": {"list", "recorded", "page"}} {
		for _, name := range names {
			if !allowed(t, console, schematest.Statements(t, dir)[name]) {
				t.Errorf("a console may not run %q of %s: %s", name, dir, howTo)
			}
		}
	}
	for _, conn := range []*pgx.Conn{worker, ingress, console} {
		if _, err := schema.Version(t.Context(), conn); err != nil {
			t.Errorf("%s reads the version: %v", conn.Config().User, err)
		}
	}
}

// generic returns a connection with the role of a process, on which Postgres plans statements without knowing the
// parameters.
func generic(t *testing.T, owner *pgxpool.Pool, as string) *pgx.Conn {
	t.Helper()
	conn := asRole(t, owner, roles[as])
	run(t, conn, `set plan_cache_mode = force_generic_plan`)
	return conn
}

// If the role that migrates is also the role of a process, it keeps its privileges.
func TestSetRoles_Migrator_KeepsItsPrivileges(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	if err := schema.SetRoles(t.Context(), dsn, schema.Roles{Worker: []string{"pawl"}}, silent); err != nil {
		t.Fatal(err)
	}
	kept, err := schema.One[int](t.Context(), connect(t, dsn), "count privileges", `
		select count(*) from pg_class c cross join aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
		 where c.oid = 'operator_actions'::regclass and a.grantee = c.relowner and a.privilege_type in ('UPDATE', 'DELETE')`)
	if err != nil || kept != 2 {
		t.Errorf("the owner has %d of its two privileges (%v)", kept, err)
	}
}

// The next migration revokes a privilege that a person granted by hand.
func TestSetRoles_Again_TakesWhatWasAdded(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	owner := connect(t, dsn)
	run(t, owner, `grant truncate, delete, update (hash) on tokens to `+schematest.Console)
	run(t, owner, `grant select on accounts to public`)
	if err := schema.SetRoles(t.Context(), dsn, schema.Roles{Console: []string{schematest.Console}}, silent); err != nil {
		t.Fatal(err)
	}
	left, err := schema.One[bool](t.Context(), owner, "read privileges", `
		select has_table_privilege($1, 'tokens', 'truncate,delete') or has_column_privilege($1, 'tokens', 'hash', 'update')
		    or has_table_privilege('public', 'accounts', 'select')`, schematest.Console)
	if err != nil || left {
		t.Errorf("the privileges are left: %t, %v", left, err)
	}
}

func TestConsole_EachRole(t *testing.T) {
	t.Parallel()
	owner := schematest.New(t)
	for as, want := range map[string]bool{"console": true, "worker": false} {
		role, is, err := schema.Console(t.Context(), asRole(t, owner, roles[as]))
		if err != nil || is != want || role != roles[as] {
			t.Errorf("%s (%s) is a console's role: %t, %v", as, role, is, err)
		}
	}
	if _, is, err := schema.Console(context.Background(), owner); err != nil || is {
		t.Errorf("the owner is a console's role: %t, %v", is, err)
	}
}

// A console's role has the settings for requests of people, even if its connections cannot set them: a list may take
// longer than an event, and may use a sequential scan.
func TestSetRoles_Console_AsksAsAPersonDoes(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	if err := schema.SetRoles(t.Context(), dsn, schema.Roles{Console: []string{schematest.Console}}, silent); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	var told []string
	if err := conn.QueryRow(t.Context(), `select setconfig from pg_db_role_setting where setrole = $1::regrole
		and setdatabase = (select oid from pg_database where datname = current_database())`, schematest.Console).Scan(&told); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(told, " ")
	if !strings.Contains(all, "lock_timeout=5s") || strings.Contains(all, "enable_") || strings.Contains(all, "statement_timeout") {
		t.Errorf("the settings of a console are %v", told)
	}
}

// pawl doctor compares the privileges of the role with this list: a worker's role lacks no privilege, and an ingress'
// role lacks many.
func TestLacksAsWorker_EachRole(t *testing.T) {
	t.Parallel()
	owner := schematest.New(t)
	for as, want := range map[string]bool{"worker": false, "ingress": true, "console": true, "reader": true} {
		lacks, err := schema.LacksAsWorker(t.Context(), asRole(t, owner, roles[as]))
		if err != nil || len(lacks) > 0 != want {
			t.Errorf("the role of %s lacks %v, %v", as, lacks, err)
		}
	}
	if lacks, err := schema.LacksAsWorker(t.Context(), owner); err != nil || len(lacks) > 0 {
		t.Errorf("the owner lacks %v, %v", lacks, err)
	}
}
