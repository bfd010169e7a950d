package schema_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

var silent = slog.New(slog.DiscardHandler)

// emptyDatabase returns the URL of a database that was never migrated. It goes with the server.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	name := strings.ToLower(t.Name() + "_" + rand.Text()[:6])
	if err := schematest.Server(t).EnsureDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return schematest.Server(t).DSN(name)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func wantVersion(t *testing.T, conn *pgx.Conn, want int) {
	t.Helper()
	if got, err := schema.Version(t.Context(), conn); err != nil || got != want {
		t.Errorf("Version() = %d, %v; want %d", got, err, want)
	}
}

func TestMigrate_ManyAtOnce(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t)
	conn := connect(t, dsn)
	wantVersion(t, conn, 0)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			// What a pool reads in a URL is no parameter of the server.
			if err := schema.Migrate(t.Context(), dsn+"&pool_max_conns=8", silent); err != nil {
				t.Errorf("Migrate() = %v", err)
			}
		})
	}
	wg.Wait()
	wantVersion(t, conn, schema.Latest())
}

// PostgreSQL 15 grants nobody but the owner to make tables in public.
func TestMigrate_RoleMayNotCreate_SaysWhatToGrant(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t)
	role := "guest_" + strings.ToLower(rand.Text()[:6])
	conn := connect(t, dsn)
	for _, sql := range []string{`create role ` + role + ` login password 'guest'`, `revoke create on schema public from public`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), `drop role `+role) })
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "guest")
	if err := schema.Migrate(t.Context(), u.String(), silent); err == nil || !strings.Contains(err.Error(), "grant the role that migrates CREATE on schema public") {
		t.Errorf("Migrate() = %v, want what to grant", err)
	}
	if err := schema.Migrate(t.Context(), dsn, silent); err != nil {
		t.Fatal(err)
	}
	// Who only asks need not create anything.
	if _, err := schema.Version(t.Context(), connect(t, u.String())); err == nil || strings.Contains(err.Error(), "CREATE") {
		t.Errorf("Version() = %v, want that it is denied, and no advice about migrations", err)
	}
}

// An upgrade may come with a role of its own, which may create tables and not change those of another.
func TestMigrate_TablesAreAnothers_SaysWhoMayChangeThem(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t)
	conn := connect(t, dsn)
	migrateTo(t, conn, 4)
	role := "guest_" + strings.ToLower(rand.Text()[:6])
	for _, sql := range []string{`create role ` + role + ` login password 'guest'`, `grant create on schema public to ` + role,
		`grant all on all tables in schema public to ` + role} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), `drop owned by `+role+`; drop role `+role) })
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "guest")
	if err := schema.Migrate(t.Context(), u.String(), silent); err == nil || !strings.Contains(err.Error(), "migrate as that one") {
		t.Errorf("Migrate() = %v, want who may", err)
	}
	wantVersion(t, conn, 4)
}

func TestMigrate_NewerDatabase_IsLeftAlone(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	conn := connect(t, dsn)
	newer := schema.Latest() + 1
	if _, err := conn.Exec(t.Context(), "UPDATE schema_version SET version = $1", newer); err != nil {
		t.Fatal(err)
	}
	err := schema.Migrate(t.Context(), dsn, silent)
	if err == nil || !strings.Contains(err.Error(), "use the newer pawl") {
		t.Errorf("Migrate() = %v; want that the database is newer", err)
	}
	wantVersion(t, conn, newer)
}

// A migration that cannot get a lock steps back, so that nobody queues behind it for long, and
// comes again.
func TestMigrate_LockedTable_StepsBackAndComesAgain(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	conn := connect(t, dsn)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	steppedBack := make(signal, 1)
	migrated := make(chan error, 1)
	go func() { migrated <- schema.Migrate(t.Context(), dsn, slog.New(slog.NewTextHandler(steppedBack, nil))) }()
	select {
	case <-steppedBack:
	case err := <-migrated:
		t.Fatalf("Migrate() = %v while the table is locked; want it to wait", err)
	case <-time.After(30 * time.Second):
		t.Fatal("the migration still queues for its lock")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Errorf("Migrate() = %v after the lock was free", err)
	}
}

// signal is a log that tells when the first line is written.
type signal chan struct{}

func (s signal) Write(line []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(line), nil
}

func migrateTo(t *testing.T, conn *pgx.Conn, version int32) {
	t.Helper()
	migrator, err := migrate.NewMigrator(t.Context(), conn, "public.schema_version")
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.LoadMigrations(os.DirFS("migrations")); err != nil {
		t.Fatal(err)
	}
	if err := migrator.MigrateTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
}

// The invoice that wrote a subscription is found by its event, and what was compensated does not stand.
func TestMigrate_StandingInvoices_FromWhatIsHeld(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t)
	conn := connect(t, dsn)
	migrateTo(t, conn, 3)
	if _, err := conn.Exec(t.Context(), `
		insert into subscriptions (mode, id, account, status, fence_at, fence_event) values
			('live', 'sub_1', 'acme', 'active', now(), 'evt_2'), ('live', 'sub_2', 'acme', 'canceled', now(), 'evt_9');
		insert into invoices (mode, id, account, subscription, status, amount, currency, period_start, fence_at, fence_event) values
			('live', 'in_1', 'acme', 'sub_1', 'paid', 1, 'usd', '2026-01-01Z', now(), 'evt_1'),
			('live', 'in_2', 'acme', 'sub_1', 'paid', 1, 'usd', '2026-02-01Z', now(), 'evt_2');
		insert into effects (key, kind, state, receipt_id, event_id, workflow_id, run_id, lease_until) values
			('activate-subscription:stripe:live:in_1', 'activate-subscription', 'compensated', gen_random_uuid(), 'evt_1', 'w', 'r', now()),
			('activate-subscription:stripe:live:in_2', 'activate-subscription', 'done', gen_random_uuid(), 'evt_2', 'w', 'r', now())`); err != nil {
		t.Fatal(err)
	}
	if err := schema.Migrate(t.Context(), dsn, silent); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `
		select concat_ws(' ', id, fence_invoice, to_char(period_start at time zone 'UTC', 'MM')) from subscriptions
		union all select concat_ws(' ', id, stands) from invoices order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"in_1 f", "in_2 t", "sub_1 in_2 02", "sub_2 "}; !slices.Equal(got, want) {
		t.Errorf("held:\ngot  %q\nwant %q", got, want)
	}
}

// A database of the first version keeps what it knows of deliveries.
func TestMigrate_FromFirst_KeepsDeliveries(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t)
	conn := connect(t, dsn)
	migrateTo(t, conn, 1)
	for i, first := range []string{"new", "replay"} {
		id := fmt.Sprintf("00000000-0000-7000-8000-00000000000%d", i)
		if _, err := conn.Exec(t.Context(), `
			insert into receipts (id, source, provider, mode, event_id, id_origin, received_at, body_hash, secret_label, status)
			values ($1, 'github', 'github', 'live', $2, 'header', '2026-01-01T10:00:00Z', '\x01', 'a', 'processed')`, id, first); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `
			insert into deliveries (receipt_id, source, received_at, outcome, body_hash, secret_label) values
			($1, 'github', '2026-01-01T10:00:00Z', $2, '\x01', 'a'), ($1, 'github', '2026-01-01T10:00:05Z', 'duplicate', '\x02', 'b')`, id, first); err != nil {
			t.Fatal(err)
		}
	}
	if err := schema.Migrate(t.Context(), dsn, silent); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `
		select concat_ws(' ', event_id, outcome, to_char(d.received_at at time zone 'UTC', 'SS'), d.body_hash, d.secret_label)
		  from receipts r join deliveries d on d.receipt_id = r.id order by r.id, d.received_at`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`new new 00 \x01 a`, `new duplicate 05 \x02 b`, `replay replay 00 \x01 a`, `replay duplicate 05 \x02 b`}
	if !slices.Equal(got, want) {
		t.Errorf("deliveries:\ngot  %q\nwant %q", got, want)
	}
}

// What was held under a name of before is found under today's: an event that comes again is no new one, and an undo
// finds the task that its invoice opened.
func TestMigrate_NamesOfBefore_AreTodays(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t)
	conn := connect(t, dsn)
	migrateTo(t, conn, 7)
	if _, err := conn.Exec(t.Context(), `
		insert into receipts (id, source, provider, account, mode, event_id, object_id, id_origin, received_at, body_hash, secret_label, status) values
			('00000000-0000-7000-8000-000000000001', 'orders', 'svix', '', 'live', 'held', '', 'header', now(), '', 'a', 'processed'),
			('00000000-0000-7000-8000-000000000002', 'orders', 'svix', '', 'live', 'waits', '', 'header', now(), '', 'a', 'received'),
			('00000000-0000-7000-8000-000000000003', 'orders', 'svix', '', 'live', 'both', '', 'header', now(), '', 'a', 'processed'),
			('00000000-0000-7000-8000-000000000004', 'orders', 'svix', 'orders', 'live', 'both', '', 'header', now(), '', 'a', 'processed'),
			('00000000-0000-7000-8000-000000000005', 'stripe', 'stripe', '', 'live', 'evt_1', 'in_1', 'body', now(), '', 'a', 'dead'),
			('00000000-0000-7000-8000-000000000006', 'stripe', 'stripe', '', 'live', 'evt_2', 'in_2', 'body', now(), '', 'a', 'dead');
		insert into effects (key, kind, state, receipt_id, event_id, workflow_id, run_id, lease_until) values
			('onboarding-task:stripe:live:a:2026-01-01', 'onboarding-task', 'done', '00000000-0000-7000-8000-000000000005', 'evt_1', 'w', 'r', now()),
			('onboarding-task:stripe:live:b:2026-01-01', 'onboarding-task', 'done', '00000000-0000-7000-8000-000000000006', 'evt_2', 'w', 'r', now()),
			('onboarding-task:stripe:live:b:2026-01-01:in_2', 'onboarding-task', 'done', '00000000-0000-7000-8000-000000000006', 'evt_2', 'w', 'r', now());
		insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at) values
			('onboarding-task:stripe:live:a:2026-01-01', 1, '00000000-0000-7000-8000-000000000005', 'r', 1, 'done', now());
		insert into onboarding_tasks (mode, account, period_start, state, title, effect_key) values
			('live', 'a', '2026-01-01Z', 'open', '', 'onboarding-task:stripe:live:a:2026-01-01'),
			('live', 'b', '2026-01-01Z', 'open', '', 'onboarding-task:stripe:live:b:2026-01-01')`); err != nil {
		t.Fatal(err)
	}
	if err := schema.Migrate(t.Context(), dsn, silent); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `
		select concat_ws(' ', provider, account, event_id) from receipts union all select 'effect ' || key from effects
		union all select 'attempt ' || key from effect_attempts union all select 'task ' || effect_key from onboarding_tasks`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"attempt onboarding-task:stripe:live:a:2026-01-01:in_1",
		"effect onboarding-task:stripe:live:a:2026-01-01:in_1",
		"effect onboarding-task:stripe:live:b:2026-01-01", // a reset has made the other one
		"effect onboarding-task:stripe:live:b:2026-01-01:in_2",
		"stripe  evt_1", "stripe  evt_2",
		"svix  both", "svix  waits", "svix orders both", "svix orders held",
		"task onboarding-task:stripe:live:a:2026-01-01:in_1",
		"task onboarding-task:stripe:live:b:2026-01-01:in_2",
	}
	slices.Sort(got) // bytewise, whatever the database's collation is
	if !slices.Equal(got, want) {
		t.Errorf("held:\ngot  %q\nwant %q", got, want)
	}
}

// What decides "once" must not depend on the order of a language, which an upgrade of the system changes.
func TestMigrate_KeysCompareBytes(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t)
	conn := connect(t, dsn)
	if err := schema.Migrate(t.Context(), dsn, silent); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `
		select concat_ws(' ', i.indexrelid::regclass, a.attname, c.collname)
		  from pg_index i
		  cross join unnest(i.indkey::int[], i.indcollation::oid[]) as k(attribute, compared)
		  join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attribute
		  join pg_collation c on c.oid = k.compared
		 where i.indexrelid in ('receipts_event'::regclass, 'effects_pkey'::regclass, 'effect_attempts_key'::regclass)
		 order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	// A mode is one of two words.
	want := []string{"effect_attempts_key key C", "effects_pkey key C",
		"receipts_event account C", "receipts_event event_id C", "receipts_event mode default", "receipts_event provider C"}
	if !slices.Equal(got, want) {
		t.Errorf("collations:\ngot  %q\nwant %q", got, want)
	}
}
