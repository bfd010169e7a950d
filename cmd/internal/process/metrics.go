package process

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
)

// observe exports what stands in the database: how much is open, parked and in doubt.
func (n *Node) observe(meter metric.Meter, book *ledger.Store, events *outbox.Store) error {
	receipts, err := meter.Int64ObservableGauge("pawl_receipts_open", metric.WithDescription("Receipts that are worked on or wait for a person, by status."))
	if err != nil {
		return err
	}
	age, err := meter.Float64ObservableGauge("pawl_receipts_oldest", metric.WithUnit("s"),
		metric.WithDescription("Time since the oldest receipt that is worked on or waits for a person came in, by status; 0 where there is none."))
	if err != nil {
		return err
	}
	compensated, err := meter.Int64ObservableGauge("pawl_runs_compensated",
		metric.WithDescription("Runs that ended within the last hour by taking back what they had done."))
	if err != nil {
		return err
	}
	uncertain, err := meter.Int64ObservableGauge("pawl_effects_uncertain", metric.WithDescription("Effects of which nobody knows whether they happened."))
	if err != nil {
		return err
	}
	pending, err := meter.Int64ObservableGauge("pawl_outbox_pending", metric.WithDescription("Internal events that some subscriber has not taken."))
	if err != nil {
		return err
	}
	oldest, err := meter.Float64ObservableGauge("pawl_outbox_oldest_seconds", metric.WithUnit("s"),
		metric.WithDescription("Age of the internal event that has waited longest for some subscriber; 0 when none waits."))
	if err != nil {
		return err
	}
	overdue, err := meter.Float64ObservableGauge("pawl_due_oldest", metric.WithUnit("s"),
		metric.WithDescription("How long what the clock does has waited for its run, what waits longest; 0 when nothing waits."))
	if err != nil {
		return err
	}
	unclaimed, err := meter.Int64ObservableGauge("pawl_money_unclaimed",
		metric.WithDescription("Refunds, disputes and credit notes that are not booked since nothing has told whose they are, by kind."))
	if err != nil {
		return err
	}
	out, err := meter.Float64ObservableGauge("pawl_sink_out", metric.WithUnit("s"),
		metric.WithDescription("Since when a sink is out, by sink, with the reason; 0 while it is not."))
	if err != nil {
		return err
	}
	paused, err := meter.Float64ObservableGauge("pawl_paused", metric.WithUnit("s"),
		metric.WithDescription("Since when a sink or a source is paused, by kind and name; nothing while none is."))
	if err != nil {
		return err
	}
	inFlight, err := meter.Int64ObservableGauge("pawl_sink_in_flight", metric.WithDescription("Effects that are in flight to a sink from this process."))
	if err != nil {
		return err
	}
	places, err := meter.Int64ObservableGauge("pawl_sink_places", metric.WithDescription("How many effects can be in flight to a sink at once from this process."))
	if err != nil {
		return err
	}
	if _, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, g := range n.gates {
			sink := attribute.String("sink", g.Sink())
			since, reason, isOut := g.Out()
			lasts := 0.0
			if isOut {
				lasts = max(time.Since(since).Seconds(), 1) // at once more than 0
			}
			o.ObserveFloat64(out, lasts, metric.WithAttributes(sink, attribute.String("reason", reason)))
			o.ObserveInt64(inFlight, int64(g.Busy()), metric.WithAttributes(sink))
			o.ObserveInt64(places, int64(g.Places()), metric.WithAttributes(sink))
		}
		return nil
	}, out, inFlight, places); err != nil {
		return err
	}
	pauses := pause.New(n.Pool)
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		open, err := n.Receipts.Waiting(ctx)
		if err != nil {
			return err
		}
		for _, status := range []receipt.Status{receipt.Received, receipt.Processing, receipt.Retrying, receipt.NeedsReview, receipt.Dead} {
			label := metric.WithAttributes(attribute.String("status", string(status)))
			o.ObserveInt64(receipts, int64(open[status].Count), label)
			o.ObserveFloat64(age, open[status].Oldest.Seconds(), label)
		}
		takenBack, err := n.Runs.Compensated(ctx, time.Hour)
		if err != nil {
			return err
		}
		o.ObserveInt64(compensated, int64(takenBack))
		doubtful, err := book.Uncertain(ctx)
		if err != nil {
			return err
		}
		o.ObserveInt64(uncertain, int64(doubtful))
		stopped, err := pauses.Now(ctx)
		if err != nil {
			return err
		}
		for _, p := range stopped {
			o.ObserveFloat64(paused, max(time.Since(p.Since).Seconds(), 1),
				metric.WithAttributes(attribute.String("kind", string(p.Kind)), attribute.String("name", p.Name)))
		}
		count, waits, err := events.Pending(ctx)
		if err != nil {
			return err
		}
		o.ObserveInt64(pending, int64(count))
		o.ObserveFloat64(oldest, waits.Seconds())
		late, err := n.Receipts.Overdue(ctx)
		if err != nil {
			return err
		}
		o.ObserveFloat64(overdue, late.Seconds())
		// What comes in disorder is whole after that time; see policy.settle.
		money, err := billing.New(n.Pool).Unclaimed(ctx, BillingPolicy(n.Config).Settle)
		if err != nil {
			return err
		}
		for kind, count := range map[string]int{"refund": money.Refunds, "dispute": money.Disputes, "credit_note": money.Credits} {
			o.ObserveInt64(unclaimed, int64(count), metric.WithAttributes(attribute.String("kind", kind)))
		}
		return nil
	}, receipts, age, compensated, uncertain, pending, oldest, paused, overdue, unclaimed)
	return err
}
