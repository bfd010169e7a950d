package condition

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	jobstore "github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

const (
	// many is the number of dead events with one reason from which a page is sent, even if no money is involved. This
	// number of dead events indicates that a sink or a deployment is broken.
	many = 10
	// inDoubt is the reason code of an event with an uncertain effect.
	inDoubt = "effect_uncertain"
	// unstartedFor is how long an event may wait for the start of its workflow.
	unstartedFor = 5 * time.Minute
	// doubtfulFor is how long an effect may be uncertain before people are notified.
	doubtfulFor = time.Hour
	// mostJobs is the number of jobs that are checked, newest first.
	mostJobs = 50
)

// parked is the kind of condition that events wait for a person, by mode, status, reason, and whether money is
// involved.
var parked = Kind{
	Name: Parked, Runbook: "parked-event",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		found, err := timeline.ReadParked(ctx, r.DB, r.Config.Notify.FinancialLike())
		for _, p := range found {
			list = append(list, parkedEvents(p))
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlRunsDead", Severity: "page",
			Expr:    `max(pawl_receipts_open{status="dead", financial="true", mode="live"}) > 0`,
			Summary: "{{ $value }} financial events have used up their retries",
			Cost:    "A payment is not booked, or a paying customer has no access, until a person decides",
		},
		{
			Name: "PawlRunsDeadOther", Severity: "ticket",
			Expr:    `max(pawl_receipts_open{status="dead", financial="false"} or pawl_receipts_open{status="dead", mode="test"}) > 0`,
			Summary: "{{ $value }} events have used up their retries and wait for a person",
			Cost:    "The effects of the event do not happen until a person decides",
		},
		{
			Name: "PawlRunsDeadMany", Severity: "incident", Runbook: "bulk-decisions",
			Comment: "This uses the gauge and not a counter: increase() misses the first increment of a new time series. It continues until fewer than ten are left.",
			Expr: `sum(max by (financial) (pawl_receipts_open{status="dead", mode="live"}))
  - min_over_time(sum(max by (financial) (pawl_receipts_open{status="dead", mode="live"}))[1h:5m]) >= 10
or
sum(max by (financial) (pawl_receipts_open{status="dead", mode="live"})) >= 10
  and on () ALERTS{alertname="PawlRunsDeadMany", alertstate="firing"}`,
			Summary: "{{ $value | humanize }} events have used up their retries, ten of them within an hour",
			Cost:    "A sink or a deployment fails for all customers: each further event needs another decision",
		},
		{
			Name: "PawlParkedInflow", Severity: "ticket", Runbook: "bulk-decisions",
			Comment: "This compares the gauge with the hourly average of a week. The week includes the current hour, so that a jump counts and a plateau does not. PawlRunsDead and PawlRunsDeadMany cover dead events.",
			Expr: `sum(max by (financial, mode) (pawl_receipts_open{status="needs_review"}))
  - min_over_time(sum(max by (financial, mode) (pawl_receipts_open{status="needs_review"}))[1h:5m]) > 5
and
sum(max by (financial, mode) (pawl_receipts_open{status="needs_review"}))
  - min_over_time(sum(max by (financial, mode) (pawl_receipts_open{status="needs_review"}))[1h:5m])
  > 10 * (sum(increase(pawl_runs_total{status="needs_review"}[7d])) or vector(0)) / 168`,
			Summary: "{{ $value | humanize }} reviews were opened within an hour, ten times the hourly average of the last week",
			Cost:    "A person has to decide each of them",
		},
		{
			Name: "PawlFailureRatio", Severity: "ticket", For: "1h", Runbook: "bulk-decisions",
			Comment: "Days with an incident are excluded, because PawlRunsDeadMany has already fired within the hour.",
			Expr: `sum by (provider, type) (increase(pawl_runs_total{status=~"dead|needs_review"}[1d])) >= 5
and
sum by (provider, type) (increase(pawl_runs_total{status=~"dead|needs_review"}[1d])) > 0.05 * sum by (provider, type) (increase(pawl_runs_total[1d]))
unless on ()
max_over_time(ALERTS{alertname="PawlRunsDeadMany", alertstate="firing"}[1d])`,
			Summary: "{{ $value | humanize }} runs of {{ $labels.type }} were parked within a day, more than one in twenty",
			Cost:    "One type of event fails, hidden by the volume of the others",
		},
		{
			Name: "PawlRunsNeedReview", Severity: "ticket", Runbook: "review",
			Expr: `max(pawl_receipts_oldest_seconds{status="needs_review", financial="true", mode="live"}) > 900
or
max(pawl_receipts_oldest_seconds{status="needs_review"}) > 3600`,
			Summary: "An event has waited for a decision for {{ $value | humanizeDuration }}",
			Cost:    "A customer or a booking waits for the decision",
		},
	},
}

func parkedEvents(p timeline.Parked) notice.Condition {
	about, kind := "other", "event"
	if p.Financial {
		about, kind = "financial", "financial event"
	}
	dead := p.Status == string(receipt.Dead)
	state := "failed"
	switch {
	case !dead && p.Events == 1:
		state = "needs a decision"
	case !dead:
		state = "need a decision"
	}
	c := notice.Condition{
		Name:     strings.Join([]string{p.Mode, p.Status, about, p.ReasonCode}, ":"),
		Severity: pages(dead && (p.Financial || p.Events >= many), p.Mode),
		Message: fmt.Sprintf("%s in %s mode %s%s", output.Plural(p.Events, kind), p.Mode, state,
			output.WithReason(label.Clause(p.ReasonCode))),
		Since: p.Since, Count: p.Events, Money: p.Money,
		Labels: map[string]string{"mode": p.Mode, "status": p.Status, "reason_code": p.ReasonCode},
	}
	c.Command = eventsCommand(c.Labels)
	switch {
	case p.ReasonCode == inDoubt: // people are notified about the effect instead
		c.Severity, c.Runbook = notice.Info, uncertain.Runbook
	case dead && p.Events >= many:
		c.Runbook = "bulk-decisions"
	case !dead && !strings.HasPrefix(p.ReasonCode, "effect_"):
		c.Runbook = "review"
	}
	return c
}

// repeated is the kind of condition that a provider delivers parked events again and again.
var repeated = Kind{
	Name: "repeated", Runbook: "parked-event",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		found, err := receipt.ReadRepeated(ctx, r.DB)
		for _, f := range found {
			list = append(list, notice.Condition{
				Name: f.Source + ":" + f.Mode, Severity: notice.Ticket, Since: f.Since, Count: f.Events,
				Message: fmt.Sprintf("source %s keeps delivering %s in %s mode: %s within an hour", f.Source,
					output.Plural(f.Events, "parked event"), f.Mode, output.Plural(f.Deliveries, "delivery")),
				Command: "events show " + decide.ShellWord(f.EventID),
				Labels:  map[string]string{"source": f.Source, "mode": f.Mode},
			})
		}
		return list, err
	},
}

// unstarted is the kind of condition that events wait too long for the start of their workflow.
var unstarted = Kind{
	Name: "unstarted", Runbook: "temporal-down",
	read: func(ctx context.Context, r Reader) ([]notice.Condition, error) {
		waiting, err := receipt.NewReader(r.DB).Backlog(ctx)
		if err != nil || waiting.Oldest == nil || r.now.Sub(*waiting.Oldest) < unstartedFor {
			return nil, err
		}
		return []notice.Condition{{
			Name: "received", Severity: notice.Page, Since: *waiting.Oldest, Count: waiting.Count,
			Message: "no workflow starts: " + output.Plural(waiting.Count, "event") + " received", Command: "doctor",
		}}, nil
	},
	Alerts: []Alert{
		{
			Name: "PawlStartsLag", Severity: "page", For: "5m",
			Expr:    "max(pawl_dispatch_backlog_oldest_seconds) > " + seconds(unstartedFor),
			Summary: "An event has waited {{ $value | humanizeDuration }} for its workflow",
			Cost:    "Customers who have paid wait for their access",
		},
	},
}

// uncertain is the kind of condition that the outcome of effects is unknown.
var uncertain = Kind{
	Name: Uncertain, Runbook: "uncertain-email",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		found, err := ledger.Doubtful(ctx, r.DB, 0)
		for _, d := range found {
			they := "they"
			if d.Effects == 1 {
				they = "it"
			}
			list = append(list, notice.Condition{
				Name: d.Mode + ":" + d.Kind, Severity: r.after(doubtfulFor, d.Since, notice.Ticket), Since: d.Since,
				Count: d.Effects,
				Message: fmt.Sprintf("%s (%s) in %s mode: it is not known whether %s happened",
					output.Plural(d.Effects, "step"), label.KindOf(d.Kind).Name, d.Mode, they),
				Command: "effects list --state uncertain",
				Labels:  map[string]string{"state": "uncertain", "mode": d.Mode},
			})
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlEffectsUncertain", Severity: "ticket", For: "1h",
			Expr:    "max(pawl_effects_uncertain) > 0",
			Summary: "{{ $value }} effects may or may not have happened",
			Cost:    "A customer may not have received an e-mail",
		},
	},
}

// job is the kind of condition that a job ended with failures.
var job = Kind{
	Name: "job", Runbook: "bulk-decisions",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		newest, err := jobstore.New(r.DB).List(ctx, mostJobs, "")
		for _, j := range newest {
			if j.Failed == 0 || j.FinishedAt == nil || r.now.Sub(*j.FinishedAt) > recent {
				continue
			}
			list = append(list, notice.Condition{
				Name: j.ID, Severity: notice.Ticket, Once: true, Since: *j.FinishedAt,
				Message: fmt.Sprintf("a job ended: %s of %s, and %d of them failed", j.Action,
					output.Plural(j.Items, j.Noun()), j.Failed),
				Command: "jobs show " + decide.ShellWord(j.ID),
			})
		}
		return list, err
	},
}

// auditTrail is the kind of condition that the audit trail was modified.
var auditTrail = Kind{
	Name: Audit, Runbook: "audit-trail",
	read: func(_ context.Context, r Reader) ([]notice.Condition, error) {
		if !r.AuditBroken {
			return nil, nil
		}
		return []notice.Condition{{Name: "broken", Severity: notice.Page, Message: "the audit trail was modified",
			Command: "audit verify"}}, nil
	},
	Alerts: []Alert{
		{
			Name: "PawlAuditBroken", Severity: "page",
			Expr:    "max(pawl_audit_broken) > 0",
			Summary: "The audit trail was modified",
			Cost:    "Decisions about money can no longer be proven",
		},
	},
}
