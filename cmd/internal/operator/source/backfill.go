package source

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
)

// Backfill stores the events of a [*GapReport], which is both its Found and its result.
var Backfill = decide.Verb{
	Name: "backfill", Target: "SOURCE", Rule: backfillRule,
	Short: "Store the events that a provider sent and pawl missed",
}

// backfillRule stores the missing events of a [*GapReport] as a delivery would. If the provider delivers one of these
// events later, that delivery is a duplicate. The dispatcher of a running ingress starts the runs of the events.
var backfillRule = decide.Rule[*GapReport, *GapReport]{
	Find: decide.Shown(func(report *GapReport) string { return "gaps/" + report.Source }),
	Check: func(_ context.Context, _ *decide.Decision, report *GapReport) (*decide.Change, error) {
		ids := make([]string, 0, len(report.Missing))
		for _, gap := range report.Missing {
			ids = append(ids, gap.EventID)
		}
		return &decide.Change{
			Target: report.Source, After: map[string]any{"events": ids},
			Before: map[string]any{"from": report.From, "to": report.To, "listed": report.Listed, "missing": len(ids)},
		}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, report *GapReport, _ decide.Recorded) (string, *GapReport,
		error) {
		for gaps := range slices.Chunk(report.Missing, filedAtOnce) {
			all := gaps[0].delivery
			all.Events = nil
			for _, gap := range gaps {
				all.Events = append(all.Events, gap.delivery.Events...)
			}
			outcomes, err := d.Operator.Insert(ctx, all)
			if err != nil {
				return "", nil, fmt.Errorf("store the missing events: %w; %d of %d are stored: repeat the command, which stores no event twice", err, len(report.Filed), len(report.Missing))
			}
			report.Filed = append(report.Filed, Filed(all, outcomes)...)
		}
		return fmt.Sprintf("%d stored: no event is missing any more", len(report.Filed)), report, nil
	},
}

// filedAtOnce is the number of events per transaction.
const filedAtOnce = 50
