package process

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/workflows"
)

// receivers makes the receivers of the catalogue's activities from the configuration. A worker registers them. A
// preview, which has no effects and publishes nothing, reads them.
func (n *Node) receivers(effects *effect.Runner, announced func()) (*activities.Outlooks, error) {
	c, state, sinks := n.Config, billing.New(n.Pool), n.sinks()
	objects, err := n.objects(effects, state)
	if err != nil {
		return nil, err
	}
	consumers := &activities.Consumers{
		Effects: effects, Receipts: n.Receipts, Client: n.tracing.Client(activities.NewHTTPClient()), Now: time.Now,
		ByName: sinks.consumers, BySource: Relays(c),
	}
	return &activities.Outlooks{
		DB: n.Pool,
		Billing: &activities.Billing{
			Effects: effects, Receipts: n.Receipts, Facts: state, Policy: BillingPolicy(c), Planning: planning(c),
			Sinks: sinks.settings, Consumers: consumers, Fetches: fetches(c), Announced: announced,
		},
		Objects: objects,
		Workspaces: &activities.Workspaces{Effects: effects, Targets: state,
			Sinks: sinks.http[workflows.SinkWorkspaces]},
		Finance: &activities.Finance{Effects: effects, Facts: state, Objects: objects,
			Settle: c.Settles(), Sinks: sinks.http[workflows.SinkFinance]},
		Mail: &activities.Mail{
			Effects: effects, Receipts: n.Receipts, Facts: state, Letters: c.Mail.Set,
			Sinks: sinks.mail, Now: time.Now, Settle: c.Lasts(c.Mail.Settle), Apart: c.Lasts(c.Policy.Apart),
		},
		Consumers: consumers,
	}, nil
}

// forRuns makes the receivers for runs and jobs, which do no effects.
func (n *Node) forRuns(book *ledger.Store) ([]any, error) {
	measures, err := activities.NewMeasures(n.telemetry.Meter(), workflows.Written)
	if err != nil {
		return nil, fmt.Errorf("make metrics of runs: %w", err)
	}
	if n.operator.Asked, err = Asked(n.Config, n.providers, n.Pool, n.Receipts); err != nil {
		return nil, err
	}
	return []any{
		&activities.Runs{Log: n.log, Receipts: n.Receipts, Runs: n.Runs, Ledger: book, Audit: n.operator.Audit,
			DB: n.Pool, Measures: measures},
		&operator.JobWorker{Jobs: job.New(n.Pool), Log: n.log, Operator: n.operator},
		&operator.Scheduled{Operator: n.operator, Log: n.log},
	}, nil
}
