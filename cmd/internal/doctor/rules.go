package doctor

import (
	"context"

	"github.com/pawlhq/pawl/schema/billing"
)

// rules compares the billing rules of the configuration file with the active ones.
func (d *Doctor) rules(ctx context.Context, f *findings) error {
	active, err := billing.ActiveRulesHash(ctx, d.Pool)
	if err != nil {
		return err
	}
	own, err := billing.WithLinks(ctx, d.Pool, d.Rules)
	switch {
	case err != nil:
		return err
	case active == "":
		f.add(OK, "rules", "", "no rules are active yet: the first worker activates the rules of its file")
	case active == own.Hash():
		f.add(OK, "rules", "", "%s is active", active)
	default:
		f.add(Warn, "rules", "`pawl rules diff` shows the affected accounts, and `pawl rules apply` activates the rules of the file",
			"%s is active, but the file contains different rules: %s", active, own.Hash())
	}
	return nil
}
