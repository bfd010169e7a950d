package process

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows/plan"
)

// gauge is an exported metric. Its unit is "s" or "".
type gauge struct{ name, unit, says string }

// set sets the value of the gauge with the given name.
type set func(gauge string, value float64, labels ...attribute.KeyValue)

// exporter exports the gauges of a worker.
type exporter struct {
	*Node
	meter  metric.Meter
	book   *ledger.Store
	events *outbox.Store
}

// observe exports the state in the database: the numbers of open, parked and uncertain receipts and effects. The state
// of the sinks is known to this process, and is exported even while Postgres is down.
func (e *exporter) observe() error {
	var faults []error
	for _, f := range []struct {
		read   func(context.Context, set) error
		gauges []gauge
	}{
		{e.readReceipts, []gauge{
			{"pawl_receipts_open", "", "Unfinished receipts, by status, mode, and whether their type involves money."},
			{"pawl_receipts_oldest", "s", "Age of the oldest unfinished receipt, by the same labels; 0 if there is no such receipt."},
			{"pawl_runs_compensated", "", "Runs that ended within the last hour by compensating their effects."},
			{"pawl_scheduled_actions_oldest", "s", "How long the oldest scheduled action has waited for its run; 0 if nothing waits."},
		}},
		{e.readMoney, []gauge{{"pawl_payments_unassigned", "", "Payments, refunds, disputes, credit notes and checkout sessions that are not booked because their account or purpose is unknown, by kind."}}},
		{func(ctx context.Context, set set) error {
			counts, err := billing.New(e.Pool).NotOurs(ctx)
			for mode, count := range counts {
				set("pawl_subscriptions_ignored", float64(count), attribute.String("mode", mode))
			}
			return err
		}, []gauge{{"pawl_subscriptions_ignored", "", "Subscriptions with only products of plans.ignore, by mode; absent without any."}}},
		{e.readTasks, []gauge{
			{"pawl_tasks_open", "", "Open tasks, by kind and mode; absent if no task is open."},
			{"pawl_tasks_oldest", "s", "Age of the oldest open task, by kind and mode."},
			{"pawl_tasks_due", "s", "Time until the first deadline of an open task, negative afterwards; absent if no task has a deadline."},
		}},
		{e.readSinks, []gauge{
			{"pawl_sink_down", "s", "Time since a sink went down, by sink, with the reason; 0 if it is up."},
			{"pawl_sink_in_flight", "", "Effects that are in flight to a sink from this process."},
			{"pawl_sink_in_flight_max", "", "Maximum number of effects in flight to a sink from this process."},
		}},
		{e.readPauses, []gauge{{"pawl_paused", "s", "Time since a sink or a source was paused, by kind and name; absent without a pause."}}},
		{func(ctx context.Context, set set) error {
			doubtful, err := e.book.Uncertain(ctx)
			set("pawl_effects_uncertain", float64(doubtful))
			return err
		}, []gauge{{"pawl_effects_uncertain", "", "Effects that may or may not have happened."}}},
		{func(ctx context.Context, set set) error {
			count, seconds, err := e.book.Owed(ctx, undos())
			set("pawl_undos_open", float64(count))
			set("pawl_undos_oldest", seconds)
			return err
		}, []gauge{
			{"pawl_undos_open", "", "Compensating effects that are not done."},
			{"pawl_undos_oldest", "s", "Time since the first attempt of the oldest compensating effect that is not done; 0 if there is no such effect."},
		}},
		{func(ctx context.Context, set set) error {
			count, waits, err := e.events.Pending(ctx)
			set("pawl_outbox_pending", float64(count))
			set("pawl_outbox_oldest_seconds", waits.Seconds())
			return err
		}, []gauge{
			{"pawl_outbox_pending", "", "Internal events that at least one destination has not accepted."},
			{"pawl_outbox_oldest_seconds", "s", "Age of the oldest internal event that a destination has not accepted; 0 if no event waits."},
		}},
	} {
		faults = append(faults, export(e.meter, f.read, f.gauges))
	}
	return errors.Join(append(faults, e.observeStanding())...)
}

func undos() (kinds []string) {
	for _, k := range plan.Catalogue() {
		if k.Undo != "" && !slices.Contains(kinds, k.Undo) {
			kinds = append(kinds, k.Undo)
		}
	}
	return kinds
}

func measureCommits(meter metric.Meter) (func(groupcommit.Flushed), error) {
	took, err1 := meter.Float64Histogram("pawl_group_commit", metric.WithUnit("s"),
		metric.WithDescription("Duration of group commits, by subject and outcome."))
	requests, err2 := meter.Int64Counter("pawl_group_commit_requests",
		metric.WithDescription("Requests that shared group commits, by their subject."))
	return func(f groupcommit.Flushed) {
		outcome := "ok"
		if f.Failed {
			outcome = "failed"
		}
		of := attribute.String("of", f.Name)
		took.Record(context.Background(), f.Took.Seconds(), metric.WithAttributes(of,
			attribute.String("outcome", outcome)))
		requests.Add(context.Background(), int64(f.Requests), metric.WithAttributes(of))
	}, errors.Join(err1, err2)
}

func observePools(meter metric.Meter, pools map[string]*pgxpool.Pool) error {
	waits, err := meter.Int64ObservableCounter("pawl_pool_waits",
		metric.WithDescription("Waits for a connection, by pool."))
	if err != nil {
		return err
	}
	if _, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for name, pool := range pools {
			label := metric.WithAttributes(attribute.String("pool", name))
			o.ObserveInt64(waits, pool.Stat().EmptyAcquireCount(), label)
		}
		return nil
	}, waits); err != nil {
		return err
	}
	return export(meter, func(_ context.Context, set set) error {
		for name, pool := range pools {
			label, stat := attribute.String("pool", name), pool.Stat()
			set("pawl_pool_connections", float64(stat.AcquiredConns()), label, attribute.String("state", "in_use"))
			set("pawl_pool_connections", float64(stat.IdleConns()), label, attribute.String("state", "idle"))
			set("pawl_pool_connections_max", float64(stat.MaxConns()), label)
		}
		return nil
	}, []gauge{
		{"pawl_pool_connections", "", "Connections to the database, by pool and state."},
		{"pawl_pool_connections_max", "", "Maximum number of connections, by pool."},
	})
}

// export registers gauges that are read together at each scrape, within two seconds. If the read fails, it exports none
// of them.
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

func (e *exporter) readReceipts(ctx context.Context, set set) error {
	found, waitingErr := e.Receipts.Waiting(ctx, e.Config.Notify.FinancialLike())
	waiting := map[receipt.Open]receipt.Waiting{}
	for _, w := range found {
		waiting[w.Open] = w
	}
	for _, status := range []receipt.Status{receipt.Received, receipt.Processing, receipt.Retrying,
		receipt.NeedsReview, receipt.Dead} {
		for _, mode := range []webhook.Mode{webhook.Live, webhook.Test} {
			for _, financial := range []bool{false, true} {
				w := waiting[receipt.Open{Status: status, Mode: string(mode), Financial: financial}]
				labels := []attribute.KeyValue{attribute.String("status", string(status)),
					attribute.String("mode", string(mode)), attribute.Bool("financial", financial)}
				set("pawl_receipts_open", float64(w.Count), labels...)
				set("pawl_receipts_oldest", w.Seconds, labels...)
			}
		}
	}
	takenBack, takenErr := e.Runs.Compensated(ctx, time.Hour)
	set("pawl_runs_compensated", float64(takenBack))
	late, lateErr := receipt.Overdue(ctx, e.Pool)
	set("pawl_scheduled_actions_oldest", late.Seconds())
	return errors.Join(waitingErr, takenErr, lateErr)
}

func (e *exporter) readMoney(ctx context.Context, set set) error {
	// Late events have usually arrived after policy.subscription_wait.
	money, err := billing.New(e.Pool).Unassigned(ctx, BillingPolicy(e.Config).Settle)
	for kind, count := range map[string]int{
		"payment": money.Payments, "refund": money.Refunds, "dispute": money.Disputes,
		"credit_note": money.Credits, "checkout": money.Checkouts,
	} {
		set("pawl_payments_unassigned", float64(count), attribute.String("kind", kind))
	}
	return err
}

func (e *exporter) readTasks(ctx context.Context, set set) error {
	counts, err := account.CountTasks(ctx, e.Pool, false)
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

func (e *exporter) readSinks(_ context.Context, set set) error {
	for _, gate := range e.gates {
		sink := attribute.String("sink", gate.Sink())
		since, reason, isOut := gate.Out()
		lasts := 0.0
		if isOut {
			lasts = sinceThen(since)
		}
		set("pawl_sink_down", lasts, sink, attribute.String("reason", reason))
		set("pawl_sink_in_flight", float64(gate.Busy()), sink)
		set("pawl_sink_in_flight_max", float64(gate.Places()), sink)
	}
	return nil
}

func (e *exporter) readPauses(ctx context.Context, set set) error {
	stopped, err := pause.Now(ctx, e.Pool)
	for _, s := range stopped {
		set("pawl_paused", sinceThen(s.Since), attribute.String("kind", string(s.Kind)),
			attribute.String("name", s.Name))
	}
	return err
}

// sinceThen returns the number of seconds since a time, but at least 1.
func sinceThen(at time.Time) float64 { return max(time.Since(at).Seconds(), 1) }
