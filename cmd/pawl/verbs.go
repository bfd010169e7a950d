package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/job"
)

// verbsOf are the commands of a group that decide something. They are made from the table of verbs.
func verbsOf(a *app, name string) (commands []*cobra.Command) {
	for _, v := range operator.Verbs() {
		if in, use, ok := strings.Cut(v.Command, " "); ok && in == name {
			commands = append(commands, verbCommand(a, v, use))
		}
	}
	return commands
}

// verbAlone is the command of a verb that stands in no group.
func verbAlone(a *app, name string) *cobra.Command {
	return verbCommand(a, *operator.VerbNamed(name), name)
}

// verbCommand is the command of a verb.
func verbCommand(a *app, v operator.Verb, use string) *cobra.Command {
	d := operator.Decision{Verb: v.Name}
	dryRun := false
	target := v.Target
	if len(v.Many) > 0 {
		target = "{" + target + " | --status STATUS}"
	}
	if v.ManyTasks {
		target = "{" + target + " | --kind KIND}"
	}
	cmd := &cobra.Command{Use: use + " " + target + " --why REASON", Short: v.Short, Long: v.Long, Args: targets(v)}
	decisionFlags(cmd, &d, cmp.Or(v.Why, "why, for the audit trail (required)"))
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would happen, and change nothing")
	for _, f := range v.Flags {
		if f.Name == "mode" {
			modeFlag(cmd, f.Value(&d.Args), f.Usage)
			continue
		}
		cmd.Flags().StringVar(f.Value(&d.Args), f.Name, "", f.Usage)
	}
	var many *bulk
	var tasks *manyTasks
	if len(v.Many) > 0 {
		many = bulkFlags(cmd)
	}
	if v.ManyTasks {
		tasks = manyTasksFlags(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			d.Target = args[0]
		}
		if err := a.accountable(v.Command, &d); err != nil && !dryRun {
			return err
		}
		if err := required(v, &d.Args); err != nil && !dryRun {
			return err
		}
		switch {
		case tasks != nil && len(args) == 0:
			return tasks.run(cmd.Context(), a, d, dryRun)
		case many != nil && isBulk(cmd):
			return many.run(cmd.Context(), a, v, d, dryRun)
		case dryRun:
			return a.dryRun(cmd.Context(), d)
		}
		if err := a.before(cmd.Context(), &d); err != nil {
			return err
		}
		return a.decide(cmd.Context(), d)
	}
	return cmd
}

// required refuses a call that lacks a flag that the verb needs.
func required(v operator.Verb, args *operator.Args) error {
	for _, f := range v.Flags {
		if f.Required && strings.TrimSpace(*f.Value(args)) == "" {
			return usagef("%s needs --%s: %s", v.Command, f.Name,
				strings.TrimSuffix(strings.ReplaceAll(f.Usage, "`", ""), " (required)"))
		}
	}
	return nil
}

// whoUsage is what --who adds, at every command that is recorded.
const whoUsage = "a `name` beside that of the system's user, who stands in the audit trail"

// decisionFlags are the flags of a decision.
func decisionFlags(cmd *cobra.Command, d *operator.Decision, why string) {
	cmd.Flags().StringVar(&d.Who, "who", "", whoUsage)
	cmd.Flags().StringVar(&d.Why, "why", "", why)
	cmd.Flags().StringVar(&d.Request, "request-id", "", "an `ID` of yours: a call repeated with it is one decision")
}

// accountable says who decides, and refuses a decision that nobody answers for, before anything is looked up.
func (a *app) accountable(command string, d *operator.Decision) error {
	d.Who = a.who(d.Who)
	if strings.TrimSpace(d.Why) == "" {
		return usagef("%s needs --why REASON: it goes into the audit trail", command)
	}
	return nil
}

// who says who acts, for the audit trail: the system's user by its ID, which nobody types, and the name that --who
// adds. A name that begins with "uid:" was asked for on a command line, by whoever has that account.
func (a *app) who(flag string) string {
	id := strconv.Itoa(os.Getuid())
	known, err := user.Current()
	name, _ := a.env("USER")
	if err == nil {
		id, name = cmp.Or(known.Uid, id), cmp.Or(known.Username, name)
	}
	who := "uid:" + id
	if name != "" {
		who += "(" + name + ")"
	}
	if flag = strings.TrimSpace(flag); flag != "" {
		who += " " + flag
	}
	return who
}

// decide decides, and writes what came of it.
func (a *app) decide(ctx context.Context, d operator.Decision) error {
	var answer *operator.Answer
	err := a.deciding(ctx, func(ctx context.Context, s *session) (err error) {
		answer, err = s.Decide(ctx, d)
		return a.pasteable(err)
	})
	if err != nil {
		return err
	}
	return emit(a, answer, writeAnswer)
}

// dryRun shows what a decision would do.
func (a *app) dryRun(ctx context.Context, d operator.Decision) error {
	var made *operator.Preview
	err := a.asking(ctx, func(ctx context.Context, s *session) (err error) {
		made, err = s.Preview(ctx, d)
		return err
	})
	if err != nil {
		return err
	}
	return emit(a, made, writePreview)
}

// before shows what an answer to a review does, and asks before something is sent again.
func (a *app) before(ctx context.Context, d *operator.Decision) error {
	resends := d.Verb == operator.VerbResend && d.Confirm == ""
	if !resends && d.Verb != operator.VerbApprove && d.Verb != operator.VerbReject {
		return nil
	}
	var asks, does, key string
	err := a.asking(ctx, func(ctx context.Context, s *session) error {
		r, err := operator.FindEvent(ctx, s.db, d.Target)
		if err != nil {
			return err
		}
		asks, does, _ = operator.Does(r, d.Verb)
		if does != "" {
			fmt.Fprintf(a.err, "%s: %s\n%s: it %s\n", output.Clean(r.Reason), asks, d.Verb, does)
		}
		key, _ = operator.Doubtful(r, d.Effect)
		return nil
	})
	if err != nil || !resends || key == "" { // a resend without a key is refused, and says why
		return err
	}
	fmt.Fprintf(a.err, "%s may have happened. Sent again, it may happen twice, and nothing takes that back.\n", output.Clean(key))
	switch d.Confirm = a.ask("To go on, type its key: "); d.Confirm {
	case key:
		return nil
	case "":
		return usagef("events resend asks before it sends again: type the effect's key, or give --confirm %s", key)
	}
	return fmt.Errorf("%q is not the effect's key: nothing was done", output.Clean(d.Confirm))
}

// ask asks a person, and returns the line that was typed; "" for none.
func (a *app) ask(question string) string {
	fmt.Fprint(a.err, question)
	line, _ := bufio.NewReader(a.in).ReadString('\n') // nothing typed is no answer
	fmt.Fprintln(a.err)
	return strings.TrimSpace(line)
}

// confirm asks a person, who answers by typing yes.
func (a *app) confirm(question string) error {
	if a.ask(question+" Type yes: ") != "yes" {
		return errors.New("not confirmed, and nothing is changed; --yes stands for the answer")
	}
	return nil
}

func writeAnswer(a *app, answer *operator.Answer) error {
	text := fmt.Sprintf("%s of %s by %s: %s", answer.Verb, answer.Target, answer.Who, answer.Says)
	follow := ""
	switch r := answer.Result.(type) {
	case *operator.EventResult:
		follow = "events show " + operator.ShellWord(r.EventID)
		switch {
		case len(r.About) > 0:
			text += "; about " + strings.Join(r.About, ", ")
		case len(r.Effects) > 0:
			text += "; not done so far: " + strings.Join(r.Effects, ", ")
		}
	case *operator.AccountResult:
		follow = "accounts show " + operator.ShellWord(r.Account) + " --mode " + r.Mode
	case *job.Job:
		follow = "jobs show " + operator.ShellWord(r.ID)
		text += tables.Takes(r)
	case *account.Traces:
		return writeTraces(a, r)
	case *operator.TokenResult:
		if r.Token != "" {
			text += "\n" + r.Token
		}
	case *operator.Admission:
		for _, e := range r.Receipts {
			text += fmt.Sprintf("\n%s  %s  %s%s", e.EventID, e.Type, e.Status, output.Because(e.Reason))
			if e.Duplicate && !answer.Repeated {
				text += ", which was here already"
			}
		}
	}
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(a.out, output.Clean(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	if follow != "" {
		fmt.Fprintf(a.out, "follow it with: %s\n", output.Clean(a.commandLine(follow)))
	}
	return nil
}

// writeTraces shows what is held of a customer.
func writeTraces(a *app, t *account.Traces) error {
	held := [][]string{{"HELD", "WHAT"}}
	for _, address := range t.Addresses {
		held = append(held, []string{"address", string(address)})
	}
	for _, page := range t.Pages {
		held = append(held, []string{"page", page})
	}
	for _, b := range slices.Concat(t.Bodies, t.Rejections) {
		held = append(held, []string{"body of " + cmp.Or(b.EventID, b.ID), b.Body})
	}
	return a.Table(held)
}

// pasteable makes the commands of a refusal name the configuration of this call.
func (a *app) pasteable(err error) error {
	if refused, ok := errors.AsType[*operator.RefusedError](err); ok {
		for i, c := range refused.Try {
			refused.Try[i] = a.configured(c)
		}
	}
	return err
}
