package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/timeline"
)

// accountable refuses a decision that nobody answers for, before anything is looked up.
func accountable(command, who, why string) error {
	switch {
	case strings.TrimSpace(why) == "":
		return usagef("%s needs --why REASON: it goes into the audit trail", command)
	case strings.TrimSpace(who) == "":
		return usagef("%s needs --who NAME: it goes into the audit trail", command)
	}
	return nil
}

// whoUsage is what --who adds, at every command that is recorded.
const whoUsage = "a `name` beside that of the system's user, who stands in the audit trail"

// decidedFlags are the flags of a decision that is recorded.
func decidedFlags(cmd *cobra.Command, d *operator.Decided) {
	cmd.Flags().StringVar(&d.Who, "who", "", whoUsage)
	cmd.Flags().StringVar(&d.Why, "why", "", "why, for the audit trail (required)")
	cmd.Flags().StringVar(&d.RequestID, "request-id", "", "an `ID` of yours: a call repeated with it is one decision")
}

// who says who acts, for the audit trail: the system's user by its ID, which nobody types, and the name that --who adds.
// What begins with "uid:" was asked for on a command line, by whoever has that account.
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

// withDesk calls f with what an operator's verbs need, under the deadline of [app.withDatabase].
func (a *app) withDesk(ctx context.Context, f func(context.Context, *operator.Desk) error) error {
	return a.withDatabase(ctx, func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) error {
		n, err := process.New(ctx, cfg, providers(), a.log)
		if err != nil {
			return err
		}
		defer n.Close()
		namespace, err := cfg.Temporal.Namespace()
		if err != nil {
			return err
		}
		return f(ctx, &operator.Desk{
			DB: db, Temporal: n.Temporal, Audit: audit.New(db, a.log), Relays: process.Relays(cfg), Outlook: process.Outlook(cfg, db, n.Receipts),
			Unstick: operator.Unstick(n.Temporal, namespace),
		})
	})
}

// eventVerbs are the commands that do something about one event.
func (a *app) eventVerbs() (commands []*cobra.Command) {
	for _, v := range []eventVerb{
		{operator.VerbRun, "Run an event that was ignored, or parked before it ran", `Run an event that was kept and not run: one that is ignored for its type, which nobody wanted then, or that was parked
before any run (a suspected replay). pawl events list --status ignored lists them. An event for which no flow is written
is delivered to the consumers of its source; where there are none, it cannot be processed, and the command says so.

An event that has run is run again with pawl events replay.`},
		{operator.VerbRetry, "Let a parked run try again what is not done", `Let a parked run try again what is not done; with --effect, that effect alone. What may have happened is left as it is:
see pawl events resend.`},
		{operator.VerbSkip, "Let a parked run go on without what is not done", ""},
		{operator.VerbDone, "Say that an effect of a parked run has happened", `Say that an effect has happened, which pawl could not do, or does not know of: somebody has done it by hand, or has seen it
outside. It is done in the ledger then, with the reference, and a later compensation takes it back like any other.
--reference is what the outside calls it: the number of an entry, a line of a mail server's log.`},
		{operator.VerbResend, "Do an effect once more that may have happened", `Do an effect once more of which nobody knows whether it happened: a new generation of it, under an idempotency key of
its own. Where the first one did happen, it happens twice: the customer has two mails. So it always asks, for the
effect's key, and --yes does not stand for that; a script that has made sure gives --confirm KEY.`},
		{operator.VerbCompensate, "Let a parked run take back what was done", ""},
		{operator.VerbApprove, "Answer a review with yes", `Answer what a rule asks about an event that needs a review, with yes. What that does is shown before it is done; which
question does what stands in docs/operations.md.`},
		{operator.VerbReject, "Answer a review with no", `Answer what a rule asks about an event that needs a review, with no. What that does is shown before it is done; which
question does what stands in docs/operations.md.`},
		{operator.VerbReplay, "Run an event again whose run has ended", `Run an event again, under the same workflow ID and on today's code, once its run has ended: well, compensated, or from
outside. Nothing is done twice: what the ledger has as done or skipped stays so, and what was taken back stays taken back. A run
that no worker can go on with is ended. The dispatcher of a running ingress starts the run within seconds.`},
	} {
		commands = append(commands, a.eventVerb(v))
	}
	return commands
}

// eventVerb is one of the commands that do something about one event.
type eventVerb struct{ verb, short, long string }

func (a *app) eventVerb(v eventVerb) *cobra.Command {
	var ask operator.Ask
	var dryRun bool
	cmd := &cobra.Command{
		Use: v.verb + " " + targetsOf(v.verb) + " --why REASON", Short: v.short, Long: v.long, Args: targets(v.verb),
		RunE: func(cmd *cobra.Command, args []string) error {
			ask := ask
			ask.Verb, ask.Who = v.verb, a.who(ask.Who)
			if len(args) > 0 {
				ask.ID = args[0]
			}
			if dryRun && !isBulk(cmd) {
				return a.dryRun(cmd.Context(), ask)
			}
			if err := accountable("events "+v.verb, ask.Who, ask.Why); err != nil && !dryRun {
				return err
			}
			if isBulk(cmd) {
				return a.runBulk(cmd, ask)
			}
			ask.ID = args[0]
			if err := a.before(cmd.Context(), &ask); err != nil {
				return err
			}
			var answer *operator.Answer
			err := a.withDesk(cmd.Context(), func(ctx context.Context, desk *operator.Desk) (err error) {
				answer, err = desk.Act(ctx, ask)
				return a.pasteable(err)
			})
			if err != nil {
				return err
			}
			return a.writeAnswer(ask, answer)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&ask.Who, "who", "", whoUsage)
	flags.StringVar(&ask.Why, "why", "", "why, for the audit trail (required)")
	flags.BoolVar(&dryRun, "dry-run", false, dryRunUsage)
	flags.StringVar(&ask.RequestID, "request-id", "", "an `ID` for the request: the same command with it again is one decision (default: a new one)")
	switch v.verb {
	case operator.VerbRetry, operator.VerbSkip:
		flags.StringVar(&ask.Effect, "effect", "", "`key` or kind of one effect (default: every one that is not done)")
	case operator.VerbDone:
		flags.StringVar(&ask.Effect, "effect", "", "`key` or kind of the effect (default: the one that is not done)")
		flags.StringVar(&ask.Reference, "reference", "", "`what` the outside calls it (required)")
	case operator.VerbResend:
		flags.StringVar(&ask.Effect, "effect", "", "`key` or kind of the effect (default: the one that is in doubt)")
		flags.StringVar(&ask.Confirm, "confirm", "", "the effect's `key`, typed once more (default: ask)")
	}
	if isBulkAction(v.verb) {
		bulkFlags(cmd)
	}
	return cmd
}

// before shows what an answer to a review does, and asks before something is sent again.
func (a *app) before(ctx context.Context, ask *operator.Ask) error {
	confirms := ask.Verb == operator.VerbResend && ask.Confirm == ""
	if ask.Verb == operator.VerbDone && strings.TrimSpace(ask.Reference) == "" {
		return usagef("events done needs --reference: what the outside calls what has happened")
	}
	if !confirms && ask.Verb != operator.VerbApprove && ask.Verb != operator.VerbReject {
		return nil
	}
	var r *timeline.Receipt
	err := a.withDatabase(ctx, func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
		r, err = operator.FindEvent(ctx, db, ask.ID)
		return err
	})
	if err != nil {
		return err
	}
	if !confirms {
		if asks, does, ok := operator.Does(r, ask.Verb); ok {
			fmt.Fprintf(a.err, "%s: %s\n%s: it %s\n", clean(r.Reason), asks, ask.Verb, does)
		}
		return nil
	}
	key, ok := operator.Doubtful(r, ask.Effect)
	if !ok {
		return nil // the run says why it sends nothing again
	}
	fmt.Fprintf(a.err, "%s may have happened. Sent again, it may happen twice, and nothing takes that back.\nTo go on, type its key: ", clean(key))
	typed, _ := bufio.NewReader(a.in).ReadString('\n')
	fmt.Fprintln(a.err)
	switch ask.Confirm = strings.TrimSpace(typed); ask.Confirm {
	case key:
		return nil
	case "":
		return usagef("events resend asks before it sends again: type the effect's key, or give --confirm %s", key)
	}
	return fmt.Errorf("%q is not the effect's key: nothing was done", clean(ask.Confirm))
}

func (a *app) writeAnswer(ask operator.Ask, answer *operator.Answer) error {
	if a.json {
		return a.writeJSON(answer)
	}
	text := fmt.Sprintf("%s of %s by %s: %s", answer.Action, answer.EventID, ask.Who, answer.Says)
	switch {
	case len(answer.About) > 0:
		text += "; about " + strings.Join(answer.About, ", ")
	case len(answer.Effects) > 0:
		text += "; not done so far: " + strings.Join(answer.Effects, ", ")
	}
	_, err := fmt.Fprintf(a.out, "%s\nfollow it with: %s\n", clean(text), clean(a.commandLine("events show "+shellWord(ask.ID))))
	return err
}

// pasteable has the commands of a refusal name the configuration of this call.
func (a *app) pasteable(err error) error {
	var refused *operator.RefusedError
	if errors.As(err, &refused) {
		for i, c := range refused.Try {
			refused.Try[i] = a.configured(c)
		}
	}
	return err
}
