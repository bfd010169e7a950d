package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// rereading holds the arguments of pawl rebuild --from-payloads.
type rereading struct {
	decision
	filter rebuild.PayloadFilter
	mode   string
	readBy int
}

// payloadFlags are the flags of pawl rebuild that need --from-payloads.
var payloadFlags = []string{"type", "since", "read-by", "rate", "yes"}

func (r *rereading) flags(cmd *cobra.Command) {
	modeFlag(cmd, &r.mode, "live or test: the mode of --apply, or the mode of ACCOUNT if both modes have the ID")
	cmd.Flags().StringVar(&r.filter.Type, "type", "", "with --from-payloads: only events of this type")
	timeFlag(cmd.Flags(), &r.filter.Since, "since", "with --from-payloads: only events received since "+sinceUsage)
	cmd.Flags().IntVar(&r.readBy, "read-by", 0,
		"with --from-payloads: only events that this `version` of the parser read")
	r.manyFlags(cmd, 20, "with --from-payloads: the highest number of accounts to recompute per second")
}

// reread parses the payloads of the accounts again.
func (r *rereading) reread(cmd *cobra.Command, a *app, ids []string) error {
	if cmd.Flags().Changed("read-by") {
		r.filter.Parser = &r.readBy
	}
	r.Verb = rules.ApplyReading.Name
	if err := r.accountable(a, "rebuild --from-payloads"); err != nil {
		return err
	}
	load := a.config
	if r.dryRun {
		load = a.configToAsk
	}
	return a.withSession(cmd.Context(), 0, load, func(ctx context.Context, s *session) error {
		return r.run(ctx, s, ids)
	})
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
	r.newRequest("rebuild")
	r.Target, r.Found = r.Request, &rules.RereadDecision{Reread: found, Rate: r.rate}
	return s.decide(ctx, r.Decision)
}

func (r rereading) find(ctx context.Context, s *session, ids []string) (*rules.Reread, error) {
	var accounts []billing.Scope
	for _, id := range ids {
		named, err := account.Show(ctx, s.db, id, r.mode)
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, billing.Scope{Mode: named.Mode, Account: named.ID})
	}
	return rules.ReadAgain(ctx, s.db, s.Policy, accounts, r.filter, s.folded())
}

func writeReread(a *app, r *rules.Reread) {
	shown := r.Facts[:min(shownImpacts, len(r.Facts))]
	facts := output.Rows("EVENT|OBJECT|READ BY|DIFFERENCE", shown, func(f rules.RereadFact) []any {
		says := strings.Join(f.Fields, ", ")
		switch {
		case f.New:
			says = "is new"
		case f.Gone:
			says = "no longer exists"
		}
		return []any{f.EventID, f.Object, f.ReadBy, says}
	})
	a.Tables(facts, impactRows(r.Accounts))
	tellOfMore(a, max(len(r.Facts), len(r.Accounts))-shownImpacts)
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
	fmt.Fprintf(a.out, "\nversion %d of the parser read %s, as of %s: %s would change %s; nothing was done\n",
		r.Reader, output.Plural(r.Read, "event"), output.Time(r.At), output.Plural(len(r.Facts), "other fact"),
		impactTotal(r.Accounts, r.Counts))
}
