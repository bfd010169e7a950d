package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities/letters"
	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	events "github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
)

func emailsPreview(a *command.App) *cobra.Command {
	var reveal bool
	var event string
	d := decision{Decision: decide.Decision{Verb: events.RevealEmails.Name}}
	cmd := &cobra.Command{
		Use: "preview [NAME] --event ID", Short: "Show the emails of an event as pawl would send them now",
		Long: `Show the emails of an event as pawl would send them now, and the reason if an email would not be sent. NAME selects one
email: ` + output.OneOf(letters.Names()) + `.

An email that was already sent is rendered again, with the current template and the current data of the customer.
Reminders and other emails of scheduled actions are not shown.

The address and the link to the invoice are masked. --reveal shows them and needs --reason. The audit trail records who
viewed them and why.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case event == "":
				return command.Usagef("emails preview needs --event")
			case len(args) > 1 || len(args) == 1 && !slices.Contains(letters.Names(), args[0]):
				return command.Usagef("there is no email %q: use %s", strings.Join(args, " "),
					output.OneOf(letters.Names()))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&event, "event", "",
		"the event: its `ID`, or any ID that pawl events show accepts (required)")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show the address and the link; the audit trail records it")
	d.flags(cmd, "the reason, for the audit trail")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		return d.reveals(a, "emails preview", reveal)
	}
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, args []string) ([]events.PreviewedLetter,
		error) {
		found, err := revealed(ctx, s, &d, event, reveal, events.ShowLetters)
		if len(args) == 1 {
			found = slices.DeleteFunc(found, func(l events.PreviewedLetter) bool {
				return l.Letter.Template != args[0]
			})
		}
		return found, err
	}, writeEmails)
}

func writeEmails(a *command.App, found []events.PreviewedLetter) {
	if len(found) == 0 {
		fmt.Fprintln(a.Out, "the event has no such email")
	}
	for i, l := range found {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		a.Table(output.Table{{"email", l.Letter.Template + "  " + l.Key},
			{"it", l.Will.String() + output.WithReason(tables.PreviewNote(l.PreviewedEffect))},
			{"to", cmp.Or(l.Letter.To, "no address is known")}, {"subject", l.Letter.Subject}})
		writePayload(a, []byte(l.Letter.Text), "--json")
	}
}
