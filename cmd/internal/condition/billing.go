package condition

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/timeline"
)

const (
	// idleFor is how long a task that is not urgent may be open.
	idleFor = 7 * 24 * time.Hour
	// dueSoon is how long before its deadline an open task becomes a page.
	dueSoon = 24 * time.Hour
	// onboarding is the kind of the task to welcome an account.
	onboarding = "onboarding"
)

// task is the kind of condition that tasks are open, by mode, kind, price and connected account. Reviews are not
// included, because they are counted as parked events.
var task = Kind{
	Name: Task, Runbook: "tasks",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		counts, err := account.CountTasks(ctx, r.DB, true)
		for _, t := range counts {
			if t.Kind != billing.TaskReview {
				list = append(list, r.tasks(t))
			}
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlPriceUnknown", Severity: "page", Runbook: "unmapped-price",
			Comment: "A customer pays and gets nothing, because the price is not mapped to a plan.",
			Expr:    `max by (kind) (pawl_tasks_open{kind="unknown_price", mode="live"}) > 0`,
			Summary: "{{ $value }} subscriptions have a price that is not mapped to a plan",
			Cost:    "These customers pay and get nothing, or keep their previous plan",
		},
		{
			Name: "PawlEvidenceDue", Severity: "ticket",
			Comment: "A dispute or an inquiry without an answer in time is lost.",
			Expr:    `min by (kind) (pawl_tasks_due_seconds{mode="live"}) < 259200`,
			Summary: "The deadline of an open task of kind {{ $labels.kind }} is in {{ $value | humanizeDuration }}",
			Cost:    "The disputed amount is lost after the deadline",
		},
		{
			Name: "PawlEvidenceDueSoon", Severity: "page",
			Expr:    `min by (kind) (pawl_tasks_due_seconds{mode="live"}) < ` + seconds(dueSoon),
			Summary: "The deadline of an open task of kind {{ $labels.kind }} is in {{ $value | humanizeDuration }}",
			Cost:    "The disputed amount is lost after the deadline",
		},
		{
			Name: "PawlTasksWait", Severity: "ticket",
			Comment: "Tasks about money that is not collected or at risk; and after a week, the less urgent ones. Reviews have an alert of their own.",
			Expr: `max by (kind) (pawl_tasks_oldest_seconds{kind=~"fraud_warning|finalization_failed|correction|reconcile|similar_account|clock_ahead", mode="live"}) > 86400
or
max by (kind) (pawl_tasks_oldest_seconds{kind=~"onboarding|release", mode="live"}) > 604800`,
			Summary: "A task of kind {{ $labels.kind }} has been open for {{ $value | humanizeDuration }}",
			Cost:    "Money is not collected or at risk, or a customer waits for onboarding",
		},
	},
}

func (r Reader) tasks(t account.Count) notice.Condition {
	c := notice.Condition{
		Name: t.Mode + ":" + t.Kind, Since: t.Oldest, Count: t.Tasks, Money: t.Money,
		Message: fmt.Sprintf("%s in %s mode: %s", output.Plural(t.Tasks, "open task"), t.Mode, label.Task(t.Kind)),
		Command: "tasks list --kind " + t.Kind + " --mode " + t.Mode,
		Labels:  map[string]string{"mode": t.Mode, "kind": t.Kind},
	}
	if t.About != "" {
		c.Name += ":" + t.About
		c.Command += " --about " + decide.ShellWord(t.About)
		c.Labels["about"] = t.About
	}
	switch {
	case t.Kind == billing.TaskAccount:
		c.Message, c.Runbook = "no source maps the connected account "+t.About, "connected-accounts"
	case t.About != "":
		c.Message = fmt.Sprintf("price %s is not mapped to a plan: %s paid for it", t.About,
			output.Plural(t.Tasks, "account"))
		c.Runbook = "unmapped-price"
	}
	urgent := t.Kind == billing.TaskPrice
	if t.DueBy != nil {
		c.Message += ", due by " + t.DueBy.UTC().Format(minutes)
		urgent = urgent || t.DueBy.Sub(r.now) < dueSoon
	}
	c.Severity = pages(urgent, t.Mode)
	if t.Mode != live {
		c.Severity = notice.Info
	} else if t.Kind == billing.TaskRelease || t.Kind == onboarding {
		c.Severity = r.after(idleFor, t.Oldest, c.Severity)
	}
	return c
}

// secondPerson is the kind of condition that decisions wait for a second person, by verb.
var secondPerson = Kind{
	Name: SecondPerson, Runbook: "second-person",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		waiting, err := pending.List(ctx, r.DB)
		byVerb := map[string][]pending.Decision{}
		for _, p := range waiting {
			byVerb[p.Action()] = append(byVerb[p.Action()], p)
		}
		for verb, decisions := range byVerb { // decisions are sorted, oldest first
			c := notice.Condition{Name: verb, Severity: notice.Ticket, Since: decisions[0].AskedAt,
				Count: len(decisions), Money: map[string]int64{}, Command: "status",
				Message: fmt.Sprintf("a second person has to decide: %s of %s, the first until %s", verb,
					output.Plural(len(decisions), "target"), decisions[0].Until.UTC().Format(minutes))}
			if page := r.Config.Console.URL; page != "" {
				c.Message += ", at " + page
			}
			for _, p := range decisions {
				for currency, amount := range p.Money {
					c.Money[currency] = schema.Plus(c.Money[currency], amount)
				}
			}
			list = append(list, c)
		}
		slices.SortFunc(list, func(a, b notice.Condition) int { return strings.Compare(a.Name, b.Name) })
		return list, err
	},
}

// unassigned is the kind of condition that money moved and pawl cannot book it: no event names the account.
var unassigned = Kind{
	Name: Unassigned, Runbook: "unassigned-payments",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		sums, err := billing.New(r.DB).SumUnassigned(ctx, r.Config.Settles())
		for _, s := range sums {
			list = append(list, notice.Condition{
				Name: s.Mode + ":" + s.Kind, Severity: notice.Info, Since: s.Since, Count: s.Objects, Money: s.Money,
				Message: fmt.Sprintf("%s in %s mode not booked: no event names the account",
					output.Plural(s.Objects, strings.ReplaceAll(s.Kind, "_", " ")), s.Mode),
				Command: "payments unassigned --mode " + s.Mode, Labels: map[string]string{"mode": s.Mode},
			})
		}
		return list, err
	},
	Alerts: []Alert{
		{
			Name: "PawlPaymentsUnassigned", Severity: "ticket", For: "30m",
			Expr:    "max by (kind) (pawl_payments_unassigned) > 0",
			Summary: "{{ $value }} objects of kind {{ $labels.kind }} are not booked, because their account or purchase is unknown",
			Cost:    "Incoming or outgoing money is missing in the books",
		},
	},
}

// unmapped is the kind of condition that money was paid at a connected account that no source maps.
var unmapped = Kind{
	Name: Unmapped, Runbook: "connected-accounts",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		found, err := timeline.ReadUnmapped(ctx, r.DB)
		for _, u := range found {
			c := notice.Condition{
				Name: u.Mode + ":" + u.Account, Severity: notice.Info, Since: u.Since, Count: u.Events, Money: u.Money,
				Message: fmt.Sprintf("connected account %s is not mapped: %s ignored in %s mode", u.Account,
					output.Plural(u.Events, "event"), u.Mode),
				Labels: map[string]string{"mode": u.Mode, "status": "ignored", "reason_code": "account_not_mapped"},
			}
			c.Command = eventsCommand(c.Labels)
			list = append(list, c)
		}
		return list, err
	},
}

// rules is the kind of condition that a worker proposes other billing rules than the active ones, or that the active
// rules were changed recently.
var rules = Kind{
	Name: Rules, Runbook: "unmapped-price",
	read: func(ctx context.Context, r Reader) (list []notice.Condition, err error) {
		proposals, err := billing.Proposals(ctx, r.DB)
		if err != nil {
			return nil, err
		}
		for _, m := range proposals {
			list = append(list, notice.Condition{Name: "proposed:" + m.Hash, Severity: notice.Ticket,
				Message: "nothing has changed yet: a deployed file contains other billing rules than the active ones: " + m.Hash,
				Detail:  "proposed by " + m.ProposedBy, Command: "rules diff --hash " + m.Hash})
		}
		known, err := billing.RulesVersions(ctx, r.DB)
		wasActive := func(m billing.RulesVersion) bool { return m.Since != nil }
		if err != nil || len(known) == 0 || !known[0].Active || r.now.Sub(*known[0].Since) > recent ||
			!slices.ContainsFunc(known[1:], wasActive) { // the first activation of rules is not a change
			return list, err
		}
		active := known[0]
		return append(list, notice.Condition{Name: fmt.Sprintf("changed:%s:%d", active.Hash, active.Since.Unix()),
			Severity: notice.Ticket, Since: *active.Since, Once: true,
			Message: "the active billing rules were changed to " + active.Hash, Command: "rules show"}), nil
	},
}
