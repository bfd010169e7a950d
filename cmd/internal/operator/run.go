package operator

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// checkRun changes the status of a stored event to received, so that the dispatcher of a running ingress starts it. It
// accepts
//
//   - an ignored event that has a flow or a consumer and was ignored without a run (otherwise replay it);
//   - an event that was parked before its run, for example a suspected replay or a rejected start;
//   - an event with a run that belongs to another receipt ([receipt.AnotherRun]). It gets a run with its own ID.
func checkRun(ctx context.Context, d *Decision, r *timeline.Receipt) (*change, error) {
	switch s := situationOf(d.o, r); {
	case s == closed && r.Status == string(receipt.Ignored):
		return checkReplay(ctx, d, r)
	case s != ignored && s != beforeRun:
		return nil, d.refuseEvent(r, "%s", s.words(r, "run is for an event that never ran"))
	}
	c := eventChange(r, map[string]any{"status": receipt.Received})
	c.do = func(ctx context.Context, tx pgx.Tx) error {
		if r.ReasonCode == receipt.AnotherRun {
			return d.came(ctx, r,
				receipt.RunAnewIn(ctx, tx, r.ID, receipt.Status(r.Status), r.Reason, inputOf(r).AnewID()))
		}
		return d.came(ctx, r,
			receipt.MoveIn(ctx, tx, r.ID, receipt.Status(r.Status), r.Reason, receipt.Received, ""))
	}
	return c, nil
}

// dismissed returns the change that ignores an event that needs a decision and has no run.
func dismissed(d *Decision, r *timeline.Receipt) *change {
	c := eventChange(r, map[string]any{"status": receipt.Ignored})
	c.do = func(ctx context.Context, tx pgx.Tx) error {
		reason := fmt.Sprintf("%s: rejected by %s: %s", receipt.Dismissed, d.Who, d.Why)
		return d.came(ctx, r,
			receipt.MoveIn(ctx, tx, r.ID, receipt.Status(r.Status), r.Reason, receipt.Ignored, reason))
	}
	return c
}

// inputOf returns the input of the event's run.
func inputOf(r *timeline.Receipt) workflows.EventInput {
	return workflows.EventInput{Ref: event.Ref{
		ReceiptID: r.ID, Provider: r.Provider, Account: r.Account, Mode: r.Mode,
		EventID: r.EventID, RelayOf: r.RelayOf, Type: r.Type, ObjectID: r.ObjectID, Correlation: r.CorrelationID,
	}}
}
