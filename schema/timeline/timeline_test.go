package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

func TestMain(m *testing.M) { schematest.Main(m) }

const (
	first  = "00000000-0000-0000-0000-000000000001"
	second = "00000000-0000-0000-0000-000000000002"
	other  = "00000000-0000-0000-0000-000000000003"
)

// setup creates two events of one fact: evt_1 did the effects, and evt_2 found one of them done. A third event has
// the ID of evt_1 in the other mode.
func setup(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db := schematest.New(t)
	exec(t, db, `insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, workflow_id, duplicates) values
		($1, 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', 'in_1', '2026-01-01T10:00:00Z', '\x01', 'processed', 'stripe:evt_1', 1),
		($2, 'stripe', 'stripe', 'live', 'evt_2', 'id', 'invoice.payment_succeeded', 'in_1', '2026-01-01T10:00:05Z', '\x02', 'processed', 'stripe:evt_2', 0),
		($3, 'stripe-test', 'stripe', 'test', 'evt_1', 'id', 'invoice.paid', 'in_9', '2026-01-01T10:00:09Z', '\x03', 'received', '', 0)`, first, second, other)
	exec(t, db, `insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label) values
		($1, 'stripe', '2026-01-01T10:00:04Z', '\x04', 'a')`, first)
	exec(t, db, `insert into runs (workflow_id, run_id, receipt_id, kind, started_at, closed_at, outcome) values
		('stripe:evt_1', 'run-1', $1, 'original', '2026-01-01T10:00:01Z', '2026-01-01T10:00:03Z', 'processed'),
		('stripe:evt_2', 'run-2', $2, 'original', '2026-01-01T10:00:06Z', null, '')`, first, second)
	exec(t, db, `insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, attempts, result, claimed_at, done_at) values
		('receipt-email:stripe:live:in_1', 'receipt-email', 'done', $1, 'evt_1', 'run-1', now(), 2, '{"message":"x"}', '2026-01-01T10:00:01Z', '2026-01-01T10:00:02Z'),
		('onboarding-task:stripe:live:in_1', 'onboarding-task', 'claimed', $2, 'evt_2', 'run-2', now(), 1, null, '2026-01-01T10:00:07Z', null)`, first, second)
	exec(t, db, `insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, ended_at, error) values
		('receipt-email:stripe:live:in_1', 1, $1, 'run-1', 1, 'failed', '2026-01-01T10:00:01Z', '2026-01-01T10:00:01.5Z', '451 try later'),
		('receipt-email:stripe:live:in_1', 1, $1, 'run-1', 2, 'done', '2026-01-01T10:00:01.6Z', '2026-01-01T10:00:02Z', ''),
		('receipt-email:stripe:live:in_1', 1, $2, 'run-2', 2, 'already_done', '2026-01-01T10:00:06Z', '2026-01-01T10:00:06.5Z', 'already done by evt_1')`, first, second)
	exec(t, db, `insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, created_at, delivered_to, published_at) values
		(gen_random_uuid(), 'live', 'acc', 'invoice.paid', $1, 'activate', '{}', '2026-01-01T10:00:02.1Z', '{sandbox}', '2026-01-01T10:00:02.2Z')`, first)
	exec(t, db, `insert into operator_actions (request_id, at, actor, action, target, reason, before, prev_hash, hash) values
		('r1', '2026-01-01T10:01:00Z', 'ada', 'replay', 'evt_1', 'customer asked', jsonb_build_object('receipt', $1::text), '', '')`, first)
	return db
}

func TestStatements(t *testing.T) {
	// A list reads back in time until it has enough rows, and speeds reads up to 1,000 events. A list by source or type
	// uses its index.
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{
		Walks: []string{"list", "sum", "speeds", "took"}, Open: []string{"list kind", "list open", "sum kind", "sum open", "parked", "waiting", "oldest", "failing"},
		Made: timeline.Lists(),
	})
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestShow_OneEvent_WholeStoryInOrder(t *testing.T) {
	t.Parallel()
	event, err := timeline.Show(t.Context(), setup(t), first)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range event.Timeline {
		got = append(got, e.What)
	}
	want := []string{
		"delivered", "received", "run-started", "effect-failed", "effect-done", "event-queued",
		"event-published", "run-closed", "duplicate", "operator-replay",
	}
	if !slices.Equal(got, want) {
		t.Errorf("timeline = %v\nwant       %v", got, want)
	}
	if again := event.Timeline[8]; !strings.Contains(again.Detail, "other bytes, which are not run") {
		t.Errorf("the duplicate with different bytes has %q", again.Detail)
	}
	if len(event.Effects) != 1 {
		t.Fatalf("effects = %+v, want its own one", event.Effects)
	}
	effect := event.Effects[0]
	if effect.State != "done" || effect.Attempts != 2 || effect.DoneBy != "evt_1" || effect.SatisfiedBy != "" || effect.DoneAt == nil {
		t.Errorf("effect = %+v, want an effect that evt_1 did", effect)
	}
	if len(event.Deliveries) != 2 || len(event.Runs) != 1 || event.Receipt.Duplicates != 1 {
		t.Errorf("deliveries %d, runs %d, duplicates %d; want 2, 1, 1", len(event.Deliveries), len(event.Runs), event.Receipt.Duplicates)
	}
	if want := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC); !event.Receipt.ReceivedAt.Equal(want) {
		t.Errorf("received_at = %v, want %v", event.Receipt.ReceivedAt, want)
	}
}

// The timeline contains the outages that delayed the event, from its arrival.
func TestShow_Outages(t *testing.T) {
	t.Parallel()
	db := setup(t)
	exec(t, db, `insert into outages (sink, since, until, reason) values
		('finance', '2026-01-01T09:48:00Z', '2026-01-01T11:20:00Z', 'x'), ('finance', '2026-01-01T12:00:00Z', null, 'x'), ('email', '2026-01-01T09:00:00Z', null, 'x')`)
	exec(t, db, `insert into outage_events (outage, receipt_id, mode) values (1, $1, 'live'), (2, $1, 'live'), (3, $2, 'live')`, first, second)
	event, err := timeline.Show(t.Context(), db, first)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range event.Timeline {
		if e.What == "sink-down" {
			got = append(got, e.At.UTC().Format(time.TimeOnly)+" "+e.Detail)
		}
	}
	want := []string{"10:00:00 waited for finance, which was down from 2026-01-01T09:48:00Z to 2026-01-01T11:20:00Z",
		"12:00:00 waited for finance, which has been down since 2026-01-01T12:00:00Z"}
	if !slices.Equal(got, want) {
		t.Errorf("timeline = %q\nwant       %q", got, want)
	}
}

// The event and its admitted request are linked by source and time. The receipt first belonged to another source,
// which did not want the event.
func TestShow_TakenOver_SaysWhoseBytesCount(t *testing.T) {
	t.Parallel()
	db := setup(t)
	exec(t, db, `insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label, outcome) values
		($1, 'stripe-test', '2026-01-01T09:59:59Z', '\x09', 'b', 'ignored')`, second)
	event, err := timeline.Show(t.Context(), db, second)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range event.Timeline[:2] {
		got = append(got, e.What+" "+e.Detail)
	}
	want := []string{"ignored to stripe-test, signed with b, which ignored the event; these bytes are not run", "delivered to stripe; these bytes are stored and run"}
	if !slices.Equal(got, want) {
		t.Errorf("timeline = %q\nwant       %q", got, want)
	}
	if d := event.Counts(); d.Source != "stripe" || d.BodyHash != event.Receipt.BodyHash {
		t.Errorf("the bytes of %+v count, want the bytes of the delivery to stripe", d)
	}
}

func TestShow_Admitted_SaysWhoLetItIn(t *testing.T) {
	t.Parallel()
	db := setup(t)
	exec(t, db, `insert into operator_actions (request_id, at, actor, action, target, reason, before, prev_hash, hash) values
		('a1', '2026-01-01T11:00:00Z', 'ada', 'admit', 'rejection-1', 'secret mended', '{"source":"stripe","received_at":"2026-01-01T10:00:05Z"}', 'a', 'a'),
		('a2', '2026-01-01T11:00:01Z', 'ada', 'admit', 'rejection-2', 'another source', '{"source":"shop","received_at":"2026-01-01T10:00:05Z"}', 'b', 'b'),
		('a3', '2026-01-01T11:00:02Z', 'ada', 'admit', 'rejection-3', 'another time', '{"source":"stripe","received_at":"2026-01-01T10:00:06Z"}', 'c', 'c')`)
	event, err := timeline.Show(t.Context(), db, second)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range event.Timeline {
		if e.What == "operator-admit" {
			got = append(got, e.Detail)
		}
	}
	if !slices.Equal(got, []string{"ada: secret mended"}) {
		t.Errorf("admitted by %q, want its own admission alone", got)
	}
}

// Providers, accounts and modes can share event IDs, so a decision about one receipt must not be shown for the other
// receipt.
func TestShow_DecisionAboutAnotherOfTheID_NotShown(t *testing.T) {
	t.Parallel()
	db := setup(t)
	exec(t, db, `insert into operator_actions (request_id, at, actor, action, target, reason, before, prev_hash, hash) values
		('d1', '2026-01-01T11:00:00Z', 'ada', 'skip', 'evt_1', 'of the live one', jsonb_build_object('receipt', $1::text), 'a', 'a'),
		('d2', '2026-01-01T11:00:01Z', 'ada', 'run', 'evt_1', 'of the test one', jsonb_build_object('receipt', $2::text), 'b', 'b')`, first, other)
	for id, want := range map[string][]string{
		first: {"ada: customer asked", "ada: of the live one"}, other: {"ada: of the test one"},
	} {
		event, err := timeline.Show(t.Context(), db, id)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range event.Timeline {
			if strings.HasPrefix(e.What, "operator-") {
				got = append(got, e.Detail)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("decisions about %s = %q, want %q", id, got, want)
		}
	}
}

// If a run is reset while it is parked, it does not record its own end.
func TestShow_RunsThatWereReset_EndWhereTheNextBegins(t *testing.T) {
	t.Parallel()
	db := setup(t)
	exec(t, db, `insert into runs (workflow_id, run_id, receipt_id, kind, started_at, closed_at, outcome) values
		('stripe:evt_2', 'run-3', $1, 'reset', '2026-01-01T11:00:00Z', null, ''),
		('stripe:evt_2', 'run-4', $1, 'reset', '2026-01-01T12:00:00Z', null, '')`, second)
	event, err := timeline.Show(t.Context(), db, second)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range event.Runs {
		end := "open"
		if r.ClosedAt != nil {
			end = r.ClosedAt.UTC().Format(time.TimeOnly)
		}
		got = append(got, r.RunID+" "+r.Outcome+" "+end)
	}
	if want := []string{"run-2 reset 11:00:00", "run-3 reset 12:00:00", "run-4  open"}; !slices.Equal(got, want) {
		t.Errorf("runs = %q, want %q", got, want)
	}
}

// An effect that another event claimed is shown as done only if it is done. If an uncertain effect were shown as
// done, operators would not examine it.
func TestShow_EffectMetInDoubt_NotShownAsDone(t *testing.T) {
	t.Parallel()
	db := setup(t)
	const doubt = "the attempt ended after the point of no return and before the answer; it may have happened"
	exec(t, db, `update effects set state = 'skipped', error = 'skipped by ada: seen in the log' where kind = 'receipt-email'`)
	exec(t, db, `delete from effect_attempts`)
	exec(t, db, `insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, ended_at, error) values
		('receipt-email:stripe:live:in_1', 1, $1, 'run-1', 1, 'uncertain', '2026-01-01T10:00:01Z', '2026-01-01T10:00:01.5Z', $3),
		('receipt-email:stripe:live:in_1', 1, $2, 'run-2', 0, 'already_done', '2026-01-01T10:00:06Z', '2026-01-01T10:00:06.5Z', 'uncertain by evt_1')`, first, second, doubt)
	for id, want := range map[string]string{first: "effect-uncertain", second: "effect-already-uncertain"} {
		event, err := timeline.Show(t.Context(), db, id)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(event.Timeline, func(e timeline.Entry) bool { return e.What == want }) {
			t.Errorf("timeline of %s = %+v, want %s", id, event.Timeline, want)
		}
		if !event.Effects[0].MayHaveHappened {
			t.Errorf("effect = %+v, want that it may have happened although it is skipped", event.Effects[0])
		}
	}
}

func TestShow_EffectOfAnotherEvent_SatisfiedBy(t *testing.T) {
	t.Parallel()
	event, err := timeline.Show(t.Context(), setup(t), second)
	if err != nil {
		t.Fatal(err)
	}
	if len(event.Effects) != 2 {
		t.Fatalf("effects = %+v, want the one met and the one claimed", event.Effects)
	}
	met, claimed := event.Effects[0], event.Effects[1]
	if met.Key != "receipt-email:stripe:live:in_1" || met.SatisfiedBy != "evt_1" {
		t.Errorf("first effect = %+v, want the mail, satisfied by evt_1", met)
	}
	if claimed.State != "claimed" || claimed.SatisfiedBy != "" {
		t.Errorf("second effect = %+v, want the receipt's own claim", claimed)
	}
	i := slices.IndexFunc(event.Timeline, func(e timeline.Entry) bool { return e.What == "effect-already-done" })
	if i < 0 || event.Timeline[i].Detail != "receipt-email, by evt_1" || event.Timeline[i].Error != "" {
		t.Errorf("timeline = %+v, want an entry that names evt_1", event.Timeline)
	}
	if !slices.ContainsFunc(event.Timeline, func(e timeline.Entry) bool { return e.What == "effect-claimed" }) {
		t.Errorf("timeline = %+v, want the open claim", event.Timeline)
	}
}

func TestShow_Unknown_NoRows(t *testing.T) {
	t.Parallel()
	_, err := timeline.Show(context.Background(), schematest.New(t), first)
	if !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("err = %v, want schema.ErrNotFound", err)
	}
}

func TestFind_ByEveryName(t *testing.T) {
	t.Parallel()
	db := setup(t)
	const refused, collided = "00000000-0000-0000-0000-000000000004", "00000000-0000-0000-0000-000000000005"
	exec(t, db, `insert into receipts (id, source, provider, mode, event_id, identity, received_at, body_hash, status) values
		($1, 'stripe-test', 'stripe', 'live', 'evt_7~stripe-test', 'id', '2026-01-01T10:00:10Z', '\x04', 'ignored'),
		($2, 'stripe', 'stripe', 'live', 'evt_2~0011223344556677', 'id', '2026-01-01T10:00:11Z', '\x05', 'needs_review')`, refused, collided)
	for id, want := range map[string][]string{
		"evt_1":        {first, other}, // this event ID exists in both modes
		"evt_2":        {second},
		first:          {first},
		"stripe:evt_1": {first},
		"evt_7":        {refused}, // no other receipt has this ID
		"evt_none":     {},
		"":             {},
	} {
		receipts, err := timeline.Find(t.Context(), db, id)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, r := range receipts {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("Find(%q) = %v, want %v", id, got, want)
		}
	}
}

func TestList_Filters(t *testing.T) {
	t.Parallel()
	db := setup(t)
	exec(t, db, `update receipts set reason = 'id_collision: stripe has sent another event under evt_2' where id = $1`, second)
	for _, tt := range []struct {
		filter timeline.Filter
		want   []string
	}{
		{timeline.Filter{}, []string{other, second, first}},
		{timeline.Filter{Limit: 1}, []string{other}},
		{timeline.Filter{Status: "processed"}, []string{second, first}},
		{timeline.Filter{Source: "stripe-test"}, []string{other}},
		{timeline.Filter{Type: "invoice.paid", Status: "processed"}, []string{first}},
		{timeline.Filter{Type: "nothing"}, []string{}},
		{timeline.Filter{ReasonCode: "id_collision"}, []string{second}},
		{timeline.Filter{ReasonCode: "id"}, []string{}},
	} {
		receipts, err := timeline.List(t.Context(), db, tt.filter)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, r := range receipts {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("List(%+v) = %v, want %v", tt.filter, got, tt.want)
		}
	}
}

func TestList_AboutAnObject(t *testing.T) {
	t.Parallel()
	db := setup(t)
	exec(t, db, `insert into event_subjects (receipt_id, object, main, customer, amount, currency) values
		($1, 'in_1', true, 'cus_1', 4900, 'usd'), ($2, 'sub_1', true, 'cus_1', null, null), ($2, 'in_1', false, 'cus_1', null, null)`, first, second)
	exec(t, db, `update receipts set status = 'needs_review' where id = $1`, other)
	for _, tt := range []struct {
		about []string
		want  []string
	}{
		// the list finds an event even if the object is not its main subject
		{[]string{"in_1"}, []string{second, first}},
		{[]string{"cus_1"}, []string{second, first}},
		{[]string{"in_9"}, []string{other}}, // parked, and published no event
		{[]string{"sub_1", "in_9"}, []string{other, second}},
		{[]string{""}, nil},
		{[]string{}, nil},
	} {
		got, err := timeline.List(t.Context(), db, timeline.Filter{About: tt.about})
		var ids []string
		for _, r := range got {
			ids = append(ids, r.ID)
		}
		if err != nil || !slices.Equal(ids, tt.want) {
			t.Errorf("about %q: %v, %v; want %v", tt.about, ids, err, tt.want)
		}
	}
}

func TestList_SinceAndOlderThan(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var ids []string
	for i := range 3 {
		at := begin.Add(time.Duration(i) * time.Hour)
		id := fmt.Sprintf("%012x", at.UnixMilli())
		id = id[:8] + "-" + id[8:] + "-7000-8000-000000000001"
		ids = append(ids, id)
		exec(t, db, `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
			values ($1, 's', 'github', 'live', $2, 'id', 'push', $3, '', 'ignored')`, id, "evt_"+id, at)
	}
	for _, tt := range []struct {
		f    timeline.Filter
		want []string
	}{
		{timeline.Filter{}, []string{ids[2], ids[1], ids[0]}},
		{timeline.Filter{Since: begin.Add(time.Hour)}, []string{ids[2], ids[1]}},
		{timeline.Filter{Since: begin.Add(3 * time.Hour)}, nil},
		{timeline.Filter{Until: begin.Add(2 * time.Hour)}, []string{ids[1], ids[0]}},
		{timeline.Filter{Since: begin.Add(time.Hour), Until: begin.Add(2 * time.Hour)}, []string{ids[1]}},
		{timeline.Filter{Until: begin}, nil},
		{timeline.Filter{OlderThan: ids[1]}, []string{ids[0]}},
		{timeline.Filter{OlderThan: ids[1], Until: begin.Add(2 * time.Hour)}, []string{ids[0]}},
		{timeline.Filter{OlderThan: ids[2], Since: begin.Add(time.Second)}, []string{ids[1]}},
	} {
		got, err := timeline.List(t.Context(), db, tt.f)
		var found []string
		for _, r := range got {
			found = append(found, r.ID)
		}
		if err != nil || !slices.Equal(found, tt.want) {
			t.Errorf("%+v: %v, %v; want %v", tt.f, found, err, tt.want)
		}
	}
}

func TestDue_String_EveryStepOfTheClock(t *testing.T) {
	t.Parallel()
	var check string
	if err := schematest.New(t).QueryRow(t.Context(), `
		select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'due'::regclass and conname = 'due_why_check'`).
		Scan(&check); err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile(`'([a-z_]+)'`).FindAllStringSubmatch(check, -1)
	if len(steps) == 0 {
		t.Fatalf("no step in %s", check)
	}
	for _, step := range steps {
		if said := (timeline.Due{Kind: step[1], Object: "sub_1"}).String(); strings.HasPrefix(said, " ") {
			t.Errorf("step %s has no words: %q", step[1], said)
		}
	}
}
