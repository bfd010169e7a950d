package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// run makes an event received that was kept and not run; the dispatcher of a running ingress starts it. It takes an event
//
//   - that is ignored, where a flow is written for its type or its source has consumers; one that a run has ignored is
//     replayed;
//   - that was parked before any run: a suspected replay, a start that Temporal refused;
//   - whose run in Temporal is another receipt's ([receipt.AnotherRun]): it gets a run under an ID of its own.
func (d *Desk) run(ctx context.Context, ask Ask, r *timeline.Receipt) (*Answer, error) {
	if err := d.runnable(ask, r); err != nil {
		return nil, err
	}
	if d.standOf(r) == closed {
		return d.replay(ctx, ask, r)
	}
	in := inputOf(r)
	added, err := d.Audit.AppendWith(ctx, d.action(ask, r, map[string]any{"status": receipt.Received}), func(ctx context.Context, tx pgx.Tx) error {
		if r.ReasonCode == receipt.AnotherRun {
			return receipt.RunAnewIn(ctx, tx, r.ID, receipt.Status(r.Status), r.Reason, in.AnewID())
		}
		return receipt.MoveIn(ctx, tx, r.ID, receipt.Status(r.Status), r.Reason, receipt.Received, "")
	})
	if answer, err := d.settled(ctx, ask, r, added, err); answer != nil || err != nil {
		return answer, err
	}
	answer := ask.answer(r)
	answer.Says = "it is received and will be run"
	if in.OnlyRelays() {
		answer.Says = fmt.Sprintf("it is received; no flow is written for %s, so it is delivered to %s and nothing else", r.Type, strings.Join(d.Relays[r.Source], ", "))
		if len(d.Relays[r.Source]) == 0 {
			answer.Says = fmt.Sprintf("it is received and will be run; no flow is written for %s, and source %s relays to nobody: it will park", r.Type, r.Source)
		}
	}
	return answer, nil
}

// runnable refuses to run an event that is not kept for that.
func (d *Desk) runnable(ask Ask, r *timeline.Receipt) error {
	switch d.standOf(r) {
	case closed:
		if r.Status != string(receipt.Ignored) {
			return d.refuse(ask, r, "is %s: it has run", r.Status)
		}
	case left, asked:
	default:
		return d.refuse(ask, r, "is %s and has a run", d.status(r))
	}
	return nil
}

// dismiss leaves an event that waits for a person and has no run.
func (d *Desk) dismiss(ctx context.Context, ask Ask, r *timeline.Receipt) (*Answer, error) {
	reason := fmt.Sprintf("%s: rejected by %s: %s", receipt.Dismissed, ask.Who, ask.Why)
	added, err := d.Audit.AppendWith(ctx, d.action(ask, r, map[string]any{"status": receipt.Ignored}), func(ctx context.Context, tx pgx.Tx) error {
		return receipt.MoveIn(ctx, tx, r.ID, receipt.Status(r.Status), r.Reason, receipt.Ignored, reason)
	})
	if answer, err := d.settled(ctx, ask, r, added, err); answer != nil || err != nil {
		return answer, err
	}
	answer := ask.answer(r)
	answer.Says = "it is ignored, and nothing is done"
	return answer, nil
}

// action is what the audit trail holds of a verb that no run takes.
func (d *Desk) action(ask Ask, r *timeline.Receipt, after map[string]any) audit.Action {
	return audit.Action{
		RequestID: audit.DecisionID(r.ID, ask.RequestID), Actor: ask.Who, Action: ask.Verb, Target: r.EventID, Reason: ask.Why,
		Before: map[string]any{"receipt": r.ID, "status": r.Status, "reason": r.Reason}, After: after,
	}
}

// settled returns an answer or an error where recording an action with its change has not gone as it should: the same
// request was taken at this moment, or the receipt has moved on.
func (d *Desk) settled(ctx context.Context, ask Ask, r *timeline.Receipt, added bool, err error) (*Answer, error) {
	switch {
	case err == nil && added:
		return nil, nil
	case err == nil:
		return d.repeated(ctx, ask, r)
	case !errors.Is(err, receipt.ErrMoved):
		return nil, err
	}
	now, err := FindEvent(ctx, d.DB, r.ID)
	if err != nil {
		return nil, err
	}
	return nil, d.refuse(ask, now, "was %s, and is %s by now: another decision came first", r.Status, now.Status)
}

// status is a receipt's status, with the code of its reason.
func (d *Desk) status(r *timeline.Receipt) string {
	if r.ReasonCode == "" {
		return r.Status
	}
	return r.Status + " (" + r.ReasonCode + ")"
}
