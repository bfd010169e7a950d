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

// receivers are the receivers of the catalogue's activities. A worker registers them, and a preview reads them.
type receivers struct {
	billing    *activities.Billing
	objects    *activities.Objects
	workspaces *activities.Workspaces
	finance    *activities.Finance
	tasks      *activities.Tasks
	mail       *activities.Mail
	consumers  *activities.Consumers
}

// receivers fills them from the configuration. A preview has no effects, and nothing to announce.
func (n *Node) receivers(effects *effect.Runner, announced func()) (receivers, error) {
	c, state, sinks := n.Config, billing.New(n.Pool), n.sinks()
	objects, err := n.objects(effects, state)
	if err != nil {
		return receivers{}, err
	}
	consumers := &activities.Consumers{
		Effects: effects, Receipts: n.Receipts, Client: n.tracing.Client(activities.NewHTTPClient()), Now: time.Now,
		ByName: sinks.consumers, BySource: Relays(c),
	}
	return receivers{
		billing: &activities.Billing{
			Effects: effects, Receipts: n.Receipts, Facts: state, Policy: BillingPolicy(c), Planning: planning(c),
			Sinks: sinks.settings, Consumers: consumers, Fetches: fetches(c), Announced: announced,
		},
		objects: objects,
		workspaces: &activities.Workspaces{Effects: effects, Targets: state,
			Sinks: sinks.http[workflows.SinkWorkspaces]},
		finance: &activities.Finance{Effects: effects, Facts: state, Objects: objects,
			Settle: c.Settles(), Sinks: sinks.http[workflows.SinkFinance]},
		tasks: &activities.Tasks{Effects: effects},
		mail: &activities.Mail{
			Effects: effects, Receipts: n.Receipts, Facts: state, Letters: c.Mail.Set,
			Sinks: sinks.mail, Now: time.Now, Settle: c.Lasts(c.Mail.Settle), Apart: c.Lasts(c.Policy.Apart),
		},
		consumers: consumers,
	}, nil
}

// forRuns makes the receivers that do no effect: what runs and jobs need.
func (n *Node) forRuns(book *ledger.Store) ([]any, error) {
	measures, err := activities.NewMeasures(n.telemetry.Meter(), workflows.Written)
	if err != nil {
		return nil, fmt.Errorf("make metrics of runs: %w", err)
	}
	namespace, err := n.Config.Temporal.Namespace()
	if err != nil {
		return nil, err
	}
	asked, err := Asked(n.Config, n.providers, n.Pool, n.Receipts)
	if err != nil {
		return nil, err
	}
	decides := n.operator()
	decides.Relays, decides.Policy, decides.FourEyes = Relays(n.Config), BillingPolicy(n.Config), FourEyes(n.Config)
	decides.Outlook, decides.Asked = Outlook(n.Config, n.Pool, n.Receipts), asked
	decides.Unstick, decides.Insert = operator.Unstick(n.Temporal, namespace), n.Receipts.Insert
	return []any{
		&activities.Runs{Log: n.log, Receipts: n.Receipts, Runs: n.Runs, Ledger: book, Audit: decides.Audit,
			Measures: measures},
		&operator.JobWorker{Jobs: job.New(n.Pool), Log: n.log, Operator: decides},
		&operator.Scheduled{Operator: decides, Log: n.log},
	}, nil
}
