package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

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
row before. The hash of the last one is the head. Whoever rewrites the whole trail, or cuts off its end, is
found out only by a head from before that was kept outside of the database, which --head looks for: each action
is logged with the head after it (message "audit", attribute head), and any of those will do.

Exit code 0 when the trail is unbroken, 1 when it is not.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sum, err := hex.DecodeString(kept); err != nil || kept != "" && len(sum) != sha256.Size {
				return usagef("--head takes the %d hexadecimal digits that an earlier check has shown", 2*sha256.Size)
			}
			var report auditReport
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
				report.Head, report.Actions, err = audit.New(db, a.log).Verify(ctx, kept)
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

func (a *app) auditList() *cobra.Command {
	var f audit.Filter
	var since string
	cmd := &cobra.Command{
		Use: "list", Short: "List what operators did, the newest first", Args: noArgument,
		Long: `List what operators did, the newest first: when, who, what, to what, and why. With --json each has what the operator
saw, what was to become of it, and the head of the trail after it.

The numbers may have gaps, which mean nothing: of two who act at once one takes a number in vain, and so does a request
that is repeated.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 1 {
				return usagef("--limit: write a number from 1")
			}
			if f.OlderThan < 0 {
				return usagef("--older-than takes the number of an action, as the list shows it")
			}
			var err error
			if f.Since, err = sinceFlag(since, time.Now()); err != nil {
				return err
			}
			limit := f.Limit
			f.Limit = oneMore(limit)
			found := []audit.Row{}
			err = a.withDatabase(cmd.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
				found, err = audit.New(db, a.log).List(ctx, f)
				return err
			})
			if err != nil {
				return err
			}
			if len(found) > limit {
				found = found[:limit]
				fmt.Fprintf(a.err, "there are more than these %d, the newest: use --limit, or go on with --older-than %d\n", limit, found[limit-1].ID)
			}
			if a.json {
				return a.writeJSON(found)
			}
			rows := [][]string{{"NUMBER", "TIME", "WHO", "ACTION", "TARGET", "WHY"}}
			for _, r := range found {
				rows = append(rows, []string{strconv.FormatInt(r.ID, 10), clock(r.At), r.Actor, r.Action, r.Target, r.Reason})
			}
			return table(a.out, rows)
		},
	}
	cmd.Flags().StringVar(&f.Target, "target", "", "only what was done to this: an event, a job, a refused request, an object (`ID`)")
	cmd.Flags().StringVar(&f.Actor, "actor", "", "only what this `person` did")
	cmd.Flags().StringVar(&f.Action, "action", "", "only this `action`, such as retry")
	cmd.Flags().StringVar(&since, "since", "", "only what was done since this `time`: 90m, 7d, 2026-11-22 or 2026-11-22T08:00:00Z")
	cmd.Flags().Int64Var(&f.OlderThan, "older-than", 0, "go on behind this `number`")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "how many at most")
	return cmd
}
