package ingress

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// outcome is what became of a delivery, as counted.
type outcome string

const (
	accepted   outcome = "new"
	duplicate  outcome = "duplicate"
	ignored    outcome = "ignored"
	parked     outcome = "parked"
	refused    outcome = "refused" // with the class of the refusal
	handshake  outcome = "handshake"
	shed       outcome = "shed"
	unfinished outcome = "unavailable" // not committed: 503
)

type metrics struct {
	deliveries metric.Int64Counter
	accept     metric.Float64Histogram
	handed     metric.Int64Counter

	attributes sync.Map // label -> metric.MeasurementOption, so that a delivery builds no set
}

type label struct {
	provider, source string
	outcome          outcome
	class            string
}

func newMetrics(m metric.Meter) (*metrics, error) {
	var ms metrics
	var errs [3]error
	ms.deliveries, errs[0] = m.Int64Counter("pawl_deliveries",
		metric.WithDescription("Requests to a source, by what became of them."))
	ms.accept, errs[1] = m.Float64Histogram("pawl_accept_seconds", metric.WithUnit("s"),
		metric.WithDescription("From the request's headers to its answer."))
	ms.handed, errs[2] = m.Int64Counter("pawl_events_handed_over",
		metric.WithDescription("Committed events handed to the dispatcher."))
	return &ms, errors.Join(errs[:]...)
}

func (m *metrics) delivery(ctx context.Context, l label, took time.Duration) {
	option, ok := m.attributes.Load(l)
	if !ok {
		option, _ = m.attributes.LoadOrStore(l, metric.WithAttributeSet(attribute.NewSet(
			attribute.String("provider", l.provider), attribute.String("source", l.source),
			attribute.String("outcome", string(l.outcome)), attribute.String("class", l.class))))
	}
	o := option.(metric.MeasurementOption)
	m.deliveries.Add(ctx, 1, o)
	m.accept.Record(ctx, took.Seconds(), o)
}
