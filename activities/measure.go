package activities

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlhq/pawl/schema/event"
)

// Measures holds the metrics of runs.
type Measures struct {
	// written reports whether a type has a flow. Only these types are labels, because clients can send any number of
	// other types.
	written    func(provider, eventType string) bool
	run, whole metric.Float64Histogram
	left       metric.Int64Counter
	versions   event.Versions
}

// NewMeasures registers the metrics of runs.
func NewMeasures(m metric.Meter, written func(provider, eventType string) bool) (*Measures, error) {
	run, err1 := m.Float64Histogram("pawl_processing_lag", metric.WithUnit("s"),
		metric.WithDescription("Seconds from the start of a run to its end, by flow and outcome."))
	whole, err2 := m.Float64Histogram("pawl_event_lag", metric.WithUnit("s"),
		metric.WithDescription("Seconds from the receipt of an event to the end of its run, by flow and outcome."))
	left, err3 := m.Int64Counter("pawl_runs",
		metric.WithDescription("Runs that ended or parked, by event type, API version and receipt status."))
	return &Measures{written: written, run: run, whole: whole, left: left}, errors.Join(err1, err2, err3)
}

// finished records the metrics of a run that has ended. A replay or a reset starts long after the receipt, so its
// event lag is not recorded.
func (m *Measures) finished(ctx context.Context, in FinishRunInput, apiVersion string) {
	labels := metric.WithAttributes(attribute.String("flow", in.Flow), attribute.String("outcome", in.Status))
	m.run.Record(ctx, time.Since(in.StartedAt).Seconds(), labels)
	if received := in.ReceivedAt(); !received.IsZero() && in.ResetOf == "" && in.Replay == nil {
		m.whole.Record(ctx, time.Since(received).Seconds(), labels,
			metric.WithAttributes(attribute.Bool("waited", in.Held)))
	}
	m.leaves(ctx, in.Ref, apiVersion, in.Status)
}

// leaves counts a run that ended or parked with a status.
func (m *Measures) leaves(ctx context.Context, of event.Ref, apiVersion, status string) {
	eventType, version := "other", "other"
	if m.written(of.Provider, of.Type) {
		eventType, version = of.Type, m.versions.Label(apiVersion)
	}
	m.left.Add(ctx, 1, metric.WithAttributes(attribute.String("provider", of.Provider),
		attribute.String("type", eventType), attribute.String("api_version", version),
		attribute.String("status", status)))
}
