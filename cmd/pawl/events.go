package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

func (a *app) eventsList() *cobra.Command {
	var f operator.Events
	var since string
	cmd := &cobra.Command{
		Use: "list", Short: "List events, the newest first", Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Status != "" && !slices.Contains(receipt.Statuses, receipt.Status(f.Status)) {
				return usagef("--status: %q is no status: use one of %s", f.Status, strings.Join(statuses(), ", "))
			}
			if f.Limit < 1 {
				return usagef("--limit: write a number from 1")
			}
			var err error
			if f.Since, err = sinceFlag(since, time.Now()); err != nil {
				return err
			}
			if _, err := uuid.Parse(f.OlderThan); f.OlderThan != "" && err != nil {
				return usagef("--older-than takes the ID of a receipt, as --json shows it")
			}
			limit := f.Limit
			f.Limit = oneMore(limit)
			var receipts []timeline.Receipt
			err = a.withDatabase(cmd.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
				receipts, err = operator.ListEvents(ctx, db, f)
				return err
			})
			if err != nil {
				return err
			}
			if len(receipts) > limit {
				receipts = receipts[:limit]
				fmt.Fprintf(a.err, "there are more than these %d, the newest: use --limit, or go on with --older-than %s\n", limit, receipts[limit-1].ID)
			}
			if a.json {
				return a.writeJSON(receipts)
			}
			return a.writeReceipts(receipts)
		},
	}
	cmd.Flags().StringVar(&f.Status, "status", "", "only events with this `status`")
	cmd.Flags().StringVar(&f.ReasonCode, "reason", "", "only events with this reason `code`, such as type_not_wanted")
	cmd.Flags().StringVar(&f.Source, "source", "", "only events of this source")
	cmd.Flags().StringVar(&f.Type, "type", "", "only events of this type")
	cmd.Flags().StringVar(&f.Object, "object", "", "only events about this object of the provider: an invoice, a subscription, a customer, ...")
	cmd.Flags().StringVar(&f.Account, "account", "", "only events about this account of ours")
	cmd.Flags().StringVar(&since, "since", "", "only events received since this `time`: 90m, 7d, 2026-11-22 or 2026-11-22T08:00:00Z")
	cmd.Flags().StringVar(&f.OlderThan, "older-than", "", "go on behind this `receipt`")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "how many at most")
	return cmd
}

// sinceFlag reads a time, or how long ago it was.
func sinceFlag(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("--since: %q is no time: write how long ago, as 90m or 7d, or a time, as 2026-11-22 or 2026-11-22T08:00:00Z", text)
}

// statuses are the words that --status takes.
func statuses() (words []string) {
	for _, s := range receipt.Statuses {
		words = append(words, string(s))
	}
	return words
}

func (a *app) eventsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show everything about one event",
		Long: `Show everything about one event. ID is an event ID, a receipt ID, a workflow ID, the key of an effect, or an object
of the provider's, such as an invoice: of an object with several events, the list of them.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("events show needs one ID: of an event, a receipt, a workflow, an effect or an object")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var event *timeline.Event
			var about []timeline.Receipt
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
				event, about, err = operator.Show(ctx, db, args[0])
				return err
			})
			switch {
			case err != nil:
				return err
			case a.json && event == nil:
				return a.writeJSON(map[string]any{"object": args[0], "events": about})
			case a.json:
				return a.writeJSON(event)
			case event == nil:
				return a.writeReceipts(about)
			}
			return a.writeEvent(args[0], event)
		},
	}
}

func (a *app) writeReceipts(receipts []timeline.Receipt) error {
	rows := [][]string{{"RECEIVED", "STATUS", "SOURCE", "TYPE", "ACCOUNT", "AMOUNT", "EVENT", "DUPLICATES", "REASON"}}
	for _, r := range receipts {
		rows = append(rows, []string{clock(r.ReceivedAt), r.Status, r.Source, r.Type, r.OurAccount, amountOf(r), r.EventID, strconv.Itoa(r.Duplicates), r.Reason})
	}
	return table(a.out, rows)
}

// amountOf is the money that an event is about, "" for none.
func amountOf(r timeline.Receipt) string {
	if r.Amount == nil {
		return ""
	}
	return stripe.Money(*r.Amount, r.Currency)
}

// writeEvent puts one event, which id names, on one screen: what it is, its effects, the timeline, and what can be done
// about it where it waits for that.
func (a *app) writeEvent(id string, e *timeline.Event) error {
	r := e.Receipt
	head := [][]string{
		{"event", r.EventID + "  " + r.Type},
		{"status", r.Status + because(r.Reason)},
		{"source", r.Source + " (" + strings.Join(slices.DeleteFunc([]string{r.Provider, r.Account, r.Mode, r.APIVersion}, empty), ", ") + ")"},
		{"receipt", r.ID},
		{"bytes", bytesOf(e)},
		{"deliveries", fmt.Sprintf("%d, of them %s", len(e.Deliveries), plural(r.Duplicates, "duplicate"))},
	}
	if about := strings.Join(slices.DeleteFunc([]string{r.OurAccount, amountOf(r)}, empty), ", "); about != "" {
		head = append(head, []string{"about", about})
	}
	if r.RelayOf != "" {
		head = append(head, []string{"relays", r.RelayOf + ", which another source's receipt runs"})
	}
	if r.WorkflowID != "" {
		head = append(head, []string{"workflow", r.WorkflowID})
	}
	if r.LastError != "" {
		head = append(head, []string{"last error", r.LastError})
	}
	effects := [][]string{{"EFFECT", "STATE", "ATTEMPTS", "KEY", "NOTE"}}
	for _, f := range e.Effects {
		effects = append(effects, []string{f.Kind, f.State, strconv.Itoa(f.Attempts), f.Key, effectNote(f)})
	}
	for _, rows := range [][][]string{head, effects, timelineRows(e.Timeline)} {
		if err := table(a.out, rows); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.out); err != nil {
			return err
		}
	}
	return a.writeChoices(operator.Choices(id, e))
}

// writeChoices writes what can be done about an event as commands for a shell, with what each does behind a "#".
func (a *app) writeChoices(choices []operator.Choice) error {
	if len(choices) == 0 {
		return nil
	}
	rows := [][]string{{"It waits for you. What can be done, and goes into the audit trail with who and why:"}}
	for _, c := range choices {
		if c.Command[0] == "pawl" && a.configFile != defaultConfig {
			c.Command = slices.Insert(slices.Clone(c.Command), 1, "--config", a.configFile)
		}
		words := make([]string, len(c.Command))
		for i, word := range c.Command {
			words[i] = shellWord(word)
		}
		rows = append(rows, []string{"  " + strings.Join(words, " "), "# " + c.Does})
	}
	return table(a.out, rows)
}

// bytesOf says whose bytes count: an event may have come through several sources, with different ones.
func bytesOf(e *timeline.Event) string {
	d := e.Counts()
	signed := ""
	if d.SecretLabel != "" {
		signed = ", signed with " + d.SecretLabel
	}
	return "as delivered to " + d.Source + " at " + clock(d.ReceivedAt) + signed
}

// effectNote says what its state leaves open: why an effect is not done, that it may have happened all the
// same, and which other event has claimed it.
func effectNote(f timeline.Effect) string {
	if f.State == "done" && f.SatisfiedBy != "" {
		return "already done by " + f.SatisfiedBy
	}
	var notes []string
	if f.LastError != "" {
		notes = append(notes, f.LastError)
	}
	if (f.State == "failed" || f.State == "skipped") && f.MayHaveHappened && !strings.Contains(f.LastError, "may have happened") {
		notes = append(notes, "it may have happened: an attempt was not answered")
	}
	if f.SatisfiedBy != "" {
		notes = append(notes, "by "+f.SatisfiedBy)
	}
	return strings.Join(notes, "; ")
}

// timelineRows are the steps of an event, a storm of equal ones in one row: it is to fit on a screen.
func timelineRows(entries []timeline.Entry) [][]string {
	rows := [][]string{{"TIME", "WHAT", "DETAIL"}}
	for i := 0; i < len(entries); {
		s, times := entries[i], 1
		for i++; i < len(entries) && entries[i].What == s.What && entries[i].Detail == s.Detail && entries[i].Key == s.Key && entries[i].Error == s.Error; i++ {
			times++
		}
		detail := about(s) + because(s.Error)
		if times > 1 {
			detail += fmt.Sprintf(" (%d times, until %s)", times, clock(entries[i-1].At))
		}
		rows = append(rows, []string{clock(s.At), s.What, detail})
	}
	return rows
}

// about is an entry's detail, of a relay with its consumer: an event has one relay for each.
func about(s timeline.Entry) string {
	rest, relay := strings.CutPrefix(s.Detail, "relay")
	if !relay || !strings.HasPrefix(s.Key, "relay:") {
		return s.Detail
	}
	return "relay to " + s.Key[strings.LastIndex(s.Key, ":")+1:] + rest
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func empty(s string) bool { return s == "" }
