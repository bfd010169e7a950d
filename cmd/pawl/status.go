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
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// statusReport is what `pawl status` shows.
type statusReport struct {
	*timeline.Backlog
	Sinks []report.Sink `json:"sinks"`
	// Tasks count what a person has to do.
	Tasks []account.Count `json:"tasks"`
	// Notices are what people are told.
	Notices []notice.Notice `json:"notices"`
	// Concerns are what a person should know of beside events.
	Concerns []report.Concern `json:"concerns"`
	// Jobs are those that run or are paused.
	Jobs []job.Job `json:"jobs"`
}

func status(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show what is parked and why, what waits, and which sinks are out", Args: noArgument,
		Long: `Show how pawl stands, on one screen: the parked events by cause, with age and money; people's tasks by kind; the work
that goes on by itself; what people are told by notify; each sink; the bulk jobs that are under way; everything that is
paused, refused, or not taken by a subscriber, and whether anybody works. It ends with the commands that go on from there. Money is counted once for each
object; of an event that was parked before it was read it is not known.`,
	}
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) (r statusReport, err error) {
		if r.Backlog, err = timeline.ReadBacklog(ctx, s.db); err != nil {
			return r, err
		}
		if r.Sinks, err = report.ReadSinks(ctx, s.cfg, s.db); err != nil {
			return r, err
		}
		if r.Jobs, err = job.New(s.db).Open(ctx); err != nil {
			return r, err
		}
		if r.Tasks, err = account.CountTasks(ctx, s.db, false); err != nil {
			return r, err
		}
		if r.Notices, err = notice.New(s.db).Now(ctx); err != nil {
			return r, err
		}
		r.Concerns, err = report.Concerns(ctx, s.cfg, &s.Operator, r.Waiting)
		return r, err
	}, func(a *app, r statusReport) error { return writeStatus(a, r, time.Now()) })
}

func writeStatus(a *app, r statusReport, now time.Time) error {
	if len(r.Parked) == 0 {
		fmt.Fprintln(a.out, "nothing is parked: no event waits for a person")
	}
	if r.Oldest != nil {
		fmt.Fprintf(a.out, "the oldest that is open: %s (%s), %s%s, received %s ago\n",
			output.Clean(r.Oldest.EventID), output.Clean(r.Oldest.Type), r.Oldest.Status,
			output.Because(output.Clean(r.Oldest.ReasonCode)),
			output.Age(r.Oldest.ReceivedAt, now))
	}
	parked := [][]string{{"PARKED", "REASON", "EVENTS", "OLDEST", "MONEY"}}
	for _, c := range r.Parked {
		parked = append(parked,
			[]string{c.Status, c.ReasonCode, strconv.Itoa(c.Events), output.Age(c.Oldest, now), moneyOf(c.Money)})
	}
	waiting := [][]string{{"GOES ON", "REASON", "EVENTS", "OLDEST"}}
	for _, c := range r.Waiting {
		waiting = append(waiting, []string{c.Status, c.ReasonCode, strconv.Itoa(c.Events), output.Age(c.Oldest, now)})
	}
	commands := [][]string{{"Go on with:"}}
	for _, c := range statusCommands(r) {
		commands = append(commands, []string{"  " + a.commandLine(c[0]), "# " + c[1]})
	}
	tasks := [][]string{{"OPEN TASKS", "MODE", "TASKS", "OLDEST", "DUE BY"}}
	for _, t := range r.Tasks {
		tasks = append(tasks, []string{t.Kind, t.Mode, strconv.Itoa(t.Tasks), output.Age(t.Oldest, now),
			output.Date(t.DueBy)})
	}
	concerns := [][]string{{"ALSO", "WHICH", "FOR", "WHAT"}}
	for _, c := range r.Concerns {
		lasts := ""
		if c.Since != nil {
			lasts = output.Age(*c.Since, now)
		}
		concerns = append(concerns, []string{c.What, c.Name, lasts, c.Says})
	}
	for _, rows := range [][][]string{parked, tasks, waiting, noticeRows(r.Notices, now), concerns, sinkTable(r.Sinks),
		jobRows(r.Jobs)} {
		if len(rows) == 1 {
			continue // a heading alone
		}
		if _, err := fmt.Fprintln(a.out); err != nil {
			return err
		}
		if err := a.List(rows); err != nil {
			return err
		}
	}
	if len(commands) == 1 {
		return nil
	}
	fmt.Fprintln(a.out)
	return a.Table(commands)
}

// noticeRows are what people are told.
func noticeRows(notices []notice.Notice, now time.Time) [][]string {
	rows := [][]string{{"PEOPLE ARE TOLD", "SEVERITY", "FOR", "LAST TOLD"}}
	for _, n := range notices {
		told := "waits for the end of quiet hours"
		if n.Told != nil {
			told = output.Age(*n.Told, now) + " ago"
		}
		rows = append(rows, []string{output.Clean(n.What), string(n.Severity), output.Age(n.Since, now), told})
	}
	return rows
}

// statusCommands are the commands that lead on from what a report has, with what each shows.
func statusCommands(r statusReport) (commands [][2]string) {
	for _, c := range r.Parked {
		list := "events list --status " + c.Status
		if c.ReasonCode != "" {
			list += " --reason " + c.ReasonCode
		}
		commands = append(commands, [2]string{list, output.Plural(c.Events, "event")})
		if c.Status == string(receipt.Dead) && c.Events > 1 {
			retry := strings.Replace(list, "events list", "events retry", 1) + " --dry-run"
			commands = append(commands, [2]string{retry, "what a retry of all of them would do"})
		}
	}
	for _, t := range r.Tasks {
		commands = append(commands,
			[2]string{"tasks list --kind " + t.Kind + " --mode " + t.Mode, output.Plural(t.Tasks, "task")})
	}
	for _, j := range r.Jobs {
		commands = append(commands,
			[2]string{"jobs show " + operator.ShellWord(j.ID), "the " + j.Action + " of " + output.Plural(j.Items,
				j.Noun())})
	}
	for _, c := range r.Waiting {
		if c.Status == string(receipt.Retrying) {
			list := "events list --status retrying"
			if c.ReasonCode != "" {
				list += " --reason " + c.ReasonCode
			}
			commands = append(commands, [2]string{list, output.Plural(c.Events, "event")})
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
