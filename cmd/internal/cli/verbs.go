package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/rejection"
	"github.com/pawlhq/pawl/cmd/internal/operator/token"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/workflows"
)

// verbsOf returns the commands of a group that make decisions. The commands are generated from the table of verbs.
func verbsOf(a *command.App, name string) (commands []*cobra.Command) {
	for _, v := range operator.Verbs {
		if in, use, ok := strings.Cut(v.Command, " "); ok && in == name {
			commands = append(commands, verbCommand(a, v, use))
		}
	}
	return commands
}

// verbAlone returns the command of a verb outside of all groups.
func verbAlone(a *command.App, name string) *cobra.Command {
	return verbCommand(a, *operator.Verbs.Named(name), name)
}

func verbCommand(a *command.App, v decide.Verb, use string) *cobra.Command {
	d := decision{Decision: decide.Decision{Verb: v.Name}}
	target := v.Target
	if len(v.Many) > 0 {
		target = "{" + target + " | --status STATUS}"
	}
	if v.ManyTasks {
		target = "{" + target + " | --kind KIND}"
	}
	cmd := &cobra.Command{Use: use + " " + target + " --reason REASON", Short: v.Short, Long: v.Long, Args: targets(v)}
	d.flags(cmd, cmp.Or(v.ReasonHelp, "the reason, for the audit trail (required)"))
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "show what would happen and change nothing")
	for _, f := range v.Flags {
		if f.Name == "mode" {
			command.ModeFlag(cmd, f.Value(&d.Args), f.Usage)
			continue
		}
		cmd.Flags().StringVar(f.Value(&d.Args), f.Name, "", f.Usage)
	}
	m := manyFlags(cmd, v, &d)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			d.Target = args[0]
		}
		if err := d.accountable(a, v.Command); err != nil {
			return err
		}
		if err := required(v, &d.Args); err != nil && !d.dryRun {
			return err
		}
		switch {
		case v.ManyTasks && len(args) == 0, isMany(cmd):
			return m.run(cmd, a, d)
		case d.dryRun:
			return a.Asking(cmd.Context(), func(ctx context.Context, s *command.Session) error {
				made, err := s.Preview(ctx, d.Decision)
				if err != nil {
					return err
				}
				return command.Emit(a, made, writePreview)
			})
		}
		if err := before(cmd.Context(), a, &d.Decision); err != nil {
			return err
		}
		return execute(cmd.Context(), a, d.Decision)
	}
	return cmd
}

func required(v decide.Verb, args *decide.Args) error {
	for _, f := range v.Flags {
		if f.Required && strings.TrimSpace(*f.Value(args)) == "" {
			return command.Usagef("%s needs --%s: %s", v.Command, f.Name,
				strings.TrimSuffix(strings.ReplaceAll(f.Usage, "`", ""), " (required)"))
		}
	}
	return nil
}

// before prints the consequence of an answer to a review. It asks for a confirmation before an effect is sent again.
func before(ctx context.Context, a *command.App, d *decide.Decision) error {
	resends := d.Verb == event.Resend.Name && d.Confirm == ""
	if !resends && d.Verb != event.Approve.Name && d.Verb != event.Reject.Name {
		return nil
	}
	var asks, does, key string
	err := a.Asking(ctx, func(ctx context.Context, s *command.Session) error {
		r, err := event.Find(ctx, s.DB, d.Target)
		if err != nil {
			return err
		}
		asks, does, _ = event.Question(r, d.Verb)
		if does != "" {
			fmt.Fprintf(a.Err, "%s: %s\n%s: it %s\n", output.Clean(r.Reason), asks, d.Verb, does)
		}
		key, _ = event.Doubtful(r, d.Effect)
		return nil
	})
	if err != nil || !resends || key == "" { // the decision itself refuses a resend without a key
		return err
	}
	fmt.Fprintf(a.Err, "%s may have happened already. If you send it again, it can happen twice, and this cannot be undone.\n", output.Clean(key))
	switch d.Confirm = a.Ask("To continue, type its key: "); d.Confirm {
	case key:
		return nil
	case "":
		return command.Usagef("events resend needs a confirmation: type the key of the effect, or add --confirm %s", key)
	}
	return fmt.Errorf("%q is not the key of the effect: nothing was done", output.Clean(d.Confirm))
}

func writeAnswer(a *command.App, answer *decide.Answer) {
	writeWarning(a, answer.Warning)
	text := fmt.Sprintf("%s of %s by %s: %s", answer.Verb, answer.Target, answer.Actor, answer.Message)
	follow := ""
	switch r := answer.Result.(type) {
	case *event.Result:
		follow = "events show " + decide.ShellWord(r.EventID)
		switch {
		case len(r.About) > 0:
			text += "; about " + strings.Join(r.About, ", ")
		case len(r.Effects) > 0:
			text += "; not done so far: " + strings.Join(r.Effects, ", ")
		}
	case *accounts.Result:
		follow = "accounts show " + decide.ShellWord(r.Account) + " --mode " + r.Mode
	case *job.Job:
		follow = "jobs show " + decide.ShellWord(r.ID)
		text += tables.Takes(r)
	case *account.Traces:
		writeTraces(a, r)
		return
	case *token.Result:
		if r.Token != "" {
			text += "\n" + r.Token
		}
	case *rejection.Admission:
		for _, e := range r.Receipts {
			text += fmt.Sprintf("\n%s  %s  %s%s", e.EventID, e.Type, e.Status, output.WithReason(e.Reason))
			if e.Duplicate && !answer.Repeated {
				text += ", a duplicate"
			}
		}
	}
	writeLines(a, text)
	if follow != "" {
		fmt.Fprintf(a.Out, "follow it with: %s\n", output.Clean(a.CommandLine(follow)))
	}
}

func writeWarning(a *command.App, text string) {
	if text != "" {
		fmt.Fprintf(a.Out, "warning: %s\n", output.Clean(text))
	}
}

func writeTraces(a *command.App, t *account.Traces) {
	held := output.Table{{"HELD", "WHAT"}}
	for _, address := range t.Addresses {
		held = append(held, []any{"address", string(address)})
	}
	for _, page := range t.Pages {
		held = append(held, []any{"page", page})
	}
	for _, b := range slices.Concat(t.Bodies, t.Rejections) {
		held = append(held, []any{"body of " + cmp.Or(b.EventID, b.ID), b.Body})
	}
	a.Table(held)
}

func writePreview(a *command.App, p *decide.Preview) {
	if p.Refused != "" {
		fmt.Fprintf(a.Out, "%s would be refused: %s\n", p.Verb, output.Clean(p.Refused))
		writeChoices(a, "You can run:", p.Choices)
		return
	}
	writeWarning(a, p.Warning)
	about := fmt.Sprintf("%s (%s, now %s)", p.Receipt.EventID, p.Receipt.Type, p.Receipt.Status)
	if p.Access != nil {
		about = p.Access.Account
	}
	if p.Receipt.ID == "" {
		fmt.Fprintf(a.Out, "%s would be done%s. Nothing was changed.\n", p.Verb,
			output.Clean(output.WithReason(p.Message)))
		return
	}
	fmt.Fprintf(a.Out, "Preview: %s of %s. Nothing was changed.\n\n", p.Verb, output.Clean(about))
	a.Table(tables.Effects(p.Effects))
	if p.WaitsFor != "" {
		fmt.Fprintf(a.Out, "\nits run waits first: %s\n", output.Clean(p.WaitsFor))
	}
	for _, row := range tables.ConsequenceRows(p.Consequences) {
		fmt.Fprintf(a.Out, "\n%s: %s\n", row[0], output.Clean(output.Text(row[1])))
	}
	then := "then"
	if p.Counts[workflows.WillRunLater] > 0 {
		then = "after the waiting effects have run,"
	}
	fmt.Fprintf(a.Out, "\n%s\n%s %s\n", output.Clean(tables.Totals(p.Counts, p.Money)), then,
		output.Clean(tables.Then(p)))
}
