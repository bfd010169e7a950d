package schema_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

// foundSQL reports whether the owner has created the table "mark", and whether a function of the owner is a trigger of
// a temporary table.
const foundSQL = `
select to_regclass('public.mark') is not null,
       exists (select from pg_trigger g join pg_class c on c.oid = g.tgrelid join pg_proc p on p.oid = g.tgfoid
                where p.prosecdef and c.relpersistence = 't')`

// attack returns a migrated database with the roles. If temporary is set, each role may create temporary tables; by
// default only some roles may.
func attack(t *testing.T, temporary bool) *pgxpool.Pool {
	t.Helper()
	owner := schematest.New(t)
	run(t, owner, decision("first", "note-task", "in_1", "{}"))
	if temporary {
		run(t, owner, `do $$ begin execute format('grant temporary on database %I to public', current_database()); end $$`)
	}
	return owner
}

func run(t *testing.T, db schema.Execer, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// TestRoles_Attacked_RunNothingAsTheOwner runs known ways in which a role can make the owner run the role's code: it
// uses a function of the owner as a trigger of its own table, it shadows a table of pawl by a temporary table, or it
// shadows a type of Postgres by a temporary type. Each attack tries to make the owner create the table "mark".
func TestRoles_Attacked_RunNothingAsTheOwner(t *testing.T) {
	const mark = `create function pg_temp.mark() returns boolean language plpgsql as $$ begin
		if current_user = session_user then create table public.mark (); end if; return true; exception when insufficient_privilege then return true; end $$`
	ways := map[string][]string{
		"a function of the owner's on a table of the role's": {
			`create temporary table t (state text, mode text, kind text, object text, account text, title text, due_by timestamptz, reminded int, effect_key text, action text, target text, id bigint)`,
			`do $$ declare f regproc; begin
				for f in select oid from pg_proc where prosecdef and prorettype = 'trigger'::regtype loop
					execute format('create trigger by_%I after insert on t for each row execute function %s()', f, f);
				end loop; end $$`,
		},
		"a temporary table in front of the outbox": {
			mark, `create temporary table outbox (like public.outbox including all)`,
			`alter table pg_temp.outbox add check (pg_temp.mark())`,
			`insert into public.tasks (mode, kind, object, state, title, effect_key) values ('live', 'k', current_user, 'open', 't', 'e')`,
		},
		"a temporary type in front of xid": {
			mark, `create domain pg_temp.xid as pg_catalog.xid check (pg_temp.mark())`,
			`do $$ declare f regprocedure; begin
				for f in select oid::regprocedure from pg_proc where prosecdef and pronargs = 2 and proname = 'decides' loop
					execute 'select public.decides('''', '''')';
				end loop; end $$`,
		},
	}
	for _, temporary := range []bool{false, true} {
		t.Run(map[bool]string{false: "as granted", true: "with temporary tables"}[temporary], func(t *testing.T) {
			owner := attack(t, temporary)
			for as, role := range roles {
				if as == "PUBLIC" {
					continue
				}
				for name, statements := range ways {
					try(t, owner, role, statements)
					var marked, attached bool
					err := owner.QueryRow(t.Context(), foundSQL).Scan(&marked, &attached)
					if err != nil || marked || attached {
						t.Errorf("as %s, %s: the owner ran code of the role: %t, or would: %t, %v", as, name, marked, attached, err)
					}
					run(t, owner, `drop table if exists public.mark`)
				}
			}
		})
	}
}

// try runs statements with the privileges of role. The session user is the owner, and current_user shows the user who
// runs a function.
func try(t *testing.T, owner *pgxpool.Pool, role string, statements []string) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), owner.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	run(t, conn, `set role `+role)
	for _, sql := range statements {
		_, err := conn.Exec(t.Context(), sql)
		if pg, is := errors.AsType[*pgconn.PgError](err); err != nil && (!is || !slices.Contains(refusals, pg.Code)) {
			t.Errorf("as %s: %v: %s", role, err, sql)
		}
	}
}

// refusals are the error codes of a failed attack: insufficient_privilege, and the missing schema, table or function of
// an attack that failed earlier.
var refusals = []string{"42501", "3F000", "42P01", "42883"}

const receiptID = "01890000-0000-7000-8000-000000000001"

func decision(request, action, target, after string) string {
	return `insert into operator_actions (request_id, actor, action, target, reason, before, after, prev_hash, hash)
		values ('` + request + `', 'ada', '` + action + `', '` + target + `', 'why', '{"source":"stripe"}', '` + after + `', '` + request + `', '')`
}

// TestRoles_Attacked_ForgeAndEraseNothing runs operations that the roles of a console and of a worker were once able to
// do without an entry in the audit trail: change the hash of a token, turn a running job into another decision, erase
// payloads, edit the access and the money of accounts, forge facts, and block later decisions by a row with a chosen
// ID.
func TestRoles_Attacked_ForgeAndEraseNothing(t *testing.T) {
	t.Parallel()
	owner := schematest.New(t)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
			values ('` + receiptID + `', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'processed')`,
		`insert into receipt_bodies (receipt_id, headers, body) values ('` + receiptID + `', '{}', 'secret')`,
		`insert into tokens (name, hash, role, made_by) values ('shop', sha256(''), 'admin', 'ada')`,
		`insert into jobs (id, action, filter, who, why, rate, state, items) values ('j', 'retry', '{}', 'ada', 'w', 1, 'running', 1)`,
		`insert into accounts (mode, id, provider) values ('live', 'acme', 'stripe')`,
		decision("first", "note-task", "in_1", "{}"),
	} {
		run(t, owner, sql)
	}
	withNumber := `insert into operator_actions (id, request_id, actor, action, target, reason, prev_hash, hash)
		overriding system value values (9e15::bigint, 'x', 'eve', 'retry', 'x', 'x', 'x', 'x')`
	nobody := []string{withNumber,
		`update operator_actions set actor = 'eve'`, `delete from operator_actions`, `truncate operator_actions`,
		`update facts set data = '{}'`, `delete from facts`, `update tokens set hash = sha256('eve')`, `update tokens set role = 'admin'`,
		`update jobs set action = 'skip'`, `update jobs set who = 'eve'`, `update jobs set filter = '{}'`, `update finance_entries set amount = 1`,
		`insert into operator_actions (request_id, at, actor, action, target, reason, prev_hash, hash) values ('x', '2020-01-01', 'eve', 'x', 'x', 'x', 'x', 'x')`,
		`delete from receipts`, `delete from effects`, `delete from accounts`, `delete from tokens`, `delete from finance_entries`,
		`update console_requests set at = now()`, `update schema_version set version = 0`, `drop table facts`, `create table mine ()`,
		`set session_replication_role = replica`, `alter role current_user superuser`, `set role pawl`, `select rolpassword from pg_authid`,
	}
	console := []string{
		`delete from receipt_bodies`, `update receipt_bodies set body = ''`, `insert into receipt_bodies (receipt_id) values ('` + receiptID + `')`,
		`select body from receipt_bodies`, `select headers from receipt_bodies`, `select * from bodies`, `select request from effects`,
		`select body from rejections`, `select headers from rejections`, `select * from addresses`, `copy receipt_bodies to stdout`,
		`update accounts set target_plan = 'enterprise'`, `update invoices set status = 'paid'`, `update subscriptions set plan = 'x'`,
		`update outbox set published_at = now()`, `insert into facts (object) values ('x')`, `insert into tokens (name) values ('x')`,
		`insert into jobs (id) values ('x')`, `update jobs set state = 'cancelled'`, `update receipts set status = 'received'`,
		`insert into receipts (event_id) values ('x')`, `insert into pauses (kind) values ('sink')`, `update tasks set state = 'done'`,
		`insert into pending_decisions (id) values ('x')`, `delete from pending_decisions`, `update tokens set revoked_at = null`,
		`update effects set state = 'done'`, `insert into billing_rules_changes (hash) values ('x')`, decision("own", "approve", "evt_1", "{}"),
		`insert into console_requests (id, at, kind, input) values (gen_random_uuid(), now(), 'decide', '{}')`,
		`update console_requests set answer = '{}'`, `delete from console_requests`, `select input from console_requests`,
		`create temporary table t ()`,
	}
	for as, statements := range map[string][]string{"worker": nobody, "ingress": slices.Concat(nobody, console)[1:],
		"console": slices.Concat(nobody, console), "reader": slices.Concat(nobody, console)} {
		conn := asRole(t, owner, roles[as])
		for _, sql := range statements {
			if as == "ingress" && slices.Contains(ingressMay, sql) {
				continue
			}
			err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), sql)
				return err
			})
			if pg, is := errors.AsType[*pgconn.PgError](err); !is || pg.Code != "42501" {
				t.Errorf("as %s: %v, want that the role may not: %s", as, err, sql)
			}
		}
	}
}

// ingressMay lists statements that an ingress may run, and a console may not.
var ingressMay = []string{`update receipt_bodies set body = ''`, `insert into receipt_bodies (receipt_id) values ('` + receiptID + `')`,
	`select body from rejections`, `select headers from rejections`, `update receipts set status = 'received'`,
	`insert into receipts (event_id) values ('x')`, `create temporary table t ()`}

// asRole returns a connection of a role.
func asRole(t *testing.T, owner *pgxpool.Pool, role string) *pgx.Conn {
	t.Helper()
	options := owner.Config().ConnConfig
	options.User, options.Password = role, role
	conn, err := pgx.ConnectConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
