package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/activities/effect"
)

// waits returns the result of an entry that comes after another one, as long as that is to be booked; the zero result
// for any other. It takes no place at the sink, and claims nothing. An entry that a person says has happened does not
// wait.
//
// It reads once more after it has said that the run waits, since the first may be settled between the two.
func (f *Finance) waits(ctx context.Context, c effect.Call) (effect.Result, error) {
	if len(c.After) == 0 || c.ByHand != nil {
		return effect.Result{}, nil
	}
	first, err := f.Facts.FirstToBook(ctx, c.ReceiptID, c.After)
	var waited time.Duration
	if err == nil && first != "" {
		run := activity.GetInfo(ctx).WorkflowExecution.ID
		if waited, err = f.Effects.Ledger.Wait(ctx, c.Key, run, first); err == nil {
			first, err = f.Facts.FirstToBook(ctx, c.ReceiptID, c.After)
		}
	}
	if err != nil || first == "" {
		return effect.Result{}, effect.Infrastructure(err)
	}
	f.Effects.Waits(ctx, c, "", first, effect.NotFirst)
	return effect.Result{State: effect.Waits, First: first, Reason: waitsFor + first,
		Wait: min(max(waited/4, leastWait), mostWait)}, nil
}

const waitsFor = "waits for "

// An entry looks again by itself after a while. It is told when the first is settled, and when the run of that ends
// otherwise; nobody tells it only of a run that was ended in Temporal. Each look stands in the run's history: the
// longer it has waited, the seldomer.
const (
	leastWait = 5 * time.Second
	mostWait  = 10 * time.Minute
)
