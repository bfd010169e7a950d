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

// observe exports what stands in the database: how much is open, parked and in doubt.
func (n *Node) observe(meter metric.Meter, book *ledger.Store, events *outbox.Store) error {
	return errors.Join(n.observeReceipts(meter), n.observeMoney(meter), n.observeSinks(meter),
		n.observeTasks(meter), observeEffects(meter, book), observeOutbox(meter, events))
}

func (n *Node) observeReceipts(meter metric.Meter) error {
	g := gauges{meter: meter}
	open := g.count("pawl_receipts_open", "Receipts that are worked on or wait for a person, by status.")
	age := g.seconds("pawl_receipts_oldest", "Time since the oldest receipt that is worked on or waits for a person came in, by status; 0 where there is none.")
	compensated := g.count("pawl_runs_compensated",
		"Runs that ended within the last hour by taking back what they had done.")
	overdue := g.seconds("pawl_due_oldest", "How long what the clock does has waited for its run, what waits longest; 0 when nothing waits.")
	return g.read(func(ctx context.Context, o metric.Observer) error {
		waiting, err := n.Receipts.Waiting(ctx)
		if err != nil {
			return err
		}
		for _, status := range []receipt.Status{receipt.Received, receipt.Processing, receipt.Retrying,
			receipt.NeedsReview, receipt.Dead} {
			label := metric.WithAttributes(attribute.String("status", string(status)))
			o.ObserveInt64(open, int64(waiting[status].Count), label)
			o.ObserveFloat64(age, waiting[status].Oldest.Seconds(), label)
		}
		takenBack, err := n.Runs.Compensated(ctx, time.Hour)
		if err != nil {
			return err
		}
		o.ObserveInt64(compensated, int64(takenBack))
		late, err := n.Receipts.Overdue(ctx)
		if err != nil {
			return err
		}
		o.ObserveFloat64(overdue, late.Seconds())
		return nil
	})
}

func (n *Node) observeMoney(meter metric.Meter) error {
	g := gauges{meter: meter}
	unclaimed := g.count("pawl_money_unclaimed", "Refunds, disputes and credit notes that are not booked since nothing has told whose they are, by kind.")
	return g.read(func(ctx context.Context, o metric.Observer) error {
		// Events that come in disorder are complete after that time; see policy.settle.
		money, err := billing.New(n.Pool).Unclaimed(ctx, BillingPolicy(n.Config).Settle)
		if err != nil {
			return err
		}
		for kind, count := range map[string]int{"refund": money.Refunds, "dispute": money.Disputes,
			"credit_note": money.Credits} {
			o.ObserveInt64(unclaimed, int64(count), metric.WithAttributes(attribute.String("kind", kind)))
		}
		return nil
	})
}

// observeTasks exports what a person has to do, by kind and mode. There are a dozen kinds.
func (n *Node) observeTasks(meter metric.Meter) error {
	g := gauges{meter: meter}
	open := g.count("pawl_tasks_open", "Open tasks for people, by kind and mode; nothing while none is.")
	oldest := g.seconds("pawl_tasks_oldest", "Since when the oldest of them is open.")
	due := g.seconds("pawl_tasks_due", "Time until the first of them is too late, below 0 afterwards; nothing where none is due.")
	return g.read(func(ctx context.Context, o metric.Observer) error {
		counts, err := account.CountTasks(ctx, n.Pool)
		if err != nil {
			return err
		}
		for _, c := range counts {
			of := metric.WithAttributes(attribute.String("kind", c.Kind), attribute.String("mode", c.Mode))
			o.ObserveInt64(open, int64(c.Tasks), of)
			o.ObserveFloat64(oldest, time.Since(c.Oldest).Seconds(), of)
			if c.DueBy != nil {
				o.ObserveFloat64(due, time.Until(*c.DueBy).Seconds(), of)
			}
		}
		return nil
	})
}

// observeSinks exports the state of the sinks, and the pauses. Only the pauses come from the database: the rest is
// exported while Postgres is down.
func (n *Node) observeSinks(meter metric.Meter) error {
	g := gauges{meter: meter}
	out := g.seconds("pawl_sink_out", "Since when a sink is out, by sink, with the reason; 0 while it is not.")
	inFlight := g.count("pawl_sink_in_flight", "Effects that are in flight to a sink from this process.")
	places := g.count("pawl_sink_places", "How many effects can be in flight to a sink at once from this process.")
	err := g.read(func(_ context.Context, o metric.Observer) error {
		for _, gate := range n.gates {
			sink := attribute.String("sink", gate.Sink())
			since, reason, isOut := gate.Out()
			lasts := 0.0
			if isOut {
				lasts = sinceThen(since)
			}
			o.ObserveFloat64(out, lasts, metric.WithAttributes(sink, attribute.String("reason", reason)))
			o.ObserveInt64(inFlight, int64(gate.Busy()), metric.WithAttributes(sink))
			o.ObserveInt64(places, int64(gate.Places()), metric.WithAttributes(sink))
		}
		return nil
	})
	pauses, p := pause.New(n.Pool), gauges{meter: meter}
	paused := p.seconds("pawl_paused", "Since when a sink or a source is paused, by kind and name; nothing while none is.")
	return errors.Join(err, p.read(func(ctx context.Context, o metric.Observer) error {
		stopped, err := pauses.Now(ctx)
		if err != nil {
			return err
		}
		for _, s := range stopped {
			o.ObserveFloat64(paused, sinceThen(s.Since),
				metric.WithAttributes(attribute.String("kind", string(s.Kind)), attribute.String("name", s.Name)))
		}
		return nil
	}))
}

func observeEffects(meter metric.Meter, book *ledger.Store) error {
	g := gauges{meter: meter}
	uncertain := g.count("pawl_effects_uncertain", "Effects of which nobody knows whether they happened.")
	return g.read(func(ctx context.Context, o metric.Observer) error {
		doubtful, err := book.Uncertain(ctx)
		if err != nil {
			return err
		}
		o.ObserveInt64(uncertain, int64(doubtful))
		return nil
	})
}

func observeOutbox(meter metric.Meter, events *outbox.Store) error {
	g := gauges{meter: meter}
	pending := g.count("pawl_outbox_pending", "Internal events that some subscriber has not taken.")
	oldest := g.seconds("pawl_outbox_oldest_seconds", "Age of the internal event that has waited longest for some subscriber; 0 when none waits.")
	return g.read(func(ctx context.Context, o metric.Observer) error {
		count, waits, err := events.Pending(ctx)
		if err != nil {
			return err
		}
		o.ObserveInt64(pending, int64(count))
		o.ObserveFloat64(oldest, waits.Seconds())
		return nil
	})
}

// sinceThen is the seconds since a time, and at once more than 0.
func sinceThen(at time.Time) float64 { return max(time.Since(at).Seconds(), 1) }

// gauges are read together. The first error in making them is kept for read.
type gauges struct {
	meter metric.Meter
	all   []metric.Observable
	err   error
}

func (g *gauges) count(name, says string) metric.Int64ObservableGauge {
	gauge, err := g.meter.Int64ObservableGauge(name, metric.WithDescription(says))
	g.all, g.err = append(g.all, gauge), errors.Join(g.err, err)
	return gauge
}

func (g *gauges) seconds(name, says string) metric.Float64ObservableGauge {
	gauge, err := g.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(says))
	g.all, g.err = append(g.all, gauge), errors.Join(g.err, err)
	return gauge
}

// read has the gauges read by observe at each collection, in two seconds at most.
func (g *gauges) read(observe metric.Callback) error {
	if g.err != nil {
		return g.err
	}
	_, err := g.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return observe(ctx, o)
	}, g.all...)
	return err
}
