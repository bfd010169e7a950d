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

// checkRun makes an event received that was kept and not run; the dispatcher of a running ingress starts it. It takes
//
//   - an ignored event, if a flow is written for its type or its source has consumers; one that a run has ignored is
//     replayed;
//   - an event that was parked before any run: a suspected replay, a start that Temporal refused;
//   - an event whose run in Temporal is another receipt's ([receipt.AnotherRun]): it gets a run under an ID of its own.
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

// dismissed leaves an event that waits for a person and has no run.
func dismissed(d *Decision, r *timeline.Receipt) *change {
	c := eventChange(r, map[string]any{"status": receipt.Ignored})
	c.do = func(ctx context.Context, tx pgx.Tx) error {
		reason := fmt.Sprintf("%s: rejected by %s: %s", receipt.Dismissed, d.Who, d.Why)
		return d.came(ctx, r,
			receipt.MoveIn(ctx, tx, r.ID, receipt.Status(r.Status), r.Reason, receipt.Ignored, reason))
	}
	return c
}

// inputOf is what the run of an event is started with.
func inputOf(r *timeline.Receipt) workflows.EventInput {
	return workflows.EventInput{Ref: event.Ref{
		ReceiptID: r.ID, Provider: r.Provider, Account: r.Account, Mode: r.Mode,
		EventID: r.EventID, RelayOf: r.RelayOf, Type: r.Type, ObjectID: r.ObjectID, Correlation: r.CorrelationID,
	}}
}
