package condition_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// polledAt simulates a Temporal with a task queue that was last polled at this time.
type polledAt struct {
	decide.Temporal
	at  time.Time
	err error
}

func (p polledAt) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueuepb.PollerInfo{{LastAccessTime: timestamppb.New(p.at)}}}, p.err
}

// read returns the conditions of the given kinds, one per line: severity, name, message, detail and command.
func read(t *testing.T, r condition.Reader, kinds ...string) (lines []string) {
	t.Helper()
	found, err := r.ReadAll(t.Context(), kinds...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range found {
		line := string(c.Severity) + " " + c.Name + ": " + c.Message
		if c.Detail != "" {
			line += " (" + c.Detail + ")"
		}
		lines = append(lines, line+" | "+c.Command)
	}
	return lines
}

func exec(t *testing.T, db *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func TestReader_OneLineEach_WithItsCommand(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	exec(t, db,
		`insert into pauses (kind, name, who, why) values ('source', 'shop', 'ada', 'moving'), ('sink', 'destinations:crm', 'ada', 'moving'), ('sink', 'finance:live', 'ada', 'moving')`,
		`insert into pauses (kind, name, who, why, until) values ('sink', 'email:live', 'ada', 'it is over', now())`,
		`insert into rejections (id, source, received_at, class, headers, body)
			select gen_random_uuid(), 'shop', now() - n * interval '1 minute', 'no_matching_signature', '{}', '' from generate_series(1, 12) n`,
		`insert into rejections (id, source, received_at, class, headers, body, admitted_at) values
			(gen_random_uuid(), 'shop', now() - interval '2 hours', 'no_matching_signature', '{}', '', null), (gen_random_uuid(), 'shop', now(), 'missing_header', '{}', '', now()),
			(gen_random_uuid(), 'none', now(), 'unknown_source', '{}', '', null)`,
		`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, attempts, last_error, published_at) values
			(gen_random_uuid(), 'live', 'acme', 'invoice.paid', gen_random_uuid(), 'k', '{}', 7, 'destination crm: answered 503', null),
			(gen_random_uuid(), 'live', 'acme', 'invoice.paid', gen_random_uuid(), 'k', '{}', 0, '', null),
			(gen_random_uuid(), 'live', 'other', 'invoice.paid', gen_random_uuid(), 'k', '{}', 0, '', null),
			(gen_random_uuid(), 'live', 'third', 'invoice.paid', gen_random_uuid(), 'k', '{}', 9, 'destination crm: answered 503', now())`,
		`insert into billing_rules (hash, body, proposed_by, proposed_at) values ('aa', '{}', 'w1', now()), ('bb', '{}', 'w2', now()), ('cc', '{}', 'w3', now() - interval '1 hour')`,
		`insert into billing_rules_changes (hash, who, why, at) values ('bb', 'ada', 'mapped', now() - interval '3 days'), ('aa', 'ada', 'mapped', now() - interval '2 days')`,
	)
	got := read(t, condition.Reader{Operator: &decide.Operator{Verbs: operator.Verbs, DB: db}, Config: &config.Config{}})
	want := []string{
		"ticket rules:proposed:bb: nothing has changed yet: a deployed file contains other billing rules than the active ones: bb (proposed by w2) | rules diff --hash bb",
		"info paused:sink:destinations:crm: destination crm is paused (by ada: moving) | sinks resume destinations:crm --reason REASON",
		"info paused:sink:finance:live: sink finance:live is paused (by ada: moving) | sinks resume finance:live --reason REASON",
		"info paused:source:shop: source shop is paused (by ada: moving) | sources resume shop --reason REASON",
		"info destination:crm: destination crm does not accept events (7 attempts, the last error: answered 503) | sinks check",
		"info rejected:shop:no_matching_signature: source shop: 12 deliveries rejected in the last hour: no secret of the source fits the signature | rejections list --source shop",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The condition for a missing worker begins after an event has waited for one minute, and becomes a page after three
// minutes.
func TestReader_NoWorker(t *testing.T) {
	t.Parallel()
	const page = "page no-worker:pawl: no worker polls the task queue: start pawl worker, or pawl ingress --worker | doctor"
	for name, tt := range map[string]struct {
		status  receipt.Status
		waited  time.Duration
		polled  time.Duration
		fault   error
		message string
	}{
		"no event waits":         {receipt.Processed, 10 * time.Minute, time.Hour, nil, ""},
		"waits for seconds":      {receipt.Processing, 10 * time.Second, time.Hour, nil, ""},
		"waits for two minutes":  {receipt.Processing, 2 * time.Minute, time.Hour, nil, strings.Replace(page, "page", "info", 1)},
		"waits for four minutes": {receipt.Processing, 4 * time.Minute, 2 * time.Minute, nil, page},
		"waits for its workflow": {receipt.Received, 4 * time.Minute, time.Hour, nil, page},
		"a worker polls":         {receipt.Processing, 10 * time.Minute, 0, nil, ""},
		"waits for a person":     {receipt.Dead, 10 * time.Minute, time.Hour, nil, ""},
		"Temporal does not answer": {receipt.Processing, 10 * time.Minute, time.Hour, context.DeadlineExceeded,
			"info no-worker:pawl: Temporal does not answer (no answer in time) | doctor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := schematest.New(t)
			if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, updated_at, dispatch_at)
				values (gen_random_uuid(), 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now() - $2::interval, '\x01', $1, '', now(), now())`, tt.status, tt.waited); err != nil {
				t.Fatal(err)
			}
			o := &decide.Operator{Verbs: operator.Verbs, DB: db, TaskQueue: "pawl", Temporal: polledAt{at: time.Now().Add(-tt.polled), err: tt.fault}}
			if got := strings.Join(read(t, condition.Reader{Operator: o, Config: &config.Config{}}, "no-worker"), "\n"); got != tt.message {
				t.Errorf("got %q, want %q", got, tt.message)
			}
		})
	}
}

// A source without a destination causes a condition after pawl has ignored an event of it.
func TestReader_SourceWithoutDestination(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	o := &decide.Operator{Verbs: operator.Verbs, DB: db, TaskQueue: "pawl"}
	cfg := &config.Config{Sources: map[string]config.Source{
		"github": {Provider: "github"}, "relayed": {Provider: "github"}, "stripe": {Provider: "stripe"},
		"narrow": {Provider: "stripe", Events: []string{"account.updated.never"}},
	}, Destinations: map[string]config.Destination{"crm": {Sources: []string{"relayed"}}}}
	if got := condition.WithoutDestination(cfg); !slices.Equal(got, []string{"github", "narrow"}) {
		t.Errorf("unrouted: %q", got)
	}
	unrouted := func() []string {
		t.Helper()
		return read(t, condition.Reader{Operator: o, Config: cfg}, "unrouted")
	}
	if got := unrouted(); len(got) != 0 {
		t.Errorf("before the first event: %q", got)
	}
	store := receipt.NewStore(db, receipt.Options{})
	t.Cleanup(store.Close)
	if _, err := store.Insert(t.Context(), receipt.Delivery{Source: "github", Provider: "github", ReceivedAt: time.Now(), Events: []receipt.New{{
		Mode: "live", EventID: "d-1", Identity: receipt.ByID, Type: "push", Status: receipt.Ignored, Reason: "type_ignored: push"}}}); err != nil {
		t.Fatal(err)
	}
	if got := unrouted(); !slices.Equal(got, []string{"info unrouted:github: source github has no destination, and each event is ignored: add it to destinations.NAME.sources, or remove it | events list --status ignored --source github"}) {
		t.Errorf("after it: %q", got)
	}
}

// Unbooked money causes one condition per mode and kind, and one per connected account that no source maps. Several
// events about one payment are counted once.
func TestReader_MoneyNotBooked_AmountsByMode(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	exec(t, db,
		`insert into objects (mode, kind, id, state, updated_at) select mode, kind, id, jsonb_build_object('Status', 'succeeded', 'SucceededAt', now(), 'Amount', amount, 'Currency', currency), now() - since
		   from (values ('live', 'payment', 'pi_1', 1500, 'usd', interval '2 hours'), ('live', 'payment', 'pi_2', 500, 'usd', interval '1 hour'), ('live', 'payment', 'pi_3', 900, 'eur', interval '1 hour'),
		                ('live', 'refund', 're_1', 300, 'usd', interval '1 hour'), ('test', 'payment', 'pi_4', 9900, 'usd', interval '1 hour'), ('live', 'payment', 'pi_new', 7700, 'usd', interval '1 second')) t (mode, kind, id, amount, currency, since)`,
		`with told (n, account, mode, type, object, paid, currency) as (
		   values (1, 'acct_9', 'live', 'invoice.paid', 'in_1', 4900, 'usd'), (2, 'acct_9', 'live', 'invoice.payment_succeeded', 'in_1', 4900, 'usd'),
		          (3, 'acct_9', 'live', 'charge.succeeded', 'ch_1', 4900, 'usd'), (4, 'acct_9', 'live', 'charge.succeeded', 'ch_2', 100, 'usd'),
		          (5, 'acct_9', 'live', 'customer.created', 'cus_1', null, ''), (6, 'acct_none', 'live', 'customer.created', 'cus_2', null, ''), (7, 'acct_9', 'test', 'invoice.paid', 'in_2', 700, 'jpy')
		 ), stored as (
		   insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason)
		   select gen_random_uuid(), 'stripe', 'stripe', account, mode, 'evt_' || n, 'id', type, object, now(), '\x01', 'ignored', 'account_not_mapped: it is of no account' from told
		   returning id, event_id)
		 insert into event_subjects (receipt_id, object, main, amount, currency) select id, object, true, paid, currency from told join stored on event_id = 'evt_' || n where paid is not null`,
	)
	cfg := &config.Config{Policy: config.Policy{SubscriptionWait: time.Minute}}
	found, err := condition.Reader{Operator: &decide.Operator{Verbs: operator.Verbs, DB: db}, Config: cfg}.ReadAll(t.Context(), "unassigned", "unmapped")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, c := range found {
		got = append(got, c.Name+": "+c.Message+", "+decide.Sums(c.Money)+" | "+c.Command)
	}
	want := []string{
		"unassigned:live:payment: 3 payments in live mode not booked: no event names the account, 9.00 EUR + 20.00 USD | payments unassigned --mode live",
		"unassigned:live:refund: 1 refund in live mode not booked: no event names the account, 3.00 USD | payments unassigned --mode live",
		"unassigned:test:payment: 1 payment in test mode not booked: no event names the account, 99.00 USD | payments unassigned --mode test",
		"unmapped:live:acct_9: connected account acct_9 is not mapped: 5 events ignored in live mode, 50.00 USD | events list --status ignored --reason-code account_not_mapped --mode live",
		"unmapped:test:acct_9: connected account acct_9 is not mapped: 1 event ignored in test mode, 700 JPY | events list --status ignored --reason-code account_not_mapped --mode test",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
