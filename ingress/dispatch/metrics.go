package dispatch

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

type metrics struct {
	starts  metric.Int64Counter
	lag     metric.Float64Histogram
	backlog metric.Int64Gauge
	oldest  metric.Float64Gauge
}

func newMetrics(m metric.Meter) (*metrics, error) {
	var ms metrics
	var errs [4]error
	ms.starts, errs[0] = m.Int64Counter("pawl_starts",
		metric.WithDescription("Workflow starts by outcome: started, already_started, refused, failed, restarted."))
	ms.lag, errs[1] = m.Float64Histogram("pawl_start_lag_seconds", metric.WithUnit("s"),
		metric.WithDescription("Time from the delivery of an event to the start of its workflow."))
	ms.backlog, errs[2] = m.Int64Gauge("pawl_dispatch_backlog",
		metric.WithDescription("Receipts without a started workflow."))
	ms.oldest, errs[3] = m.Float64Gauge("pawl_dispatch_backlog_oldest_seconds", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest receipt without a started workflow; 0 if there is no such receipt."))
	return &ms, errors.Join(errs[:]...)
}

func (m *metrics) start(ctx context.Context, provider, outcome string) {
	m.starts.Add(ctx, 1, metric.WithAttributes(attribute.String("provider", provider),
		attribute.String("outcome", outcome)))
}
