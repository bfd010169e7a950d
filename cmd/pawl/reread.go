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
)

// rereading is a call of pawl accounts reread.
type rereading struct {
	decision
	filter     billing.KeptFilter
	mode, undo string
	readBy     int
}

func accountsReread(a *app) *cobra.Command {
	r := rereading{decision: decision{Decision: operator.Decision{Verb: operator.VerbApplyReading}}}
	cmd := &cobra.Command{
		Use:   "reread [ACCOUNT...] --why REASON",
		Short: "Read kept bodies again, and fold anew what comes out differently",
		Long: `Read the kept bodies of events with today's reader: those of some accounts, or all. It shows which facts come out
differently, and whom that hits, and asks. The facts are then appended beside those of the first reading, and count in
their place; a job folds the accounts anew. What was fetched stays, and a fact that is known in full is never replaced
by one that is known in part. An event whose body is gone or carries no object (a thin event) is named, and keeps its
facts.

Workspaces, features and the news of access follow. Nothing is booked, no letter is sent and no task of onboarding is
opened. ` + "`--undo READING`" + ` takes a reading back: its ID is that of the job. A reader of the same version does not ask for
what was undone again. The audit trail has who and why.

Exit code 1 when a dry run finds a fact that comes out differently, else 0.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.undo != "" && (len(args) > 0 || cmd.Flags().Changed("type") || cmd.Flags().Changed("since") ||
				cmd.Flags().Changed("read-by")) {
				return usagef("accounts reread takes --undo READING, or what to read, and not both")
			}
			if cmd.Flags().Changed("read-by") {
				r.filter.ReadBy = &r.readBy
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
	modeFlag(cmd, &r.mode, "live or test, where both have an ID")
	cmd.Flags().StringVar(&r.filter.Type, "type", "", "only events of this type")
	timeFlag(cmd.Flags(), &r.filter.Since, "since", "only events received since "+sinceUsage)
	cmd.Flags().IntVar(&r.readBy, "read-by", 0, "only events that this `version` of the reader has read")
	cmd.Flags().StringVar(&r.undo, "undo", "", "take this `reading` back")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "show what would happen, and change nothing")
	r.manyFlags(cmd, 20, "how many accounts a second are folded anew, at most")
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
	if err := s.confirmNumber(r.decision, "To have these facts count, type how many they are: ",
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
			says = "is told no more"
		}
		return []any{f.EventID, f.Object, f.ReadBy, says}
	})
	a.Tables(facts, hitRows(r.Accounts), taskChangeRows(r.Tasks))
	tellOfMore(a, max(len(r.Facts), len(r.Accounts))-shownHits)
	for _, left := range []struct {
		why    string
		events []string
	}{
		{"the body is gone", r.Gone}, {"the body cannot be read", r.Unreadable},
		{"thin, without an object: what was fetched stays, and pawl reconcile asks Stripe anew", r.Thin},
	} {
		if len(left.events) > 0 {
			fmt.Fprintf(a.out, "not read: %s (%s): %s\n", output.Plural(len(left.events), "event"), left.why,
				output.Clean(strings.Join(left.events[:min(shownItems, len(left.events))], ", ")))
		}
	}
	did := fmt.Sprintf("version %d of the reader has read %s", r.Reader, output.Plural(r.Read, "event"))
	if r.Undoes != "" {
		did = "what stood before " + r.Undoes
	}
	fmt.Fprintf(a.out, "\n%s, as of %s: %s would count, which hits %s%s; nothing was done\n",
		output.Clean(did), output.Time(r.At), output.Plural(len(r.Facts), "other fact"),
		output.Plural(len(r.Accounts), "account"),
		tables.InBrackets(hitCounts(r.Counts)))
}
