package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/audit"
)

// auditReport is what `pawl audit verify` found.
type auditReport struct {
	Intact  bool `json:"intact"`
	Actions int  `json:"actions"`
	// Head is the hash of the last action, "" for an empty or a broken trail.
	Head string `json:"head"`
	// Problem says where the trail is broken.
	Problem string `json:"problem,omitempty"`
}

func auditVerify(a *app) *cobra.Command {
	var kept string
	cmd := &cobra.Command{
		Use: "verify [--head HASH]", Short: "Check that the trail of what operators did is unbroken", Args: noArgument,
		Long: `Check that no row of the audit trail was changed, removed or moved: each holds a hash over itself and the
row before. The hash of the last one is the head. If somebody rewrites the whole trail, or cuts off its
end, only an earlier head that was kept outside of the database shows it. --head looks for one: each worker logs the
head when it changes (message "audit", attribute head), and any of those will do.

Exit code 0 when the trail is unbroken, 1 when it is not.`,
		PreRunE: func(*cobra.Command, []string) error {
			if sum, err := hex.DecodeString(kept); err != nil || kept != "" && len(sum) != sha256.Size {
				return usagef("--head takes the %d hexadecimal digits that an earlier check has shown", 2*sha256.Size)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kept, "head", "", "the head of an earlier check, which must still be a part of the trail")
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) (r auditReport, err error) {
		r.Head, r.Actions, err = s.Audit.Verify(ctx, kept)
		if r.Intact = err == nil; errors.Is(err, audit.ErrBroken) {
			r.Problem, err = err.Error(), nil
		}
		return r, err
	}, func(a *app, r auditReport) {
		text := fmt.Sprintf("unbroken: %s, head %s", output.Plural(r.Actions, "action"), r.Head)
		switch {
		case !r.Intact:
			text = r.Problem
		case r.Actions == 0:
			text = "unbroken: nobody has done anything yet"
		}
		fmt.Fprintln(a.out, text)
	})
}

// Failed reports whether the trail is broken.
func (r auditReport) Failed() bool { return !r.Intact }

func auditList(a *app) *cobra.Command {
	var f audit.Filter
	cmd := &cobra.Command{
		Use: "list", Short: "List what operators did, the newest first", Args: noArgument,
		Long: `List what operators did, the newest first: when, who, what, to what, and why. With --json each has what the operator
saw, what was to become of it, and the head of the trail after it.

The numbers may have gaps, which mean nothing: of two who act at once one takes a number in vain, and so does a request
that is repeated.`,
		PreRunE: func(*cobra.Command, []string) error {
			if f.OlderThan < 0 {
				return usagef("--older-than takes the number of an action, as the list shows it")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.Target, "target", "", "only what was done to this: an event, a job, a refused request, an object (`ID`)")
	cmd.Flags().StringVar(&f.Actor, "actor", "", "only what this `person` did")
	cmd.Flags().StringVar(&f.Action, "action", "", "only this `action`, such as retry")
	timeFlag(cmd.Flags(), &f.Since, "since", "only what was done since "+sinceUsage)
	cmd.Flags().Int64Var(&f.OlderThan, "older-than", 0, "go on behind this `number`")
	return list(a, cmd, listing[audit.Row]{
		read: func(ctx context.Context, s *session, limit int) ([]audit.Row, error) {
			f.Limit = limit
			return s.Audit.List(ctx, f)
		},
		after: func(r audit.Row) string { return "--older-than " + strconv.FormatInt(r.ID, 10) },
		table: tables.Audit, drops: []string{"WHO", "TIME"},
	})
}
