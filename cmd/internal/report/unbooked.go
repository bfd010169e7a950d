package report

import (
	"context"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/timeline"
)

// Unclaimed is the kind of the concern about money of no known account. Its name is the mode.
const Unclaimed = "unclaimed"

// unbooked returns the money that moved and is not booked, because no event names its account or no source maps its
// connected account. Live and test mode have a row each.
func unbooked(ctx context.Context, cfg *config.Config, o *operator.Operator) (concerns []Concern, err error) {
	sums, err := billing.New(o.DB).SumUnclaimed(ctx, cfg.Settles())
	if err != nil {
		return nil, err
	}
	for _, s := range sums {
		concerns = append(concerns, Concern{Unclaimed, s.Mode, &s.Since,
			output.Plural(s.Objects, strings.ReplaceAll(s.Kind, "_", " ")) + " (" + operator.Sums(s.Money) +
				") not booked: no event names the account. Give each to an account with pawl money claim",
			"money unclaimed --mode " + s.Mode})
	}
	unmapped, err := timeline.ReadUnmapped(ctx, o.DB)
	for _, u := range unmapped {
		concerns = append(concerns, Concern{"unmapped", u.Account, &u.Since,
			output.Plural(u.Events, u.Mode+" event") + " ignored, " + operator.Sums(u.Money) +
				" paid: map the connected account in sources.NAME.accounts, or link it with pawl accounts link",
			"events list --status ignored --reason account_not_mapped"})
	}
	return concerns, err
}
