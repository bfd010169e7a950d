package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/job"
)

// shownItems is how many of a job's events a screen shows.
const shownItems = 20

// tellOfMore says how many entries a screen leaves out, where it leaves out any.
func tellOfMore(a *app, left int) {
	if left > 0 {
		fmt.Fprintf(a.out, "and %d more; --json has all\n", left)
	}
}

// filterFlags are those that choose the events of a bulk job, in place of an ID.
var filterFlags = []string{"status", "reason", "source", "type", "object", "account", "since", "until"}

// bulk is a call of a command about many events.
type bulk struct {
	filter operator.Events
	words  func() map[string]string
	rate   float64
	yes    bool
}

// eventFilter gives a command the flags that choose events.
func eventFilter(cmd *cobra.Command, f *operator.Events, status string) {
	cmd.Flags().StringVar(&f.Status, "status", "", status)
	cmd.Flags().StringVar(&f.ReasonCode, "reason", "", "only events with this reason `code`, such as type_not_wanted")
	cmd.Flags().StringVar(&f.Source, "source", "", "only events of this source")
	cmd.Flags().StringVar(&f.Type, "type", "", "only events of this type")
	cmd.Flags().StringVar(&f.Object, "object", "", "only events about this object of the provider: an invoice (also by its number), a subscription, a customer, ...")
	cmd.Flags().StringVar(&f.Account, "account", "", "only events about this account of ours")
	timeFlag(cmd.Flags(), &f.Since, "since", "only events received since "+sinceUsage)
	timeFlag(cmd.Flags(), &f.Until, "until", "only events received before this `time`")
}

// bulkFlags gives a command the flags of a bulk job.
func bulkFlags(cmd *cobra.Command) *bulk {
	b := new(bulk)
	eventFilter(cmd, &b.filter, "many at once: all events with this `status`, and what else narrows them, in place of ID")
	cmd.Flags().Float64Var(&b.rate, "rate", 5, "how many events a second, at most")
	cmd.Flags().BoolVar(&b.yes, "yes", false, "do not ask for confirmation")
	b.words = func() map[string]string {
		words := map[string]string{}
		for _, name := range filterFlags {
			if value := cmd.Flags().Lookup(name).Value.String(); value != "" {
				words[name] = value
			}
		}
		return words
	}
	return b
}

// isBulk reports whether a call is about many events.
func isBulk(cmd *cobra.Command) bool {
	return cmd.Flags().Lookup("rate") != nil &&
		slices.ContainsFunc(append([]string{"rate", "about"}, filterFlags...), cmd.Flags().Changed)
}

// targets wants what a verb is about: one ID, or none and a filter if it can be about many.
func targets(v operator.Verb) cobra.PositionalArgs {
	switch {
	case v.ManyTasks:
		return func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && isBulk(cmd) {
				return usagef("%s takes one OBJECT, or a filter, and not both", v.Command)
			}
			return nil
		}
	case len(v.Many) == 0:
		return oneID(v.Command)
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case !isBulk(cmd) && len(args) != 1:
			return usagef("%s needs one ID, or --status for many", v.Command)
		case isBulk(cmd) && len(args) > 0:
			return usagef("%s takes one ID, or a filter, and not both: leave %q out, or the filter", v.Command, args[0])
		}
		return nil
	}
}

func (b *bulk) check(v operator.Verb, d operator.Decision) error {
	if err := v.CheckMany(b.filter.Status, b.rate); err != nil {
		return usagef("--%w", err)
	}
	if len(d.Request) > operator.MaxJobID || strings.Contains(d.Request, " ") {
		return usagef("--request-id: the request ID of a job has %d characters at most, without spaces", operator.MaxJobID)
	}
	return nil
}

// run makes a job of the chosen events, or previews it.
func (b *bulk) run(ctx context.Context, a *app, v operator.Verb, d operator.Decision, dryRun bool) error {
	if err := b.check(v, d); err != nil {
		return err
	}
	var chosen operator.Chosen
	known := false
	if err := a.asking(ctx, func(ctx context.Context, s *session) (err error) {
		if d.Request != "" && !dryRun {
			// A repeated request is not chosen, and not confirmed, again.
			if _, err = job.New(s.db).Get(ctx, d.Request); !errors.Is(err, job.ErrNotFound) {
				known = err == nil
				return err
			}
		}
		chosen, err = operator.ChooseEvents(ctx, s.db, b.filter)
		return err
	}); err != nil {
		return err
	}
	made := &operator.NewJob{Job: job.Job{Action: v.Name, Effect: d.Effect, Reference: d.Reference,
		Filter: b.words(), Rate: b.rate},
		Chosen: chosen}
	switch {
	case dryRun:
		return b.preview(ctx, a, made)
	case known:
	case len(chosen.Events) == 0:
		return fmt.Errorf("there is nothing to %s: no event passes the filter", v.Name)
	case !b.yes:
		if err := a.confirmNumber(v.Name, chosen); err != nil {
			return err
		}
	}
	if d.Request == "" {
		d.Request = v.Name + "-" + uuid.NewString()[:8]
	}
	return a.decide(ctx, operator.Decision{
		Verb: operator.VerbStartJob, Target: d.Request, Who: d.Who, Why: d.Why, Request: d.Request,
		Args: operator.Args{Found: made},
	})
}

// preview shows what a job would do.
func (b *bulk) preview(ctx context.Context, a *app, j *operator.NewJob) error {
	var made *operator.JobPreview
	if err := a.asking(ctx, func(ctx context.Context, s *session) (err error) {
		made, err = s.PreviewJob(ctx, nil, j)
		return err
	}); err != nil {
		return err
	}
	return emit(a, made, writeJobPreview)
}

// confirmNumber has a person type how many events a job acts on.
func (a *app) confirmNumber(action string, chosen operator.Chosen) error {
	n := len(chosen.Events)
	question := fmt.Sprintf("%s of %s%s. To go on, type how many they are: ", action, output.Plural(n, "event"),
		tables.InBrackets(operator.Sums(chosen.Money)))
	if a.ask(question) != strconv.Itoa(n) {
		return fmt.Errorf("not confirmed, and nothing done: type %d, or write --yes; --dry-run shows what would happen", n)
	}
	return nil
}

// writeJobPreview shows what a job would be about, and what would come of it.
func writeJobPreview(a *app, p *operator.JobPreview) error {
	if err := a.Table(tables.Chosen(p.Events[:min(shownItems, len(p.Events))])); err != nil {
		return err
	}
	tellOfMore(a, len(p.Events)-shownItems)
	fmt.Fprintf(a.out, "\nwould %s %s%s; nothing was done\n", p.Action, output.Plural(p.Count, "event"),
		tables.InBrackets(operator.Sums(p.Chosen.Money)))
	for _, row := range tables.JobPreview(p) {
		if _, err := fmt.Fprintf(a.out, "%s: %s\n", row[0], output.Clean(row[1])); err != nil {
			return err
		}
	}
	return nil
}
