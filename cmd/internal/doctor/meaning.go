package doctor

import (
	"context"

	"github.com/pawlhq/pawl/schema/billing"
)

// meaning compares the billing policy of the file with the meaning in force.
func (d *Doctor) meaning(ctx context.Context, f *findings) error {
	inForce, err := billing.HashInForce(ctx, d.Pool)
	if err != nil {
		return err
	}
	own, err := billing.WithLinks(ctx, d.Pool, d.Meaning)
	switch {
	case err != nil:
		return err
	case inForce == "":
		f.add(OK, "meaning", "", "none is in force yet: that of the first worker will be")
	case inForce == own.Hash():
		f.add(OK, "meaning", "", "%s is in force", inForce)
	default:
		f.add(Warn, "meaning", "`pawl meaning diff` shows whom a switch hits, and `pawl meaning apply` switches",
			"%s is in force, and the file says another: %s", inForce, own.Hash())
	}
	return nil
}
