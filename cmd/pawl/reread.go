package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// rereading holds the arguments of pawl accounts reread.
type rereading struct {
	decision
	filter     rebuild.PayloadFilter
	mode, undo string
	readBy     int
}

func accountsReread(a *app) *cobra.Command {
	r := rereading{decision: decision{Decision: operator.Decision{Verb: operator.VerbApplyReading}}}
	cmd := &cobra.Command{
		Use:   "reread [ACCOUNT...] --why REASON",
		Short: "Parse stored payloads again, and recompute accounts with changed facts",
		Long: `Parse the stored payloads of some accounts, or of all accounts, with the current parser. The command prints the facts
that change and the affected accounts, and asks. It then appends the new facts, which replace the facts of the first
parse, and a job recomputes the accounts. Fetched facts stay. A complete fact is never replaced by an incomplete one. The
command names the events without a payload and the thin events, and keeps their facts.

The job updates workspaces and features and publishes access.changed. It books no entry, sends no email and opens no
onboarding task. ` + "`--undo READING`" + ` restores the earlier facts; READING is the ID of the job. The same version of the parser
does not offer a change again that was undone. The audit trail records who did it and why.

Exit code 1 if a dry run finds a changed fact, otherwise 0.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.undo != "" && (len(args) > 0 || cmd.Flags().Changed("type") || cmd.Flags().Changed("since") ||
				cmd.Flags().Changed("read-by")) {
				return usagef("accounts reread takes either --undo READING or a selection of events")
			}
			if cmd.Flags().Changed("read-by") {
				r.filter.Parser = &r.readBy
			}
			if err := r.accountable(a, "accounts reread"); err != nil {
				return err
			}
			load := a.config
			if r.dryRun {
				load = a.configToAsk
			}
			return a.withSession(cmd.Context(), 0, load, func(ctx context.Context, s *session) error {
				return r.run(ctx, s, args)
			})
		},
	}
	modeFlag(cmd, &r.mode, "live or test, if both have an ID")
	cmd.Flags().StringVar(&r.filter.Type, "type", "", "only events of this type")
	timeFlag(cmd.Flags(), &r.filter.Since, "since", "only events received since "+sinceUsage)
	cmd.Flags().IntVar(&r.readBy, "read-by", 0, "only events that this `version` of the parser read")
	cmd.Flags().StringVar(&r.undo, "undo", "", "restore the facts from before this `reading`")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "show the changes and change nothing")
	r.manyFlags(cmd, 20, "the highest number of accounts to recompute per second")
	r.flags(cmd, "why, for the audit trail (required)")
	return cmd
}

func (r rereading) run(ctx context.Context, s *session, ids []string) error {
	found, err := r.find(ctx, s, ids)
	if err != nil {
		return err
	}
	if r.dryRun || len(found.Facts) == 0 && r.Request == "" {
		return emit(s.app, found, writeReread)
	}
	if r.yes = r.yes || len(found.Facts) == 0; !r.yes {
		writeReread(s.toPerson(), found)
	}
	if err := s.confirmNumber(r.decision, "To apply these facts, type their number: ",
		len(found.Facts)); err != nil {
		return err
	}
	r.newRequest("reread")
	r.Target, r.Found = r.Request, &operator.RereadDecision{Reread: found, Rate: r.rate}
	return s.decide(ctx, r.Decision)
}

func (r rereading) find(ctx context.Context, s *session, ids []string) (*operator.Reread, error) {
	if r.undo != "" {
		return operator.UndoReading(ctx, s.db, s.Policy, r.undo, s.folded())
	}
	var accounts []billing.Scope
	for _, id := range ids {
		named, err := operator.ShowAccount(ctx, s.db, id, r.mode)
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, billing.Scope{Mode: named.Mode, Account: named.ID})
	}
	return operator.ReadAgain(ctx, s.db, s.Policy, accounts, r.filter, s.folded())
}

func writeReread(a *app, r *operator.Reread) {
	shown := r.Facts[:min(shownHits, len(r.Facts))]
	facts := output.Rows("EVENT|OBJECT|READ BY|DIFFERENCE", shown, func(f operator.RereadFact) []any {
		says := strings.Join(f.Fields, ", ")
		switch {
		case f.New:
			says = "is new"
		case f.Gone:
			says = "no longer exists"
		}
		return []any{f.EventID, f.Object, f.ReadBy, says}
	})
	a.Tables(facts, hitRows(r.Accounts), taskChangeRows(r.Tasks))
	tellOfMore(a, max(len(r.Facts), len(r.Accounts))-shownHits)
	for _, left := range []struct {
		why    string
		events []string
	}{
		{"the payload was deleted", r.Gone}, {"the payload cannot be parsed", r.Unreadable},
		{"thin event without an object: its fetched facts stay; pawl reconcile fetches the object again", r.Thin},
	} {
		if len(left.events) > 0 {
			fmt.Fprintf(a.out, "not read: %s (%s): %s\n", output.Plural(len(left.events), "event"), left.why,
				output.Clean(strings.Join(left.events[:min(shownItems, len(left.events))], ", ")))
		}
	}
	did := fmt.Sprintf("version %d of the parser read %s", r.Reader, output.Plural(r.Read, "event"))
	if r.Undoes != "" {
		did = "undo of " + r.Undoes
	}
	fmt.Fprintf(a.out, "\n%s, as of %s: %s would change %s%s; nothing was done\n",
		output.Clean(did), output.Time(r.At), output.Plural(len(r.Facts), "other fact"),
		output.Plural(len(r.Accounts), "account"),
		tables.InBrackets(hitCounts(r.Counts)))
}
