package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/output"
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
outside of the database reveals such a change. --head checks that the trail contains it. Each worker logs the head when
it changes (message "audit", attribute head); any of these heads can be used.

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
