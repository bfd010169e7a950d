package report

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/endpoint"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

const (
	// live is the only mode with causes that are pages.
	live = "live"
	// minutes is the format of times.
	minutes = "2006-01-02 15:04 MST"
)

// How long each condition lasts before it is notified.
const (
	outFor       = 2 * time.Minute
	unstartedFor = 5 * time.Minute
	idleSince    = 3 * time.Minute
	untakenFor   = 15 * time.Minute
	doubtfulFor  = time.Hour
	idleFor      = 7 * 24 * time.Hour
	// recent is how long a single occurrence is notified.
	recent = 24 * time.Hour
	// dueSoon is the time before its deadline at which an open task becomes a page.
	dueSoon = 24 * time.Hour
)

// causes reads the conditions that people are notified about.
type causes struct {
	*operator.Operator
	cfg *config.Config
	now time.Time
}

// Causes returns the current conditions, and the kinds of conditions that could not be read.
func Causes(ctx context.Context, cfg *config.Config, o *operator.Operator) (found []notice.Cause,
	unread map[string]error) {
	c := causes{o, cfg, time.Now()}
	unread = map[string]error{}
	for kind, read := range map[string]func(context.Context) ([]notice.Cause, error){
		"parked": c.parked, "unstarted": c.unstarted, "task": c.tasks, "uncertain": c.uncertain, "sink": c.sinks,
		"subscriber": c.subscribers, "meaning": c.meanings, "job": c.jobs, "source": c.sources,
		"endpoint": c.endpoints, "failing": c.failing, "secret": c.secrets, "idle": c.idle, "second-person": c.pending,
		"repeated": c.repeated,
	} {
		list, err := read(ctx)
		if err != nil {
			unread[kind] = err
		}
		for _, cause := range list {
			cause.Name = kind + ":" + cause.Name
			found = append(found, cause)
		}
	}
	return found, unread
}

// pages returns the severity page if page is set and the mode is live. Otherwise it returns ticket.
func pages(page bool, mode string) notice.Severity {
	if page && mode == live {
		return notice.Page
	}
	return notice.Ticket
}

// many is a number of dead letters with one reason that indicates a broken sink or deployment, even without money in
// any.
const many = 10

// parked returns the parked events. Events with an uncertain effect are part of uncertain.
func (c causes) parked(ctx context.Context) (list []notice.Cause, err error) {
	found, err := timeline.ReadParked(ctx, c.DB, c.cfg.Notify.FinancialLike())
	for _, p := range found {
		if p.ReasonCode == inDoubt {
			continue
		}
		about, kind := "other", "event"
		if p.Financial {
			about, kind = "financial", "financial event"
		}
		command := "events list --status " + p.Status
		if p.ReasonCode != "" {
			command += " --reason " + p.ReasonCode
		}
		dead, runbook := p.Status == string(receipt.Dead), "parked-event"
		switch {
		case dead && p.Events >= many:
			runbook = "bulk-decisions"
		case !dead && !strings.HasPrefix(p.ReasonCode, "effect_"):
			runbook = "review"
		}
		list = append(list, notice.Cause{
			Name:     strings.Join([]string{p.Mode, p.Status, about, p.ReasonCode}, ":"),
			Severity: pages(dead && (p.Financial || p.Events >= many), p.Mode),
			What: fmt.Sprintf("%s%s: %s (%s)", p.Status, output.Because(p.ReasonCode), output.Plural(p.Events, kind),
				p.Mode),
			Since: p.Since, Count: p.Events, Money: p.Money, Command: command, Runbook: runbook,
		})
	}
	return list, err
}

// unstarted returns the events that wait too long for the start of their workflow.
func (c causes) unstarted(ctx context.Context) (list []notice.Cause, err error) {
	waiting, err := receipt.NewReader(c.DB).Backlog(ctx)
	if err != nil || waiting.Oldest == nil || c.now.Sub(*waiting.Oldest) < unstartedFor {
		return nil, err
	}
	return []notice.Cause{{
		Name: "received", Severity: notice.Page,
		What:  "workflows do not start: " + output.Plural(waiting.Count, "event") + " received",
		Since: *waiting.Oldest, Count: waiting.Count, Command: "doctor", Runbook: "temporal-down",
	}}, nil
}

// onboarding is the kind of task to welcome an account.
const onboarding = "onboarding"

// sources returns the sources that have stopped delivering.
func (c causes) sources(ctx context.Context) (list []notice.Cause, err error) {
	silent, err := receipt.Silent(ctx, c.DB, slices.Collect(maps.Keys(c.cfg.Sources)))
	for _, s := range silent {
		list = append(list, notice.Cause{
			Name: s.Source, Severity: pages(true, string(c.cfg.Sources[s.Source].Mode)), Since: s.Last, Count: 1,
			What: fmt.Sprintf("source %s is silent: %d deliveries were to be expected since its last one", s.Source,
				s.Expected),
			Command: "gaps " + operator.ShellWord(s.Source) + " --from 3d", Runbook: "missing-events",
		})
	}
	return list, err
}

// endpoints returns the findings of the last check of each source's endpoint.
func (c causes) endpoints(ctx context.Context) (list []notice.Cause, err error) {
	all, err := Endpoints(ctx, c.cfg, c.DB)
	for _, e := range all {
		for _, f := range e.Findings {
			if !f.Kind.Urgent() {
				continue
			}
			cause := notice.Cause{
				Name: e.Source + ":" + string(f.Kind), Since: f.Since, Count: 1,
				What:     "source " + e.Source + ": " + f.Says,
				Severity: pages(f.Kind == endpoint.Off, string(c.cfg.Sources[e.Source].Mode)),
				Command:  "doctor", Runbook: "endpoint",
			}
			if f.Kind == endpoint.Off {
				cause.Command = operator.Backfill(e)
			}
			if !f.Kind.Lasts() {
				cause.Name, cause.Once = cause.Name+":"+f.About, true
			}
			list = append(list, cause)
		}
	}
	return list, err
}

// failing returns the sources with failed deliveries that are halfway to being disabled by their provider.
func (c causes) failing(ctx context.Context) (list []notice.Cause, err error) {
	all, err := Countdowns(ctx, c.cfg, c.DB)
	for _, f := range all {
		if f.Share < GivesUpSoon {
			continue
		}
		list = append(list, notice.Cause{
			Name: f.Source, Since: f.Since, Count: f.Failures, What: "source " + f.Source + ": " + f.Says,
			Severity: pages(f.Share >= GivesUpNow, string(c.cfg.Sources[f.Source].Mode)), Command: "doctor",
			Runbook: "failing-source",
		})
	}
	return list, err
}

// Endpoints returns the endpoints of the sources that pawl watches.
func Endpoints(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) ([]endpoint.Endpoint, error) {
	unwatched := func(name string) bool { return !cfg.Watches(name) }
	return endpoint.All(ctx, db, slices.DeleteFunc(slices.Collect(maps.Keys(cfg.Sources)), unwatched))
}

// tasks returns the open tasks in live mode, one row per price, per connected account, and per other kind. The cause
// parked covers reviews.
func (c causes) tasks(ctx context.Context) (list []notice.Cause, err error) {
	counts, err := account.CountTasks(ctx, c.DB, true)
	for _, t := range counts {
		idle := t.Kind == billing.TaskRelease || t.Kind == onboarding
		if t.Mode != live || t.Kind == billing.TaskReview || idle && c.now.Sub(t.Oldest) < idleFor {
			continue
		}
		urgent, runbook, name := t.Kind == billing.TaskPrice, "tasks", t.Mode+":"+t.Kind
		command := "tasks list --kind " + t.Kind + " --mode " + t.Mode
		if t.About != "" {
			command += " --about " + operator.ShellWord(t.About)
		}
		what := fmt.Sprintf("open: %s of kind %s", output.Plural(t.Tasks, "task"), t.Kind)
		switch {
		case t.Kind == billing.TaskAccount:
			what = "no source maps connected account " + t.About
			runbook, name = "connected-accounts", name+":"+t.About
		case t.About != "":
			what = fmt.Sprintf("nothing says what price %s means, paid for by %s", t.About,
				output.Plural(t.Tasks, "account"))
			runbook, name = "unmapped-price", name+":"+t.About
		}
		if len(t.Money) > 0 {
			what += ", " + operator.Sums(t.Money)
		}
		if t.DueBy != nil {
			what += ", due by " + t.DueBy.UTC().Format(minutes)
			urgent = urgent || t.DueBy.Sub(c.now) < dueSoon
		}
		list = append(list, notice.Cause{
			Name: name, Severity: pages(urgent, t.Mode), What: what, Since: t.Oldest, Count: t.Tasks, Money: t.Money,
			Command: command, Runbook: runbook,
		})
	}
	return list, err
}

// pending returns the decisions that wait for a second person, by verb. It ignores expired ones.
func (c causes) pending(ctx context.Context) (list []notice.Cause, err error) {
	waiting, err := pending.List(ctx, c.DB)
	byVerb := map[string][]pending.Decision{}
	for _, p := range waiting {
		byVerb[p.Does()] = append(byVerb[p.Does()], p)
	}
	for verb, of := range byVerb { // oldest first
		cause := notice.Cause{Name: verb, Severity: notice.Ticket, Since: of[0].AskedAt, Count: len(of),
			What: fmt.Sprintf("a second person is to decide: %s of %s, the first until %s", verb,
				output.Plural(len(of), "target"), of[0].Until.UTC().Format(minutes)),
			Money: map[string]int64{}, Command: "status", Runbook: "second-person"}
		if page := c.cfg.Console.URL; page != "" {
			cause.What += ", at " + page
		}
		for _, p := range of {
			for currency, amount := range p.Money {
				cause.Money[currency] = schema.Plus(cause.Money[currency], amount)
			}
		}
		list = append(list, cause)
	}
	return list, err
}

// inDoubt is the reason code of an event with an uncertain effect.
const inDoubt = "effect_uncertain"

// uncertain returns the effects with an unknown outcome.
func (c causes) uncertain(ctx context.Context) (list []notice.Cause, err error) {
	found, err := ledger.Doubtful(ctx, c.DB, doubtfulFor)
	for _, d := range found {
		list = append(list, notice.Cause{
			Name: d.Mode + ":" + d.Kind, Severity: notice.Ticket,
			What:  fmt.Sprintf("in doubt: %s of kind %s (%s)", output.Plural(d.Effects, "effect"), d.Kind, d.Mode),
			Since: d.Since, Count: d.Effects, Command: "events list --reason " + inDoubt,
			Runbook: "uncertain-email",
		})
	}
	return list, err
}

// sinks returns the configured sinks with a breaker that has been open for a while.
func (c causes) sinks(ctx context.Context) (list []notice.Cause, err error) {
	breakers, err := breaker.New(c.DB).All(ctx)
	served := c.cfg.Served()
	for _, b := range breakers {
		if !b.Open || c.now.Sub(b.Since) < outFor ||
			!slices.ContainsFunc(served, func(s config.Served) bool { return s.Name == b.Sink }) {
			continue
		}
		severity := notice.Page
		if strings.HasPrefix(b.Sink, config.NotifyPrefix) || strings.HasSuffix(b.Sink, ":test") {
			severity = notice.Ticket
		}
		list = append(list, notice.Cause{
			Name: b.Sink, Severity: severity, What: "sink " + b.Sink + " is out: " + b.Reason, Since: b.Since, Count: 1,
			Command: "sinks", Runbook: "sink-down",
		})
	}
	return list, err
}

// subscribers returns the subscribers that have been rejecting published events for a while.
func (c causes) subscribers(ctx context.Context) (list []notice.Cause, err error) {
	untaken, err := outbox.New(c.DB).Refused(ctx)
	for _, u := range untaken {
		name, _, _ := strings.Cut(strings.TrimPrefix(u.Error, "subscriber "), ": ")
		named := func(c notice.Cause) bool { return c.Name == name }
		if c.now.Sub(u.Since) < untakenFor || slices.ContainsFunc(list, named) {
			continue
		}
		list = append(list, notice.Cause{
			Name: name, Severity: notice.Ticket, What: "subscriber " + name + " does not take its news", Since: u.Since,
			Count: 1, Command: "sinks check", Runbook: "failing-subscriber",
		})
	}
	return list, err
}

// meanings returns the meanings that workers propose, and a recent switch to another meaning.
func (c causes) meanings(ctx context.Context) (list []notice.Cause, err error) {
	proposals, err := billing.Proposals(ctx, c.DB)
	if err != nil {
		return nil, err
	}
	cause := notice.Cause{Severity: notice.Ticket, Count: 1, Runbook: "unmapped-price"}
	for _, m := range proposals {
		cause.Name, cause.Command = "proposed:"+m.Hash, "meaning diff --hash "+m.Hash
		cause.What = "a worker's file says another meaning of the facts than that in force: " + m.Hash
		list = append(list, cause)
	}
	known, err := billing.Meanings(ctx, c.DB)
	if err != nil || len(known) == 0 || !known[0].InForce || c.now.Sub(*known[0].Since) > recent ||
		!slices.ContainsFunc(known[1:], func(m billing.Meaning) bool { return m.Since != nil }) {
		return list, err // the first meaning is no switch
	}
	now := known[0]
	cause.Name, cause.Since, cause.Once = fmt.Sprintf("switched:%s:%d", now.Hash, now.Since.Unix()), *now.Since, true
	cause.What, cause.Command = "the meaning of the facts was changed to "+now.Hash, "meaning show"
	return append(list, cause), nil
}

// mostJobs is the number of newest jobs that are checked.
const mostJobs = 50

// jobs returns the jobs that ended with failures.
func (c causes) jobs(ctx context.Context) (list []notice.Cause, err error) {
	newest, err := job.New(c.DB).List(ctx, mostJobs, "")
	for _, j := range newest {
		if j.Failed == 0 || j.FinishedAt == nil || c.now.Sub(*j.FinishedAt) > recent {
			continue
		}
		list = append(list, notice.Cause{
			Name: j.ID, Severity: notice.Ticket, Once: true, Since: *j.FinishedAt, Count: 1,
			What: fmt.Sprintf("a %s job has ended, and %d of %s have failed", j.Action, j.Failed,
				output.Plural(j.Items, j.Noun())),
			Command: "jobs show " + operator.ShellWord(j.ID), Runbook: "bulk-decisions",
		})
	}
	return list, err
}
