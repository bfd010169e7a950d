package report_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// polledAt is a Temporal whose queue was polled last at that time.
type polledAt struct {
	operator.Temporal
	at  time.Time
	err error
}

func (p polledAt) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueuepb.PollerInfo{{LastAccessTime: timestamppb.New(p.at)}}}, p.err
}

func TestConcerns_OneRowEach_WithItsCommand(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	for _, sql := range []string{
		`insert into pauses (kind, name, who, why) values ('source', 'shop', 'ada', 'moving'), ('sink', 'consumers:crm', 'ada', 'moving'), ('sink', 'finance:live', 'ada', 'moving')`,
		`insert into pauses (kind, name, who, why, until) values ('sink', 'email:live', 'ada', 'it is over', now())`,
		`insert into rejections (id, source, received_at, class, headers, body)
			select gen_random_uuid(), 'shop', now() - n * interval '1 minute', 'no_matching_signature', '{}', '' from generate_series(1, 12) n`,
		`insert into rejections (id, source, received_at, class, headers, body, admitted_at) values
			(gen_random_uuid(), 'shop', now() - interval '2 hours', 'no_matching_signature', '{}', '', null), (gen_random_uuid(), 'shop', now(), 'missing_header', '{}', '', now()),
			(gen_random_uuid(), 'none', now(), 'unknown_source', '{}', '', null)`,
		`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, attempts, last_error, published_at) values
			(gen_random_uuid(), 'live', 'acme', 'invoice.paid', gen_random_uuid(), 'k', '{}', 7, 'subscriber crm: answered 503', null),
			(gen_random_uuid(), 'live', 'acme', 'invoice.paid', gen_random_uuid(), 'k', '{}', 0, '', null),
			(gen_random_uuid(), 'live', 'other', 'invoice.paid', gen_random_uuid(), 'k', '{}', 0, '', null),
			(gen_random_uuid(), 'live', 'third', 'invoice.paid', gen_random_uuid(), 'k', '{}', 9, 'subscriber crm: answered 503', now())`,
		`insert into meanings (hash, body, proposed_by, proposed_at) values ('aa', '{}', 'w1', now()), ('bb', '{}', 'w2', now()), ('cc', '{}', 'w3', now() - interval '1 hour')`,
		`insert into meaning_switches (hash, who, why, at) values ('bb', 'ada', 'mapped', now() - interval '2 minutes'), ('aa', 'ada', 'mapped', now() - interval '1 minute')`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	o := &operator.Operator{DB: db, TaskQueue: "pawl", Temporal: polledAt{at: time.Now().Add(-time.Hour)}}
	waiting := []timeline.Cause{{Status: "received", Oldest: time.Now()}, {Status: "processing", Events: 10, Oldest: time.Now().Add(-7 * time.Minute)}}
	concerns, err := report.Concerns(t.Context(), &config.Config{}, o, waiting)
	var got []string
	for _, c := range concerns {
		says, _, _ := strings.Cut(c.Says, " since ")
		got = append(got, c.What+" "+c.Name+": "+says+" | "+c.Command)
	}
	want := []string{
		"paused consumers:crm: sink is paused | resume consumer crm --why REASON",
		"paused finance:live: sink is paused | resume sink finance:live --why REASON",
		"paused shop: source is paused | resume source shop --why REASON",
		"refused shop: 12 deliveries of the last hour: no_matching_signature | rejections list --source shop",
		"subscriber crm: 2 news wait, tried 7 times: answered 503 | sinks check",
		"meaning bb: w2 proposes another meaning of the facts than that in force | meaning diff --hash bb",
		"workers pawl: nobody works on the task queue: start pawl worker, or pawl ingress --worker | doctor",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Somebody works, or nothing waits for long.
	for name, of := range map[string]struct {
		polled  time.Time
		waiting []timeline.Cause
	}{"worker": {time.Now(), waiting}, "fresh": {time.Now().Add(-time.Hour), waiting[:1]}} {
		o.Temporal = polledAt{at: of.polled}
		concerns, err := report.Concerns(t.Context(), &config.Config{}, o, of.waiting)
		if err != nil || slices.ContainsFunc(concerns, func(c report.Concern) bool { return c.What == "workers" }) {
			t.Errorf("%s: %v %+v, want nothing said of workers", name, err, concerns)
		}
	}
}

// A source whose events nothing consumes is a concern once an event has been ignored.
func TestConcerns_UnconsumedSource(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	o := &operator.Operator{DB: db, TaskQueue: "pawl"}
	cfg := &config.Config{Sources: map[string]config.Source{
		"github": {Provider: "github"}, "relayed": {Provider: "github", Relay: []string{"crm"}}, "stripe": {Provider: "stripe"},
		"narrow": {Provider: "stripe", Events: []string{"account.updated.never"}},
	}}
	if got := report.Unconsumed(cfg); !slices.Equal(got, []string{"github", "narrow"}) {
		t.Errorf("unconsumed: %q", got)
	}
	unconsumed := func() (got []string) {
		t.Helper()
		concerns, err := report.Concerns(t.Context(), cfg, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range concerns {
			if c.What == "unconsumed" {
				got = append(got, c.Name+" | "+c.Command)
			}
		}
		return got
	}
	if got := unconsumed(); len(got) != 0 {
		t.Errorf("before the first event: %q", got)
	}
	store := receipt.NewStore(db, receipt.Options{})
	t.Cleanup(store.Close)
	if _, err := store.Insert(t.Context(), receipt.Delivery{Source: "github", Provider: "github", ReceivedAt: time.Now(), Events: []receipt.New{{
		Mode: "live", EventID: "d-1", Identity: receipt.ByID, Type: "push", Status: receipt.Ignored, Reason: "type_not_wanted: push"}}}); err != nil {
		t.Fatal(err)
	}
	if got := unconsumed(); !slices.Equal(got, []string{"github | events list --status ignored --source github"}) {
		t.Errorf("after it: %q", got)
	}
}

// Money that is not booked has a row for each mode and kind, and one for each connected account that no source maps.
// Events of one payment count once.
func TestConcerns_MoneyNotBooked_AmountsByMode(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	for _, sql := range []string{
		`insert into objects (mode, kind, id, state, updated_at) select mode, kind, id, jsonb_build_object('Status', 'succeeded', 'SucceededAt', now(), 'Amount', amount, 'Currency', currency), now() - since
		   from (values ('live', 'payment', 'pi_1', 1500, 'usd', interval '2 hours'), ('live', 'payment', 'pi_2', 500, 'usd', interval '1 hour'), ('live', 'payment', 'pi_3', 900, 'eur', interval '1 hour'),
		                ('live', 'refund', 're_1', 300, 'usd', interval '1 hour'), ('test', 'payment', 'pi_4', 9900, 'usd', interval '1 hour'), ('live', 'payment', 'pi_new', 7700, 'usd', interval '1 second')) t (mode, kind, id, amount, currency, since)`,
		`insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason)
		 select gen_random_uuid(), 'stripe', 'stripe', account, mode, 'evt_' || n, 'id', type, object, now(), '\x01', 'ignored', 'account_not_mapped: it is of no account' || paid
		   from (values (1, 'acct_9', 'live', 'invoice.paid', 'in_1', '; 4900 minor units of USD were paid'), (2, 'acct_9', 'live', 'invoice.payment_succeeded', 'in_1', '; 4900 minor units of USD were paid'),
		                (3, 'acct_9', 'live', 'charge.succeeded', 'ch_1', '; 4900 minor units of USD were paid'), (4, 'acct_9', 'live', 'charge.succeeded', 'ch_2', '; 100 minor units of USD were paid'),
		                (5, 'acct_9', 'live', 'customer.created', 'cus_1', ''), (6, 'acct_none', 'live', 'customer.created', 'cus_2', ''), (7, 'acct_9', 'test', 'invoice.paid', 'in_2', '; 700 minor units of JPY were paid')) t (n, account, mode, type, object, paid)`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	cfg := &config.Config{Policy: config.Policy{Settle: time.Minute}}
	found, err := report.Concerns(t.Context(), cfg, &operator.Operator{DB: db}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, c := range found {
		about, _, _ := strings.Cut(c.Says, ":")
		got = append(got, c.What+" "+c.Name+": "+about+" | "+c.Command)
	}
	want := []string{
		"unclaimed live: 3 payments (9.00 EUR + 20.00 USD) not booked | money unclaimed --mode live",
		"unclaimed live: 1 refund (3.00 USD) not booked | money unclaimed --mode live",
		"unclaimed test: 1 payment (99.00 USD) not booked | money unclaimed --mode test",
		"unmapped acct_9: 5 live events ignored, 50.00 USD paid | events list --status ignored --reason account_not_mapped",
		"unmapped acct_9: 1 test event ignored, 700 JPY paid | events list --status ignored --reason account_not_mapped",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
