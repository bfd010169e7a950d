package schema_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

// takenOver is what somebody has who has taken over a console's process: its database role, and no code of ours.
type takenOver struct {
	t           *testing.T
	owner, role *pgxpool.Pool
}

func takeOver(t *testing.T) *takenOver {
	t.Helper()
	owner := schematest.New(t)
	options := owner.Config()
	options.ConnConfig.User, options.ConnConfig.Password = schematest.Console, schematest.Console
	role, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(role.Close)
	c := &takenOver{t, owner, role}
	c.as(owner, `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
		values ('`+receiptID+`', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'processed')`,
		`insert into receipt_bodies (receipt_id, headers, body) values ('`+receiptID+`', '{}', 'secret')`,
		`insert into rejections (id, source, received_at, class, headers, body) values ('`+rejectionID+`', 'stripe', now(), 'x', '{}', 'secret')`,
		`insert into accounts (mode, id, provider) values ('live', 'acme', 'stripe')`,
		fact("event", "evt_1"), decision("first", "note-task", "in_1", "{}"))
	return c
}

const (
	receiptID   = "01890000-0000-7000-8000-000000000001"
	rejectionID = "01890000-0000-7000-8000-000000000002"
)

func fact(origin, event string) string {
	return `insert into facts (provider, mode, kind, object, event_id, receipt_id, occurred_at, rank, origin, data)
		values ('stripe', 'live', 'invoice_seen', 'in_1', '` + event + `', '` + receiptID + `', now(), 1, '` + origin + `', '{}')`
}

func decision(request, action, target, after string) string {
	return `insert into operator_actions (request_id, actor, action, target, reason, before, after, prev_hash, hash)
		values ('` + request + `', 'ada', '` + action + `', '` + target + `', 'why', '{"source":"stripe"}', '` + after + `', '` + request + `', '')`
}

// as runs statements, each by itself.
func (c *takenOver) as(db *pgxpool.Pool, statements ...string) {
	c.t.Helper()
	for _, sql := range statements {
		if _, err := db.Exec(c.t.Context(), sql); err != nil {
			c.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// in runs statements in one transaction and commits it.
func (c *takenOver) in(statements ...string) error {
	return pgx.BeginFunc(c.t.Context(), c.role, func(tx pgx.Tx) error {
		for _, sql := range statements {
			if _, err := tx.Exec(c.t.Context(), sql); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *takenOver) refused(statements ...string) {
	c.t.Helper()
	if err := c.in(statements...); err == nil || !strings.Contains(err.Error(), "42501") {
		c.t.Errorf("%q: %v, want that the role may not", statements, err)
	}
}

func (c *takenOver) taken(statements ...string) {
	c.t.Helper()
	if err := c.in(statements...); err != nil {
		c.t.Errorf("%q: %v", statements, err)
	}
}

func TestConsole_TakenOver_ChangesNothingPastTheTrail(t *testing.T) {
	t.Parallel()
	c := takeOver(t)
	for _, sql := range []string{
		`update facts set data = '{}'`, `delete from facts`, `update effects set state = 'done'`, `delete from effects`,
		`insert into effects (key) values ('k')`, `update effect_attempts set error = ''`, `delete from effect_attempts`,
		`update operator_actions set actor = 'eve'`, `delete from operator_actions`, `truncate operator_actions`, `update looks set who = 'eve'`,
		`delete from looks`, `delete from receipts`, `delete from receipt_bodies`, `delete from accounts`, `delete from tokens`, `delete from jobs`,
		`insert into finance_entries (effect_key) values ('k')`, `update finance_entries set amount = 1`, `insert into meanings (hash) values ('x')`,
		`insert into looks (what, who, why, xid) values ('` + receiptID + `', 'eve', '', '1')`, `insert into readings (id) values ('x')`,
		`update schema_version set version = 0`, `drop table facts`, `alter table facts disable trigger decided`, `create table mine ()`,
		`create or replace function is_console() returns boolean language sql as 'select false'`, `set session_replication_role = replica`,
		`alter role current_user superuser`, `grant all on facts to current_user`, `set role pawl`,
	} {
		if strings.HasPrefix(sql, "grant") {
			_ = c.in(sql) // Postgres warns, and grants nothing
			c.refused(`delete from facts`)
			continue
		}
		c.refused(sql)
	}
	access := `update accounts set target_plan = 'enterprise'`
	c.refused(access)
	c.refused(access, `set constraints all immediate`)
	c.refused(`create temp table operator_actions as select * from public.operator_actions`, access)
	c.refused(`savepoint s`, decision("saved", "x", "x", "{}"), `rollback to s`, access)
	c.refused(fact("operator", "mine"))
	c.refused(decision("told", "hold-account", "acme", "{}"), fact("event", "forged"))
	c.refused(`update receipts set status = 'received'`)
	c.refused(decision("let in", "admit", rejectionID, `{"events":["evt_2"]}`), forged("evt_3"))
	c.refused(`insert into tokens (name, hash, role, made_by) values ('back door', sha256(''), 'admin', 'eve')`)
	c.refused(`insert into pauses (kind, name, who, why) values ('sink', 'finance', 'eve', '')`)
	c.refused(`select forget('cus_1', 'live', array['` + receiptID + `']::uuid[], '{}')`)
	c.refused(decision("other", "forget", "cus_2", "{}"), `select forget('cus_1', 'live', array['`+receiptID+`']::uuid[], '{}')`)
	if n := c.count(`select count(*) from operator_actions`); n != 1 {
		t.Errorf("%d decisions in the trail, want the first alone", n)
	}
	// A decision is not refused, nor a preview, which is rolled back.
	c.taken(decision("held", "hold-account", "acme", "{}"), fact("operator", "mine"), access)
	c.taken(decision("token", "new-token", "shop", "{}"), `insert into tokens (name, hash, role, made_by) values ('shop', sha256(''), 'viewer', 'ada')`)
	c.taken(`update tokens set used_at = now()`)
	c.taken(decision("admitted", "admit", rejectionID, `{"events":["evt_2"]}`))
	c.taken(forged("evt_2"), `insert into receipt_bodies (receipt_id, headers, body) select id, '{}', '' from receipts where event_id = 'evt_2'`)
	if err := c.in(access, fact("event", "previewed"), `no sql, so that it is rolled back`); err == nil || strings.Contains(err.Error(), "42501") {
		t.Errorf("a preview: %v", err)
	}
	c.taken(decision("forgotten", "forget", "cus_1", "{}"), `select forget('cus_1', 'live', array['`+receiptID+`']::uuid[], '{}')`)
	if n := c.count(`select count(*) from receipt_bodies where receipt_id = '` + receiptID + `'`); n != 0 {
		t.Error("the body is not forgotten")
	}
}

func forged(event string) string {
	return `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
		values (gen_random_uuid(), 'stripe', 'stripe', 'live', '` + event + `', 'id', 'invoice.paid', now(), '\x01', 'received')`
}

func (c *takenOver) count(sql string) (n int) {
	c.t.Helper()
	if err := c.owner.QueryRow(c.t.Context(), sql).Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// A row that is not committed could be taken back by whoever has read what it is about.
func TestConsole_TakenOver_ReadsNothingWithoutATrace(t *testing.T) {
	t.Parallel()
	c := takeOver(t)
	body, request := `select body from bodies where receipt_id = '`+receiptID+`'`, `select body from kept_request('`+rejectionID+`')`
	look := func(id string) string {
		return `insert into looks (what, who, why) values ('` + id + `', 'eve', 'curious')`
	}
	for _, sql := range []string{
		`select body from receipt_bodies`, `select * from receipt_bodies`, `select body from held_bodies`, `select receipt_bodies from receipt_bodies`,
		`select octet_length(body) from receipt_bodies`, `copy receipt_bodies to stdout`, `select request from effects`, `select body from rejections`,
		`select headers from rejections`, `select query from rejections`, body, request, `select held_body('` + receiptID + `')`, `select rolpassword from pg_authid`,
	} {
		c.refused(sql)
	}
	for _, read := range []string{body, request} {
		c.refused(look(receiptID), look(rejectionID), read)
		c.refused(`savepoint s`, look(receiptID), look(rejectionID), `release s`, read)
		c.refused(look(receiptID), look(rejectionID), `create temp table looks as select * from public.looks`, read)
	}
	c.taken(look(receiptID), look(rejectionID))
	c.taken(body, request)
	if n := c.count(`select count(*) from looks where role = '` + schematest.Console + `' and who = 'eve'`); n != 2 {
		t.Errorf("%d looks are recorded, want 2", n)
	}
	c.as(c.owner, `update looks set at = at - interval '61 seconds'`)
	c.refused(body)
	c.refused(request)
	var n int
	if err := c.role.QueryRow(t.Context(), `select count(*) from naming('secret')`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d bodies hold a word that is no customer's ID, %v", n, err)
	}
}

func TestConfined_EachRole(t *testing.T) {
	t.Parallel()
	c := takeOver(t)
	for want, db := range map[bool]*pgxpool.Pool{true: c.role, false: c.owner} {
		if role, confined, err := schema.Confined(context.Background(), db); err != nil || confined != want || role == "" {
			t.Errorf("%s is confined: %t, %v", role, confined, err)
		}
	}
}

// A console asks as a person does, also where its connections cannot tell the server so: a list may take longer than an
// event, and reads a table whole where that is best.
func TestSetRoles_Console_AsksAsAPersonDoes(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	if err := schema.SetRoles(t.Context(), dsn, schema.Roles{Console: []string{schematest.Console}}, quiet); err != nil {
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
		t.Errorf("the server tells a console %v", told)
	}
}
