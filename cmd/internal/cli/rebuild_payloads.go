package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
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
	command.ModeFlag(cmd, &r.mode, "live or test: the mode of --apply, or the mode of ACCOUNT if both modes have the ID")
	cmd.Flags().StringVar(&r.filter.Type, "type", "", "with --from-payloads: only events of this type")
	command.TimeFlag(cmd.Flags(), &r.filter.Since, "since",
		"with --from-payloads: only events received since "+command.SinceUsage)
	cmd.Flags().IntVar(&r.readBy, "read-by", 0,
		"with --from-payloads: only events that this `version` of the parser read")
	r.manyFlags(cmd, 20, "with --from-payloads: the highest number of accounts to recompute per second")
}

// reread parses the payloads of the accounts again.
func (r *rereading) reread(cmd *cobra.Command, a *command.App, ids []string) error {
	if cmd.Flags().Changed("read-by") {
		r.filter.Parser = &r.readBy
	}
	r.Verb = rules.ApplyReading.Name
	if err := r.accountable(a, "rebuild --from-payloads"); err != nil {
		return err
	}
	load := a.Load
	if r.dryRun {
		load = a.LoadToAsk
	}
	return a.WithSession(cmd.Context(), 0, load, func(ctx context.Context, s *command.Session) error {
		return r.run(ctx, s, ids)
	})
}

func (r rereading) run(ctx context.Context, s *command.Session, ids []string) error {
	found, err := r.find(ctx, s, ids)
	if err != nil {
		return err
	}
	if r.dryRun || len(found.Facts) == 0 && r.Request == "" {
		return command.Emit(s.App, found, writeReread)
	}
	if r.yes = r.yes || len(found.Facts) == 0; !r.yes {
		writeReread(s.ToPerson(), found)
	}
	if err := confirmNumber(s.App, r.decision, "To apply these facts, type their number: ",
		len(found.Facts)); err != nil {
		return err
	}
	r.newRequest("rebuild")
	r.Target, r.Found = r.Request, &rules.RereadDecision{Reread: found, Rate: r.rate}
	return executeIn(ctx, s, r.Decision)
}

func (r rereading) find(ctx context.Context, s *command.Session, ids []string) (*rules.Reread, error) {
	var accounts []billing.Scope
	for _, id := range ids {
		named, err := account.Show(ctx, s.DB, id, r.mode)
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, billing.Scope{Mode: named.Mode, Account: named.ID})
	}
	return rules.ReadAgain(ctx, s.DB, s.Policy, accounts, r.filter, folded(s))
}

func writeReread(a *command.App, r *rules.Reread) {
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
			fmt.Fprintf(a.Out, "not read: %s (%s): %s\n", output.Plural(len(left.events), "event"), left.why,
				output.Clean(strings.Join(left.events[:min(shownItems, len(left.events))], ", ")))
		}
	}
	fmt.Fprintf(a.Out, "\nversion %d of the parser read %s, as of %s: %s would change %s; nothing was done\n",
		r.Reader, output.Plural(r.Read, "event"), output.Time(r.At), output.Plural(len(r.Facts), "other fact"),
		impactTotal(r.Accounts, r.Counts))
}
