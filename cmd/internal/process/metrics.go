package process

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
)

// gauge is a figure that is exported. Its unit is "s" or "".
type gauge struct{ name, unit, says string }

// set gives a gauge, by its name, the value that it shows now.
type set func(gauge string, value float64, labels ...attribute.KeyValue)

// observe exports what stands in the database: how much is open, parked and in doubt. The state of
// the sinks comes from this process, and is exported while Postgres is down, too.
func (n *Node) observe(meter metric.Meter, book *ledger.Store, events *outbox.Store) error {
	var faults []error
	for _, f := range []struct {
		read   func(context.Context, set) error
		gauges []gauge
	}{
		{n.readReceipts, []gauge{
			{"pawl_receipts_open", "", "Receipts that are worked on or wait for a person, by status."},
			{"pawl_receipts_oldest", "s", "Time since the oldest receipt that is worked on or waits for a person came in, by status; 0 where there is none."},
			{"pawl_runs_compensated", "", "Runs that ended within the last hour by taking back what they had done."},
			{"pawl_due_oldest", "s", "How long what the clock does has waited for its run, what waits longest; 0 when nothing waits."},
		}},
		{n.readMoney, []gauge{{"pawl_money_unclaimed", "", "Payments, refunds, disputes and credit notes that are not booked since nothing has told whose they are or what was paid for, by kind."}}},
		{func(ctx context.Context, set set) error {
			counts, err := billing.New(n.Pool).NotOurs(ctx)
			for mode, count := range counts {
				set("pawl_subscriptions_not_ours", float64(count), attribute.String("mode", mode))
			}
			return err
		}, []gauge{{"pawl_subscriptions_not_ours", "", "Subscriptions of what plans.ignore lists alone, by mode; nothing while none is."}}},
		{n.readTasks, []gauge{
			{"pawl_tasks_open", "", "Open tasks for people, by kind and mode; nothing while none is."},
			{"pawl_tasks_oldest", "s", "Since when the oldest of them is open."},
			{"pawl_tasks_due", "s", "Time until the first of them is too late, below 0 afterwards; nothing where none is due."},
		}},
		{n.readSinks, []gauge{
			{"pawl_sink_out", "s", "Since when a sink is out, by sink, with the reason; 0 while it is not."},
			{"pawl_sink_in_flight", "", "Effects that are in flight to a sink from this process."},
			{"pawl_sink_places", "", "How many effects can be in flight to a sink at once from this process."},
		}},
		{n.readPauses, []gauge{{"pawl_paused", "s", "Since when a sink or a source is paused, by kind and name; nothing while none is."}}},
		{func(ctx context.Context, set set) error {
			doubtful, err := book.Uncertain(ctx)
			set("pawl_effects_uncertain", float64(doubtful))
			return err
		}, []gauge{{"pawl_effects_uncertain", "", "Effects of which nobody knows whether they happened."}}},
		{func(ctx context.Context, set set) error {
			count, waits, err := events.Pending(ctx)
			set("pawl_outbox_pending", float64(count))
			set("pawl_outbox_oldest_seconds", waits.Seconds())
			return err
		}, []gauge{
			{"pawl_outbox_pending", "", "Internal events that some subscriber has not taken."},
			{"pawl_outbox_oldest_seconds", "s", "Age of the internal event that has waited longest for some subscriber; 0 when none waits."},
		}},
	} {
		faults = append(faults, export(meter, f.read, f.gauges))
	}
	return errors.Join(faults...)
}

// export has gauges read together at each collection, in two seconds at most. A reading that fails shows nothing.
func export(meter metric.Meter, read func(context.Context, set) error, gauges []gauge) error {
	made := map[string]metric.Float64ObservableGauge{}
	var all []metric.Observable
	for _, g := range gauges {
		instrument, err := meter.Float64ObservableGauge(g.name, metric.WithUnit(g.unit),
			metric.WithDescription(g.says))
		if err != nil {
			return err
		}
		made[g.name], all = instrument, append(all, instrument)
	}
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		var shown []func()
		err := read(ctx, func(gauge string, value float64, labels ...attribute.KeyValue) {
			shown = append(shown, func() { o.ObserveFloat64(made[gauge], value, metric.WithAttributes(labels...)) })
		})
		if err != nil {
			return err
		}
		for _, show := range shown {
			show()
		}
		return nil
	}, all...)
	return err
}

func (n *Node) readReceipts(ctx context.Context, set set) error {
	waiting, waitingErr := n.Receipts.Waiting(ctx)
	for _, status := range []receipt.Status{receipt.Received, receipt.Processing, receipt.Retrying,
		receipt.NeedsReview, receipt.Dead} {
		label := attribute.String("status", string(status))
		set("pawl_receipts_open", float64(waiting[status].Count), label)
		set("pawl_receipts_oldest", waiting[status].Oldest.Seconds(), label)
	}
	takenBack, takenErr := n.Runs.Compensated(ctx, time.Hour)
	set("pawl_runs_compensated", float64(takenBack))
	late, lateErr := n.Receipts.Overdue(ctx)
	set("pawl_due_oldest", late.Seconds())
	return errors.Join(waitingErr, takenErr, lateErr)
}

func (n *Node) readMoney(ctx context.Context, set set) error {
	// Events that come in disorder are complete after that time; see policy.settle.
	money, err := billing.New(n.Pool).Unclaimed(ctx, BillingPolicy(n.Config).Settle)
	for kind, count := range map[string]int{"payment": money.Payments, "refund": money.Refunds, "dispute": money.Disputes,
		"credit_note": money.Credits} {
		set("pawl_money_unclaimed", float64(count), attribute.String("kind", kind))
	}
	return err
}

func (n *Node) readTasks(ctx context.Context, set set) error {
	counts, err := account.CountTasks(ctx, n.Pool)
	for _, c := range counts {
		kind, mode := attribute.String("kind", c.Kind), attribute.String("mode", c.Mode)
		set("pawl_tasks_open", float64(c.Tasks), kind, mode)
		set("pawl_tasks_oldest", time.Since(c.Oldest).Seconds(), kind, mode)
		if c.DueBy != nil {
			set("pawl_tasks_due", time.Until(*c.DueBy).Seconds(), kind, mode)
		}
	}
	return err
}

func (n *Node) readSinks(_ context.Context, set set) error {
	for _, gate := range n.gates {
		sink := attribute.String("sink", gate.Sink())
		since, reason, isOut := gate.Out()
		lasts := 0.0
		if isOut {
			lasts = sinceThen(since)
		}
		set("pawl_sink_out", lasts, sink, attribute.String("reason", reason))
		set("pawl_sink_in_flight", float64(gate.Busy()), sink)
		set("pawl_sink_places", float64(gate.Places()), sink)
	}
	return nil
}

func (n *Node) readPauses(ctx context.Context, set set) error {
	stopped, err := pause.New(n.Pool).Now(ctx)
	for _, s := range stopped {
		set("pawl_paused", sinceThen(s.Since), attribute.String("kind", string(s.Kind)),
			attribute.String("name", s.Name))
	}
	return err
}

// sinceThen is the seconds since a time, and at once more than 0.
func sinceThen(at time.Time) float64 { return max(time.Since(at).Seconds(), 1) }
