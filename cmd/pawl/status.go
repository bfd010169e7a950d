package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// statusReport is what `pawl status` shows.
type statusReport struct {
	*timeline.Backlog
	Sinks []sinkReport `json:"sinks"`
	// Concerns are what a person should know of beside events.
	Concerns []operator.Concern `json:"concerns"`
	// Jobs are those that run or are paused.
	Jobs []job.Job `json:"jobs"`
}

func status(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show what is parked and why, what waits, and which sinks are out", Args: noArgument,
		Long: `Show how pawl stands, on one screen: what is parked, by cause, with its age and money; what goes on by itself; each
sink; the bulk jobs that are under way; what is paused, refused, or not taken by a subscriber, and whether anybody works. It ends with the commands that go on from there. Money is counted once for each object; of an event that was
parked before it was read it is not known.`,
	}
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) (report statusReport, err error) {
		if report.Backlog, err = timeline.ReadBacklog(ctx, s.db); err != nil {
			return report, err
		}
		if report.Sinks, err = readSinks(ctx, s.cfg, s.db); err != nil {
			return report, err
		}
		if report.Jobs, err = job.New(s.db).Open(ctx); err != nil {
			return report, err
		}
		report.Concerns, err = s.Concerns(ctx, report.Waiting)
		return report, err
	}, func(a *app, r statusReport) error { return writeStatus(a, r, time.Now()) })
}

func writeStatus(a *app, r statusReport, now time.Time) error {
	if len(r.Parked) == 0 {
		fmt.Fprintln(a.out, "nothing is parked: no event waits for a person")
	}
	if r.Oldest != nil {
		fmt.Fprintf(a.out, "the oldest that is open: %s (%s), %s%s, received %s ago\n",
			clean(r.Oldest.EventID), clean(r.Oldest.Type), r.Oldest.Status, because(clean(r.Oldest.ReasonCode)),
			age(r.Oldest.ReceivedAt, now))
	}
	parked := [][]string{{"PARKED", "REASON", "EVENTS", "OLDEST", "MONEY"}}
	for _, c := range r.Parked {
		parked = append(parked,
			[]string{c.Status, c.ReasonCode, strconv.Itoa(c.Events), age(c.Oldest, now), moneyOf(c.Money)})
	}
	waiting := [][]string{{"GOES ON", "REASON", "EVENTS", "OLDEST"}}
	for _, c := range r.Waiting {
		waiting = append(waiting, []string{c.Status, c.ReasonCode, strconv.Itoa(c.Events), age(c.Oldest, now)})
	}
	commands := [][]string{{"Go on with:"}}
	for _, c := range statusCommands(r) {
		commands = append(commands, []string{"  " + a.commandLine(c[0]), "# " + c[1]})
	}
	concerns := [][]string{{"ALSO", "WHICH", "FOR", "WHAT"}}
	for _, c := range r.Concerns {
		lasts := ""
		if c.Since != nil {
			lasts = age(*c.Since, now)
		}
		concerns = append(concerns, []string{c.What, c.Name, lasts, c.Says})
	}
	for _, rows := range [][][]string{parked, waiting, concerns, sinkTable(r.Sinks), jobRows(r.Jobs), commands} {
		if len(rows) == 1 {
			continue // a heading alone
		}
		if _, err := fmt.Fprintln(a.out); err != nil {
			return err
		}
		if err := table(a.out, rows); err != nil {
			return err
		}
	}
	return nil
}

// statusCommands are the commands that lead on from what a report has, with what each shows.
func statusCommands(r statusReport) (commands [][2]string) {
	for _, c := range r.Parked {
		list := "events list --status " + c.Status
		if c.ReasonCode != "" {
			list += " --reason " + c.ReasonCode
		}
		commands = append(commands, [2]string{list, plural(c.Events, "event")})
		if c.Status == string(receipt.Dead) && c.Events > 1 {
			retry := strings.Replace(list, "events list", "events retry", 1) + " --dry-run"
			commands = append(commands, [2]string{retry, "what a retry of all of them would do"})
		}
	}
	for _, j := range r.Jobs {
		commands = append(commands,
			[2]string{"jobs show " + operator.ShellWord(j.ID), "the " + j.Action + " of " + plural(j.Items, "event")})
	}
	for _, c := range r.Waiting {
		if c.Status == string(receipt.Retrying) {
			list := "events list --status retrying"
			if c.ReasonCode != "" {
				list += " --reason " + c.ReasonCode
			}
			commands = append(commands, [2]string{list, plural(c.Events, "event")})
		}
	}
	for _, c := range r.Concerns {
		commands = append(commands, [2]string{c.Command, c.What + ": " + c.Name})
	}
	if r.Oldest != nil {
		commands = append(commands, [2]string{"events show " + operator.ShellWord(r.Oldest.ID), "all about the oldest"})
	}
	return commands
}

// commandLine is a call of the program with the configuration of this one.
func (a *app) commandLine(command string) string {
	if a.configFile == defaultConfig {
		return "pawl " + command
	}
	return "pawl --config " + operator.ShellWord(a.configFile) + " " + command
}

// moneyOf is sums of money by currency; "" for none.
func moneyOf(money map[string]int64) string {
	var sums []string
	for _, currency := range slices.Sorted(maps.Keys(money)) {
		sums = append(sums, stripe.Money(money[currency], currency))
	}
	return strings.Join(sums, " + ")
}

// age is how long ago a time was.
func age(at, now time.Time) string {
	return roughly(max(0, now.Sub(at)))
}

// roughly is a time as a person says it.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
