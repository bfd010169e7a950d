package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/job"
)

// confirmAbove is how many events a job may have that nobody is asked to confirm.
const confirmAbove = 50

// shownItems is how many of a job's events a screen shows.
const shownItems = 20

// filterFlags are those that choose the events of a bulk job, in place of an ID.
var filterFlags = []string{"status", "reason", "source", "type", "object", "account", "since"}

// bulkFlags gives a command the flags of a bulk job.
func bulkFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("status", "", "many at once: all events with this `status`, and what else narrows them, in place of ID")
	f.String("reason", "", "only events with this reason `code`")
	f.String("source", "", "only events of this source")
	f.String("type", "", "only events of this type")
	f.String("object", "", "only events about this object of the provider")
	f.String("account", "", "only events about this account of ours")
	f.String("since", "", "only events received since this `time`: 90m, 7d, 2026-11-22 or 2026-11-22T08:00:00Z")
	f.Float64("rate", 5, "how many events a second, at most")
	if f.Lookup("dry-run") == nil {
		f.Bool("dry-run", false, "show what would happen, and change nothing")
	}
	if f.Lookup("yes") == nil {
		f.Bool("yes", false, "do not ask for confirmation")
	}
}

// isBulk reports whether a call is about many events.
func isBulk(cmd *cobra.Command) bool {
	return slices.ContainsFunc(append([]string{"rate"}, filterFlags...), cmd.Flags().Changed)
}

// isBulkAction reports whether an action can be taken about many events at once.
func isBulkAction(action string) bool { return len(operator.ActsOn(action)) > 0 }

// targetsOf is what the help says that an action is about.
func targetsOf(action string) string {
	if isBulkAction(action) {
		return "{ID | --status STATUS}"
	}
	return "ID"
}

// targets wants what an action of `pawl events` is about: one ID, or none and a filter where it can be about many.
func targets(action string) cobra.PositionalArgs {
	command := "events " + action
	if !isBulkAction(action) {
		return oneID(command)
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case !isBulk(cmd) && len(args) != 1:
			return usagef("%s needs one ID, or --status for many", command)
		case isBulk(cmd) && len(args) > 0:
			return usagef("%s takes one ID, or a filter, and not both: leave %q out, or the filter", command, args[0])
		}
		return nil
	}
}

// bulk is a call of a command about many events.
type bulk struct {
	job    job.Job
	filter operator.Events
	dryRun bool
	yes    bool
}

// readBulk reads the flags that bulkFlags has given.
func readBulk(cmd *cobra.Command, ask operator.Ask) (bulk, error) {
	f, action := cmd.Flags(), ask.Verb
	words := map[string]string{}
	for _, name := range filterFlags {
		if value := f.Lookup(name).Value.String(); value != "" {
			words[name] = value
		}
	}
	b := bulk{job: job.Job{ID: ask.RequestID, Action: action, Effect: ask.Effect, Filter: words, Who: ask.Who, Why: ask.Why}}
	b.filter.Status, b.filter.ReasonCode, b.filter.Source = words["status"], words["reason"], words["source"]
	b.filter.Type, b.filter.Object, b.filter.Account = words["type"], words["object"], words["account"]
	var err error
	if b.filter.Since, err = sinceFlag(words["since"], time.Now()); err != nil {
		return b, err
	}
	// The flags are there, and of these types.
	b.job.Rate, _ = f.GetFloat64("rate")
	b.dryRun, _ = f.GetBool("dry-run")
	b.yes, _ = f.GetBool("yes")
	acts := operator.ActsOn(action)
	switch {
	case b.filter.Status == "":
		return b, usagef("many at once need --status: %s acts on %s", action, strings.Join(acts, " or "))
	case !slices.Contains(acts, b.filter.Status):
		return b, usagef("--status %s: %s acts on %s", b.filter.Status, action, strings.Join(acts, " or "))
	case b.job.Rate < operator.LeastJobRate || b.job.Rate > operator.MostJobRate:
		return b, usagef("--rate: write a number of events a second, from %g to %g", operator.LeastJobRate, operator.MostJobRate)
	}
	if err := operator.CheckJobID(b.job.ID); err != nil {
		return b, usagef("--request-id: %w", err)
	}
	return b, nil
}

// runBulk makes a job of what a call is about, or shows what it would be.
func (a *app) runBulk(cmd *cobra.Command, ask operator.Ask) error {
	b, err := readBulk(cmd, ask)
	if err != nil {
		return err
	}
	action := ask.Verb
	var chosen operator.Chosen
	var cfg *config.Config
	known := false
	err = a.withDatabase(cmd.Context(), func(ctx context.Context, loaded *config.Config, db *pgxpool.Pool) (err error) {
		cfg = loaded
		if b.job.ID != "" && !b.dryRun {
			// What was asked for before is not chosen, and not confirmed, again.
			if _, err = job.New(db).Get(ctx, b.job.ID); !errors.Is(err, job.ErrNotFound) {
				known = err == nil
				return err
			}
		}
		chosen, err = operator.ChooseEvents(ctx, db, b.filter)
		return err
	})
	switch {
	case err != nil:
		return err
	case b.dryRun:
		var made *operator.JobPreview
		if err := a.withDesk(cmd.Context(), func(ctx context.Context, desk *operator.Desk) (err error) {
			made, err = desk.PreviewJob(ctx, ask, chosen)
			return err
		}); err != nil {
			return err
		}
		return a.writeJobPreview(made)
	case known:
	case len(chosen.Events) == 0:
		return fmt.Errorf("there is nothing to %s: no event passes the filter", action)
	case len(chosen.Events) > confirmAbove && !b.yes:
		if err := a.confirmNumber(action, chosen); err != nil {
			return err
		}
	}
	n, err := process.New(cmd.Context(), cfg, providers(), a.log)
	if err != nil {
		return err
	}
	defer n.Close()
	var made *job.Job
	var isNew bool
	err = a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (err error) {
		jobs := &operator.Jobs{Store: job.New(db), Audit: audit.New(db, a.log), Temporal: n.Temporal, TaskQueue: cfg.Temporal.TaskQueue}
		made, isNew, err = jobs.Start(ctx, b.job, chosen)
		return err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(made)
	}
	what := "makes"
	if !isNew {
		what = "was made before, and is " + string(made.State) + ":"
	}
	fmt.Fprintf(a.out, "job %s %s a %s of %s%s at %g a second%s\nfollow it with: %s\n", clean(made.ID), what, made.Action,
		plural(made.Items, "event"), inBrackets(moneyOf(made.Money)), made.Rate, takes(made), a.commandLine("jobs show "+shellWord(made.ID)))
	return nil
}

// confirmNumber has a person type how many events a job acts on.
func (a *app) confirmNumber(action string, chosen operator.Chosen) error {
	n := len(chosen.Events)
	fmt.Fprintf(a.err, "%s of %d events%s. To go on, type how many they are: ", action, n, inBrackets(moneyOf(chosen.Money)))
	line, _ := bufio.NewReader(a.in).ReadString('\n') // what was not typed does not confirm
	if strings.TrimSpace(line) != strconv.Itoa(n) {
		fmt.Fprintln(a.err)
		return fmt.Errorf("not confirmed, and nothing done: type %d, or write --yes; --dry-run shows what would happen", n)
	}
	return nil
}

// writeJobPreview shows what a job would be about, and what would come of it.
func (a *app) writeJobPreview(p *operator.JobPreview) error {
	if a.json {
		return a.writeJSON(p)
	}
	rows := [][]string{{"EVENT", "TYPE", "STATUS", "REASON", "ACCOUNT", "AMOUNT"}}
	for _, e := range p.Events[:min(shownItems, len(p.Events))] {
		rows = append(rows, []string{e.EventID, e.Type, e.Status, e.ReasonCode, e.Account, amount(e.Amount, e.Currency)})
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	if more := len(p.Events) - shownItems; more > 0 {
		fmt.Fprintf(a.out, "and %d more; --json has all\n", more)
	}
	fmt.Fprintf(a.out, "\nwould %s %s%s; nothing was done\n", p.Action, plural(p.Count, "event"), inBrackets(moneyOf(p.Chosen.Money)))
	var ends []string
	for _, status := range slices.Sorted(maps.Keys(p.Outcomes)) {
		ends = append(ends, fmt.Sprintf("%d would be %s", p.Outcomes[status], status))
	}
	if p.Refused > 0 {
		ends = append(ends, fmt.Sprintf("%d would be refused", p.Refused))
	}
	if p.Unknown > 0 {
		ends = append(ends, fmt.Sprintf("of %d it cannot be said (%s)", p.Unknown, clean(p.Why)))
	}
	of := ""
	if p.Previewed < p.Count {
		of = fmt.Sprintf("of the newest %d, ", p.Previewed)
	}
	_, err := fmt.Fprintf(a.out, "%s%s\neffects: %s\n", of, strings.Join(ends, ", "), clean(totals(p.Counts, p.Sums)))
	return err
}

// takes says how long a job will take that has work left, "" for any other.
func takes(j *job.Job) string {
	if j.State != job.Running || j.Left() == 0 {
		return ""
	}
	return ", about " + roughly(time.Duration(float64(j.Left())/j.Rate*float64(time.Second)))
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}
