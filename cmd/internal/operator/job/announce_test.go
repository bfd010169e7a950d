package job_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	operatoraccount "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A snapshot reports what the account may use, to the destinations that the job names. Only workspaces that lack an
// update are due. The job omits an account that was never granted anything.
func TestJobWorker_Announce_ToldAndDue(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	for _, sql := range []string{
		`insert into accounts (mode, id, provider, target_version, target_state, target_plan, target_quantity) values
			('live', 'behind', 'stripe', 3, 'active', 'pro', 2), ('live', 'there', 'stripe', 1, 'suspended', '', 0), ('live', 'new', 'stripe', 0, '', '', 0)`,
		`insert into workspaces (mode, account, version, state, plan, quantity, effect_key) values ('live', 'behind', 2, 'active', 'pro', 1, 'w2'), ('live', 'there', 1, 'suspended', '', 0, 'w1')`,
		`insert into subscriptions (mode, id, account, status, state) values ('live', 'sub_1', 'behind', 'active', '{"ID":"sub_1"}'), ('live', 'sub_2', 'there', 'canceled', '{"ID":"sub_2"}')`,
		`insert into facts (kind, object, mode, provider, event_id, event_type, receipt_id, occurred_at, rank, origin, data)
			select 'subscription', 'sub_' || n, 'live', 'stripe', 'evt_' || n, 'customer.subscription.updated', gen_random_uuid(), now(), 0, 'event', '{"Status":"active"}' from generate_series(1, 2) n`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	accounts, err := account.List(t.Context(), db, account.Filter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	made := operatoraccount.AnnounceJob(billing.Announcement{OnlyTo: "crm", Provision: true}, accounts)
	j := made.Job
	j.ID, j.Actor, j.Reason, j.Rate = "announce-1", "ada", "the CRM is new", 1
	if err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return job.MakeIn(t.Context(), tx, j, made.Others) }); err != nil {
		t.Fatal(err)
	}
	kept, err := job.New(db).Get(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	w := &jobs.Worker{Jobs: job.New(db), Log: log, Operator: &decide.Operator{Verbs: operator.Verbs, DB: db, Audit: audit.New(db, log)}}
	for _, item := range made.Others {
		if err := w.Take(t.Context(), kept, item); err != nil {
			t.Fatal(err)
		}
	}
	lines := func(sql string) []string {
		t.Helper()
		rows, _ := db.Query(t.Context(), sql) // CollectRows returns its error
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for sql, want := range map[string]string{
		`select concat_ws(' ', account, type, only_to, data ->> 'version', data ->> 'plan', data ->> 'quantity', data ->> 'reason') from outbox order by account`: "behind access.snapshot crm 3 pro 2 announce|there access.snapshot crm 1  0 announce",
		`select account || ' ' || why from due`:                                                         "behind refold",
		`select name || ' ' || result || ' ' || note from job_items order by name`:                      "behind done version 3: pro × 2; pawl updates its workspace|new refused never had access: there is nothing to publish|there done version 1: nothing",
		`select actor || ' ' || target from operator_actions where action = 'announce' order by target`: "ada behind|ada there",
	} {
		if got := lines(sql); !slices.Equal(got, strings.Split(want, "|")) {
			t.Errorf("%s:\n got %q\nwant %q", sql, got, want)
		}
	}
}
