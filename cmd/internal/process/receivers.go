package process

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/activities/step"
	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/flowversion"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/plan"
)

// receivers creates, from the configuration, the receivers of the activities in the catalogue. A worker registers
// them. A preview only reads them: it runs no effects and publishes nothing.
func (n *Node) receivers(effects *effect.Runner, announced func()) (*activities.Outlooks, error) {
	c, state, sinks := n.Config, billing.New(n.Pool), n.sinks()
	objects, err := n.objects(effects, state)
	if err != nil {
		return nil, err
	}
	destinations := &activities.Destinations{
		Effects: effects, Receipts: n.Receipts, Client: n.tracing.Client(httpcall.NewClient()), Now: time.Now,
		ByName: map[string]activities.Destination{}, BySource: Relays(c),
		Flows: flowsOf(n, effects, sinks),
	}
	for _, d := range n.gates.destinations(c) {
		destinations.ByName[d.Name] = d
	}
	return &activities.Outlooks{
		DB: n.Pool,
		Billing: &activities.Billing{
			Effects: effects, Receipts: n.Receipts, Facts: state, Policy: BillingPolicy(c), Planning: planning(c),
			Sinks: sinks.settings, Destinations: destinations, Fetches: fetches(c), Announced: announced,
		},
		Objects: objects,
		Workspaces: &activities.Workspaces{Effects: effects, Targets: state,
			Sinks: sinks.http[plan.SinkWorkspaces]},
		Finance: &activities.Finance{Effects: effects, Facts: state, Objects: objects,
			Settle: c.Settles(), Sinks: sinks.http[plan.SinkFinance]},
		Mail: &activities.Mail{
			Effects: effects, Receipts: n.Receipts, Facts: state, Letters: c.Email.Set,
			Sinks: sinks.mail, Now: time.Now, Settle: c.Lasts(c.Email.Delay),
			Apart: c.Lasts(c.Policy.DunningMinInterval),
		},
		Destinations: destinations,
	}, nil
}

// flowsOf returns the planner of the flows in the configuration, which also executes their steps.
func flowsOf(n *Node, effects *effect.Runner, all sinks) *step.Flows {
	f := &step.Flows{Effects: effects, Receipts: n.Receipts, Versions: flowversion.New(n.Pool), Sinks: all.http,
		Settings: all.settings, Temporal: n.Temporal}
	for _, name := range slices.Sorted(maps.Keys(n.Config.Flows)) {
		f.Active = append(f.Active, n.Config.Flows[name].Compiled)
	}
	return f
}

// forRuns creates the receivers of activities that manage runs and jobs and have no effects.
func (n *Node) forRuns(book *ledger.Store) ([]any, error) {
	measures, err := activities.NewMeasures(n.telemetry.Meter(), workflows.Written)
	if err != nil {
		return nil, fmt.Errorf("make metrics of runs: %w", err)
	}
	watched, err := Watched(n.Config, n.providers, n.Pool, n.Receipts)
	if err != nil {
		return nil, err
	}
	n.operator.APIs = source.APIs(watched)
	return []any{
		&activities.Runs{Log: n.log, Receipts: n.Receipts, Runs: n.Runs, Ledger: book, Audit: n.operator.Audit,
			DB: n.Pool, Measures: measures},
		&jobs.Worker{Jobs: job.New(n.Pool), Log: n.log, Operator: n.operator},
		&account.Schedule{Operator: n.operator},
		&source.Schedule{Operator: n.operator, Sources: watched, Log: n.log},
		&Retention{DB: n.Pool, Log: n.log},
	}, nil
}
