package activities_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A client with write access to Temporal can start any activity with any input. pawl permanently rejects an input
// that does not match the receipt, and sends, writes and reads nothing for it.
func TestActivities_InputNotOfItsReceipt_Refused(t *testing.T) {
	b := setup(t)
	sink := activitiestest.NewSink(t)
	store := billing.New(b.pool)
	runs := run.NewStore(b.pool, receipt.Options{})
	t.Cleanup(runs.Close)
	load := &activities.Billing{Effects: b.effects, Receipts: b.receipts, Facts: store, Destinations: &activities.Destinations{}, Announced: func() {}}
	relay := &activities.Destinations{Effects: b.effects, Receipts: b.receipts}
	recorded := &activities.Runs{Log: slog.New(slog.DiscardHandler), Receipts: b.receipts, Runs: runs, Ledger: b.ledger}
	ours := b.workspaces(sink.URL, targets{})
	forged := schematest.Ref("test_1")
	forged.Mode = "live"
	effectOf := func(kind, object string) effect.Call {
		c := call(kind, object)
		c.Ref = forged
		return c
	}
	live := effect.Call{Ref: schematest.Ref("test_1"), Key: "provision-workspace:stripe:test:acme:v1", Kind: "provision-workspace"}
	for name, try := range map[string]func() error{
		"load": func() error {
			_, err := load.LoadFacts(t.Context(), activities.LoadFactsInput{Ref: forged})
			return err
		},
		"load due": func() error {
			_, err := load.LoadFacts(t.Context(), activities.LoadFactsInput{Ref: forged, Due: true})
			return err
		},
		"load relay": func() error {
			_, err := relay.LoadRelay(t.Context(), activities.LoadRelayInput{Ref: forged})
			return err
		},
		"entry": func() error {
			_, err := do(b, (&activities.Finance{Effects: b.effects, Sinks: ours.Sinks}).PostEntry,
				activities.EffectInput[activities.Entry]{Effect: effectOf("finance-export", "in_1"), For: activities.Entry{Mode: "live"}})
			return err
		},
		"workspace of the other mode": func() error {
			_, err := do(b, ours.ProvisionWorkspace, activities.EffectInput[activities.Workspace]{Effect: live, For: activities.Workspace{Account: "acme", Mode: "live"}})
			return err
		},
		"task of the other mode": func() error {
			_, err := do(b, (&activities.Tasks{Effects: b.effects}).OpenTask, activities.EffectInput[activities.Task]{Effect: live, For: activities.Task{Mode: "live"}})
			return err
		},
		"facts of the other mode": func() error {
			_, err := do(b, load.ApplyFacts, activities.EffectInput[activities.Facts]{Effect: live, For: activities.Facts{
				Facts: []fact.Fact{{Subject: fact.Subject{Mode: "live"}}},
			}})
			return err
		},
		"park": func() error {
			_, err := do(b, recorded.ParkRun, activities.ParkRunInput{Ref: forged, Status: string(receipt.Dead), StartedAt: time.Now()})
			return err
		},
		"decision": func() error {
			_, err := do(b, recorded.RecordDecision, activities.RecordDecisionInput{Ref: forged, RequestID: "r", Action: "skip", Actor: "eve", Reason: "because"})
			return err
		},
		"skip": func() error {
			_, err := do(b, recorded.SkipEffect, activities.SkipEffectInput{Effect: effectOf("finance-export", "in_1")})
			return err
		},
	} {
		err := try()
		var refused *temporal.ApplicationError
		if !errors.As(err, &refused) || refused.Type() != effect.TypeForeign || !refused.NonRetryable() {
			t.Errorf("%s: %v, want it refused for good", name, err)
		}
	}
	if got := sink.Applied(); len(got) > 0 {
		t.Errorf("the sink got %+v", got)
	}
	if got := b.lines(`select 'effect ' || key from effects union all select 'run ' || run_id from runs union all select 'task ' || title from tasks
		union all select 'action ' || action from operator_actions union all select 'fact ' || kind from facts`); len(got) > 0 {
		t.Errorf("written: %q", got)
	}
}
