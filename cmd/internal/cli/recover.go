package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/recovery"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/resource"
)

func recoverCommand(a *command.App) *cobra.Command {
	d := decision{Decision: decide.Decision{Verb: recovery.Recover.Name, Target: recovery.Recover.Target}}
	var from, until string
	cmd := &cobra.Command{
		Use:   "recover --lost-from TIME --reason REASON",
		Short: recovery.Recover.Short,
		Long: `Continue after the database was restored from a backup, or after a standby was promoted that had not received the last
transactions. Stop all workers first, and start them after the command. A worker does not start while Temporal has runs of
events that the database does not contain.

The command lists the runs in Temporal that are ahead of the database and asks you to confirm. It then

  - increases the version of each account's target, so that sinks accept the next targets
  - deletes these runs. The ingress starts the runs of stored events again, and the ledger, the keys and the sinks prevent
    that their effects happen twice
  - treats e-mails about events before --lost-until as uncertain if the ledger does not contain them: a person decides
    about each
  - lists the events that the database no longer contains. Let the provider send them again

Temporal no longer shows the history of a deleted run. --dry-run changes nothing. You can repeat the command.`,
		Args: command.NoArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.accountable(a, "recover"); err != nil {
				return err
			}
			if from == "" {
				return command.Usagef("recover needs --lost-from TIME, the time to which the database was restored")
			}
			lostFrom, err := resource.Moment(from, time.Now())
			if err != nil {
				return command.Usagef("--lost-from: %v", err)
			}
			lostUntil := time.Now()
			if until != "" {
				if lostUntil, err = resource.Moment(until, time.Now()); err != nil {
					return command.Usagef("--lost-until: %v", err)
				}
			}
			if !lostFrom.Before(lostUntil) {
				return command.Usagef("--lost-from must be earlier than --lost-until")
			}
			return a.WithSession(cmd.Context(), 0, a.LoadToAsk, func(ctx context.Context, s *command.Session) error {
				return recoverFrom(ctx, s, lostFrom, lostUntil, d)
			})
		},
	}
	cmd.Flags().StringVar(&from, "lost-from", "",
		"the `time` to which the database was restored, or an earlier time: "+resource.TimeUsage)
	cmd.Flags().StringVar(&until, "lost-until", "",
		"the `time` at which the workers were stopped, or a later time (default: now)")
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "list the runs and change nothing")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do not ask for confirmation")
	d.flags(cmd, "the reason, for the audit trail (required)")
	return cmd
}

func recoverFrom(ctx context.Context, s *command.Session, from, until time.Time, d decision) error {
	runs, err := s.Runs()
	if err != nil {
		return err
	}
	loss, err := runs.Loss(ctx, from, until)
	if err != nil {
		return err
	}
	if d.Found = loss; d.dryRun {
		return command.Emit(s.App, loss, writeLoss)
	}
	if !d.yes {
		writeLoss(s.App.ToPerson(), loss)
	}
	if err := confirm(s.App, d, "Delete these runs and continue?"); err != nil {
		return err
	}
	answer, err := s.Decide(ctx, d.Decision)
	if err != nil {
		return err
	}
	return command.Emit(s.App, answer, writeAnswer)
}

func writeLoss(a *command.App, l *recovery.Loss) {
	rows := output.Table{{"RUN", "STARTED", "IN THE DATABASE"}}
	for _, run := range l.Runs {
		known := "yes"
		if run.Unknown {
			known = "no: the provider must send the event again"
		}
		rows = append(rows, []any{run.WorkflowID, run.StartedAt, known})
	}
	a.Table(rows)
}
