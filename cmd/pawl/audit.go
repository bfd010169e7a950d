package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/audit"
)

// auditReport is what `pawl audit verify` found.
type auditReport struct {
	Intact  bool `json:"intact"`
	Actions int  `json:"actions"`
	// Head is the hash of the last action, "" where there is none or the trail is broken.
	Head string `json:"head"`
	// Problem says where the trail is broken.
	Problem string `json:"problem,omitempty"`
}

func (a *app) auditVerify() *cobra.Command {
	var kept string
	cmd := &cobra.Command{
		Use: "verify [--head HASH]", Short: "Check that the trail of what operators did is unbroken", Args: noArgument,
		Long: `Check that no row of the audit trail was changed, removed or moved: each holds a hash over itself and the
row before. The hash of the last one is the head. Keep it outside of the database: whoever rewrites the
whole trail, or cuts off its end, is found out only by a head from before, which --head looks for.

Exit code 0 when the trail is unbroken, 1 when it is not.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sum, err := hex.DecodeString(kept); err != nil || kept != "" && len(sum) != sha256.Size {
				return usagef("--head takes the %d hexadecimal digits that an earlier check has shown", 2*sha256.Size)
			}
			var report auditReport
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
				report.Head, report.Actions, err = audit.New(db).Verify(ctx, kept)
				return err
			})
			switch {
			case errors.Is(err, audit.ErrBroken):
				report.Problem = err.Error()
			case err != nil:
				return err
			}
			report.Intact = err == nil
			if err := a.reportAudit(report); err != nil {
				return err
			}
			if !report.Intact {
				return errAnswered
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kept, "head", "", "the head of an earlier check, which must still be a part of the trail")
	return cmd
}

func (a *app) reportAudit(r auditReport) error {
	if a.json {
		return a.writeJSON(r)
	}
	text := fmt.Sprintf("unbroken: %s, head %s", plural(r.Actions, "action"), r.Head)
	switch {
	case !r.Intact:
		text = r.Problem
	case r.Actions == 0:
		text = "unbroken: nobody has done anything yet"
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}
