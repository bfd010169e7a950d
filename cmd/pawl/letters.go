package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities/letters"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
)

func lettersPreview(a *app) *cobra.Command {
	var reveal bool
	var event string
	d := decision{Decision: operator.Decision{Verb: operator.VerbRevealLetters}}
	cmd := &cobra.Command{
		Use: "preview [NAME] --event ID", Short: "Show the letters of an event as they would go out",
		Long: `Show the letters that an event asks for, as they would go out now, and why one would not. NAME narrows it to one letter:
` + output.OneOf(letters.Names()) + `.

A letter that has gone out is written anew, with today's template and what is held of the customer now. Reminders and
other letters that the clock sends later are not shown.

The address and the page of the invoice are masked. --reveal shows them, and needs --why: who looked at it and why
goes into the audit trail.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case event == "":
				return usagef("letters preview needs --event")
			case len(args) > 1 || len(args) == 1 && !slices.Contains(letters.Names(), args[0]):
				return usagef("there is no letter %q: letters are %s", strings.Join(args, " "),
					output.OneOf(letters.Names()))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&event, "event", "", "the event: its `ID`, or any that pawl events show takes (required)")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show the address and the page; this is recorded")
	d.flags(cmd, "why it is revealed, for the audit trail")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		return d.reveals(a, "letters preview", reveal)
	}
	return show(a, cmd, func(ctx context.Context, s *session, args []string) ([]operator.PreviewedLetter, error) {
		found, err := revealed(ctx, s, &d, event, reveal, s.ShowLetters)
		if len(args) == 1 {
			found = slices.DeleteFunc(found, func(l operator.PreviewedLetter) bool {
				return l.Letter.Template != args[0]
			})
		}
		return found, err
	}, writeLetters)
}

func writeLetters(a *app, found []operator.PreviewedLetter) {
	if len(found) == 0 {
		fmt.Fprintln(a.out, "the event asks for no such letter")
	}
	for i, l := range found {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		a.Table([][]string{{"letter", l.Letter.Template + "  " + l.Key},
			{"it", l.Will.String() + output.Because(tables.PreviewNote(l.PreviewedEffect))},
			{"to", cmp.Or(l.Letter.To, "nobody: no address is held")}, {"subject", l.Letter.Subject}})
		writePayload(a, []byte(l.Letter.Text), "--json")
	}
}
