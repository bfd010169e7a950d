package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/timeline"
)

// shownEvent is what `pawl events show` shows: one event, or those that are about an object.
type shownEvent struct {
	*operator.Evidence
	Object string             `json:"object,omitempty"`
	Events []timeline.Receipt `json:"events,omitempty"`
	// page is the event's in the Temporal UI, "" for none.
	page string
}

func eventsShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show everything about one event",
		Long: `Show everything about one event. ID is an event ID, a receipt ID, a workflow ID, the key of an effect, or an object
of the provider's, such as an invoice, also by its number: of an object with several events, the list of them.

It shows, in this order: when it was first received; how often it was tried, and when the next try is; the effects that
are done; those that are not done, not begun or in doubt; the decisions, with who and why; and whether a replay would be
safe. Then come the steps in the order of time, a verdict, and the verbs that work. Only Temporal knows the next try: if
it does not answer within three seconds, that is said, and everything else is shown.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("events show needs one ID: of an event, a receipt, a workflow, an effect or an object")
			}
			return nil
		},
	}
	return show(a, cmd, func(ctx context.Context, s *session, args []string) (shownEvent, error) {
		event, about, err := s.Examine(ctx, args[0])
		if err != nil || event == nil {
			return shownEvent{Object: args[0], Events: about}, err
		}
		return shownEvent{Evidence: event, page: temporalPage(s.cfg.Temporal, &event.Event)}, nil
	}, func(a *app, shown shownEvent) error {
		if shown.Evidence == nil {
			return writeReceipts(a, shown.Events)
		}
		return writeEvidence(a, shown.Evidence, shown.page)
	})
}

// writeEvidence puts one event on one screen: its head, the answers to the questions that are asked first, every step,
// a verdict, and the choices. page is its run's in the Temporal UI, "" for none.
func writeEvidence(a *app, e *operator.Evidence, page string) error {
	for _, part := range [][][]string{tables.EventHead(e, page), tables.Received(e), tables.Done(e), tables.Undone(e),
		tables.AskedFor(e),
		tables.Timeline(e.Timeline)} {
		if err := a.Table(part); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.out); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.out, "verdict: %s\n", output.Clean(e.Verdict))
	head := "What can be done:"
	if e.Parked() {
		head = "What can be done, and goes into the audit trail with who and why:"
	}
	return a.writeChoices(head, e.Choices)
}

// temporalPage is where the Temporal UI shows the event's latest run, "" where that is not known.
func temporalPage(t config.Temporal, e *timeline.Event) string {
	return t.Page(e.Receipt.WorkflowID, e.LatestRun())
}

// writeChoices writes what can be done about an event as commands for a shell, with what each does behind a "#".
func (a *app) writeChoices(head string, choices []operator.Choice) error {
	if len(choices) == 0 {
		return nil
	}
	rows := [][]string{{head}}
	for _, c := range choices {
		rows = append(rows, []string{"  " + a.configured(c).Line(), "# " + c.Does})
	}
	return a.Table(rows)
}

// configured is a choice with the configuration of this call, so that it works where it is pasted.
func (a *app) configured(c operator.Choice) operator.Choice {
	if c.Command[0] == "pawl" && a.configFile != defaultConfig {
		c.Command = slices.Insert(slices.Clone(c.Command), 1, "--config", a.configFile)
	}
	return c
}
