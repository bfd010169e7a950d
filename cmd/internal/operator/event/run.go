package event

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

const verbRun = "run"

// Run implements `pawl events start`.
var Run = decide.Verb{
	Name: verbRun, Judges: true, JudgesReviews: true, Command: "events start", Target: "ID", Previews: true,
	Rule: ruleOf(checkRun, func(ctx context.Context, d *decide.Decision, r *timeline.Receipt, p *decide.Preview) error {
		if situationOf(d.Operator, r) == closed {
			return forecastReplay(ctx, d, r, p)
		}
		return forecastRun(ctx, d, r, p)
	}),
	Many:  []string{string(receipt.Ignored), string(receipt.NeedsReview), string(receipt.Dead)},
	Short: "Start the run of an event that was ignored or parked before it ran",
	Long: `Start the run of a stored event that has not run: an event that was ignored because of its type, or parked before its
first run (a suspected replay). pawl events list --status ignored lists ignored events. If no flow handles the event,
it is delivered to the destinations of its source; if the source has no destination, the command refuses.

Run an event that has run already again with pawl events replay.`,
}

// checkRun changes the status of a stored event to received, so that the dispatcher of a running ingress starts it. It
// accepts
//
//   - an ignored event that has a flow or a destination and was ignored without a run (otherwise replay it);
//   - an event that was parked before its run, for example a suspected replay or a rejected start;
//   - an event with a run that belongs to another receipt ([receipt.ForeignRun]). It gets a run with its own ID.
func checkRun(ctx context.Context, d *decide.Decision, r *timeline.Receipt) (*decide.Change, error) {
	switch s := situationOf(d.Operator, r); {
	case s == closed && r.Status == string(receipt.Ignored):
		return checkReplay(ctx, d, r)
	case s != ignored && s != beforeRun:
		return nil, refuseEvent(d, r, "%s", s.words(r, "run is for an event that never ran"))
	}
	c := changeOf(r, map[string]any{"status": receipt.Received})
	c.Do = func(ctx context.Context, tx pgx.Tx) error {
		if r.ReasonCode == receipt.ForeignRun {
			return came(ctx, d, r,
				receipt.RunAnewIn(ctx, tx, r.ID, receipt.Status(r.Status), r.Reason, decide.InputOf(r).AnewID()))
		}
		return came(ctx, d, r,
			receipt.MoveIn(ctx, tx, r.ID, receipt.Status(r.Status), r.Reason, receipt.Received, ""))
	}
	return c, nil
}
