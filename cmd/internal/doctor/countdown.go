package doctor

import (
	"context"

	"github.com/pawlhq/pawl/cmd/internal/report"
)

// countdown lists the sources with failed deliveries, and when their providers disable the endpoint.
func (d *Doctor) countdown(ctx context.Context, f *findings) error {
	all, err := report.Countdowns(ctx, d.Config, d.Pool)
	if err != nil {
		return err
	}
	for _, c := range all {
		level := Warn
		if c.Share >= report.GivesUpNow {
			level = Fail
		}
		f.add(level, c.Source, "see in the ingress' log why deliveries are not committed; the next 2xx ends the count",
			"%s", c.Says)
	}
	if len(all) == 0 {
		f.add(OK, "5xx", "", "the last delivery of every source was taken")
	}
	return nil
}
