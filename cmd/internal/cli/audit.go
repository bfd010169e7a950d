package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/audit"
)

// auditReport is the result of `pawl audit verify`.
type auditReport struct {
	Intact  bool `json:"intact"`
	Actions int  `json:"actions"`
	// Head is the hash of the last action, "" for an empty or a broken trail.
	Head string `json:"head"`
	// Problem describes the first break of the trail. It is empty if the trail is intact.
	Problem string `json:"problem,omitempty"`
}

func auditVerify(a *command.App) *cobra.Command {
	var kept string
	cmd := &cobra.Command{
		Use: "verify [--head HASH]", Short: "Check that the audit trail is unbroken", Args: command.NoArgument,
		Long: `Check that no row of the audit trail was changed, removed or moved. Each row holds a hash over its own content and the
hash of the previous row. The hash of the last row is the head.

A trail that was rewritten as a whole or cut off at its end still has valid hashes. Only an earlier head that you kept
outside of the database reveals such a change. --head looks for it in the trail. Each worker logs the head when it
changes (message "audit", attribute head); any of these heads can be used.

Exit code 0 if the trail is unbroken, 1 if it is broken.`,
		PreRunE: func(*cobra.Command, []string) error {
			if sum, err := hex.DecodeString(kept); err != nil || kept != "" && len(sum) != sha256.Size {
				return command.Usagef("--head takes the %d hexadecimal digits that an earlier check printed",
					2*sha256.Size)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kept, "head", "", "the head of an earlier check, which must still be a part of the trail")
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, _ []string) (r auditReport, err error) {
		r.Head, r.Actions, err = s.Audit.Verify(ctx, kept)
		if r.Intact = err == nil; errors.Is(err, audit.ErrBroken) {
			r.Problem, err = err.Error(), nil
		}
		return r, err
	}, func(a *command.App, r auditReport) {
		text := fmt.Sprintf("unbroken: %s, head %s", output.Plural(r.Actions, "action"), r.Head)
		switch {
		case !r.Intact:
			text = r.Problem
		case r.Actions == 0:
			text = "unbroken: no actions yet"
		}
		fmt.Fprintln(a.Out, text)
	})
}

// Failed reports whether the trail is broken.
func (r auditReport) Failed() bool { return !r.Intact }

func auditList(a *command.App) *cobra.Command {
	var f audit.Filter
	cmd := &cobra.Command{
		Use: "list", Short: "List the actions of operators, newest first", Args: command.NoArgument,
		Long: `List the actions of operators, newest first, with time, person, action, target and reason. With --json each action also
has the state that the operator saw, the result that the preview announced, and the head of the trail after the action.

Gaps between the numbers are normal: two actions at the same time, or a repeated request, use up a number.`,
		PreRunE: func(*cobra.Command, []string) error {
			if f.OlderThan < 0 {
				return command.Usagef("--older-than takes the number of an action from the list")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.Target, "target", "", "only actions on this event, job, refused request or object (`ID`)")
	cmd.Flags().StringVar(&f.Actor, "actor", "", "only actions of this `person`")
	cmd.Flags().StringVar(&f.Action, "action", "", "only this `action`, such as retry")
	command.TimeFlag(cmd.Flags(), &f.Since, "since", "only actions since "+command.SinceUsage)
	cmd.Flags().Int64Var(&f.OlderThan, "older-than", 0, "continue after the action with this `number`")
	return command.List(a, cmd, command.Listing[audit.Row]{
		Read: func(ctx context.Context, s *command.Session, limit int) ([]audit.Row, error) {
			f.Limit = limit
			return s.Audit.List(ctx, f)
		},
		After: func(r audit.Row) string { return "--older-than " + strconv.FormatInt(r.ID, 10) },
		Table: tables.Audit, Drops: []string{"WHO", "TIME"},
	})
}
