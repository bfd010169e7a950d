package schema_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

// as returns a pool whose sessions are the role's.
func as(t *testing.T, dsn, role string) *pgxpool.Pool {
	t.Helper()
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	options.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set plan_cache_mode = force_generic_plan; set role "+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// allowed reports whether the pool's role may run sql. It does not run: Postgres looks at that before.
func allowed(t *testing.T, pool *pgxpool.Pool, sql string) bool {
	t.Helper()
	err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		prepared, err := conn.Conn().Prepare(t.Context(), "asked", sql)
		if err != nil {
			return err
		}
		nulls := strings.TrimSuffix(strings.Repeat("null, ", len(prepared.ParamOIDs)), ", ")
		if nulls != "" {
			nulls = "(" + nulls + ")"
		}
		_, err = conn.Exec(t.Context(), "explain execute asked "+nulls, pgx.QueryExecModeSimpleProtocol)
		return errors.Join(err, conn.Conn().Deallocate(t.Context(), "asked"))
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" {
		return false
	}
	if err != nil {
		t.Errorf("%v: %s", err, sql)
	}
	return true
}

// Whoever takes over the process that is open to the network takes over what it may do: it reads and writes what comes
// in, and neither money nor the trail of what operators did. No process may change the schema, nor the trail.
func TestSetRoles_EachProcess_WhatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	owner, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Close(context.Background()) })
	exec := func(sql string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec(`create role grant_ingress; create role grant_worker; create role grant_reader; grant truncate on all tables in schema public to grant_ingress`)
	t.Cleanup(func() {
		_, _ = owner.Exec(context.Background(), `drop owned by grant_ingress, grant_worker, grant_reader; drop role grant_ingress, grant_worker, grant_reader`)
	})
	for range 2 { // it is called at each migration
		if err := schema.SetRoles(t.Context(), dsn, schema.Roles{Ingress: []string{"grant_ingress"}, Worker: []string{"grant_worker", "pawl"}, Reader: []string{"grant_reader"}}, quiet); err != nil {
			t.Fatal(err)
		}
	}
	// The role that migrates may be the worker's, and keeps its rights.
	var kept int
	if err := owner.QueryRow(t.Context(), `select count(*) from pg_class c cross join aclexplode(c.relacl) a
		where c.oid = 'operator_actions'::regclass and a.grantee = c.relowner and a.privilege_type in ('UPDATE', 'DELETE')`).Scan(&kept); err != nil || kept != 2 {
		t.Errorf("the owner has %d of its two rights (%v)", kept, err)
	}
	ingress, worker, reader := as(t, dsn, "grant_ingress"), as(t, dsn, "grant_worker"), as(t, dsn, "grant_reader")
	for _, view := range []string{"accounts", "entries", "events", "features", "invoices", "subscriptions", "tasks"} {
		if !allowed(t, reader, "select * from pawl_"+view) || !allowed(t, worker, "select * from pawl_"+view) {
			t.Errorf("not allowed: pawl_%s", view)
		}
	}
	intake, rest := map[string]string{}, map[string]string{}
	for _, dir := range []string{"receipt", "rejection"} {
		for name, sql := range schematest.Statements(t, dir) {
			intake[name+" "+sql] = sql
		}
	}
	for _, dir := range []string{"look", "ledger", "billing", "outbox", "audit", "timeline", "job"} {
		for name, sql := range schematest.Statements(t, dir) {
			rest[name+" "+sql] = sql
		}
	}
	// An ingress reads no body: what it takes in, a worker reads. Nor does it delete counts.
	ofReceipts, ofRejections := schematest.Statements(t, "receipt"), schematest.Statements(t, "rejection")
	for name, sql := range map[string]string{"body": ofReceipts["body"], "load": ofReceipts["load"],
		"trim counts": ofReceipts["trim counts"], "get": ofRejections["get"]} {
		delete(intake, name+" "+sql)
		if rest[name+" "+sql] = sql; allowed(t, ingress, sql) {
			t.Errorf("allowed to an ingress: %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(intake)) {
		if !allowed(t, ingress, intake[name]) || !allowed(t, worker, intake[name]) {
			t.Errorf("not allowed: %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		if !allowed(t, worker, rest[name]) {
			t.Errorf("not allowed to a worker: %s", name)
		}
	}
	if _, err := schema.Version(t.Context(), ingress); err != nil {
		t.Errorf("an ingress asks for the version: %v", err)
	}
	for sql, who := range map[string][]*pgxpool.Pool{
		`select * from effects`: {ingress, reader}, `select * from addresses`: {reader}, `select * from receipt_bodies`: {reader}, `update effects set state = 'done'`: {ingress}, `select * from accounts`: {ingress, reader}, `select * from pawl_accounts`: {ingress},
		`select body from receipt_bodies`: {ingress}, `delete from receipt_bodies`: {ingress}, `delete from receipts`: {ingress}, `delete from runs`: {ingress},
		`select * from redeliveries`: {ingress}, `delete from redeliveries`: {ingress}, `delete from source_counts`: {ingress},
		`delete from outbox`: {ingress}, `select * from operator_actions`: {ingress},
		`update operator_actions set actor = ''`: {ingress, worker}, `delete from operator_actions`: {ingress, worker},
		`update schema_version set version = 0`: {ingress, worker},
	} {
		for _, pool := range who {
			if allowed(t, pool, sql) {
				t.Errorf("allowed to %s: %s", map[*pgxpool.Pool]string{ingress: "an ingress", worker: "a worker", reader: "a reader"}[pool], sql)
			}
		}
	}
	for _, sql := range []string{`drop table receipts`, `alter table effects add x text`, `truncate receipts`, `create table mine ()`} {
		for _, pool := range []*pgxpool.Pool{ingress, worker} {
			if _, err := pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
				t.Errorf("%s: %v, want that it is not allowed", sql, err)
			}
		}
	}
}
