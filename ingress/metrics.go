package ingress

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
)

// outcome is the outcome of a delivery in the metrics.
type outcome string

const (
	accepted   outcome = "new"
	duplicate  outcome = "duplicate"
	ignored    outcome = "ignored"
	parked     outcome = "parked"
	refused    outcome = "refused" // the label class contains the class of the rejection
	handshake  outcome = "handshake"
	shed       outcome = "shed"
	unfinished outcome = "unavailable" // not committed: 503
)

type metrics struct {
	deliveries metric.Int64Counter
	accept     metric.Float64Histogram
	handed     metric.Int64Counter
	events     metric.Int64Counter
	age        metric.Float64Histogram
	again      metric.Int64Counter

	versions event.Versions

	attributes sync.Map // caches a metric.MeasurementOption for each labels
}

// labels contains pairs of a name and a value: the value follows its name.
type labels [8]string

type label struct {
	provider, source string
	outcome          outcome
	class            string
}

func newMetrics(m metric.Meter) (*metrics, error) {
	var ms metrics
	var errs [6]error
	ms.deliveries, errs[0] = m.Int64Counter("pawl_deliveries",
		metric.WithDescription("Requests to a source, by outcome."))
	ms.accept, errs[1] = m.Float64Histogram("pawl_accept_seconds", metric.WithUnit("s"),
		metric.WithDescription("Time from the headers of a request to its answer."))
	ms.handed, errs[2] = m.Int64Counter("pawl_events_handed_over",
		metric.WithDescription("Committed events handed to the dispatcher."))
	ms.events, errs[3] = m.Int64Counter("pawl_events",
		metric.WithDescription("New events by type, API version and initial status."))
	ms.age, errs[4] = m.Float64Histogram("pawl_event_age", metric.WithUnit("s"),
		metric.WithDescription("Time from the occurrence of an event, by the provider's clock, to its delivery."))
	ms.again, errs[5] = m.Int64Counter("pawl_duplicates",
		metric.WithDescription("Duplicate deliveries, by the status of the receipt at that time."))
	return &ms, errors.Join(errs[:]...)
}

// observe measures the connections and the memory of bodies.
func observe(m metric.Meter, connections *throttle.Connections, memory *throttle.Memory) error {
	open, err1 := m.Int64ObservableGauge("pawl_connections",
		metric.WithDescription("Open connections: verified (the last request was authentic) and unproven."))
	displaced, err2 := m.Int64ObservableCounter("pawl_connections_displaced",
		metric.WithDescription("Connections that were closed to make room for others."))
	bytes, err3 := m.Int64ObservableGauge("pawl_bodies_bytes", metric.WithUnit("By"),
		metric.WithDescription("Memory that bodies occupy, out of the shared limit."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	unproven := metric.WithAttributeSet(attribute.NewSet(attribute.String("state", "unproven")))
	verified := metric.WithAttributeSet(attribute.NewSet(attribute.String("state", "verified")))
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		all, waiting, gone := connections.Count()
		o.ObserveInt64(open, int64(waiting), unproven)
		o.ObserveInt64(open, int64(all-waiting), verified)
		o.ObserveInt64(displaced, gone)
		o.ObserveInt64(bytes, memory.Held())
		return nil
	}, open, displaced, bytes)
	return err
}

func (m *metrics) delivery(ctx context.Context, l label, took time.Duration) {
	o := m.option(labels{"provider", l.provider, "source", l.source, "outcome", string(l.outcome), "class", l.class})
	m.deliveries.Add(ctx, 1, o)
	m.accept.Record(ctx, took.Seconds(), o)
}

// option returns the attributes of l from the cache.
func (m *metrics) option(l labels) metric.MeasurementOption {
	option, ok := m.attributes.Load(l)
	if !ok {
		var set []attribute.KeyValue
		for i := 0; i < len(l) && l[i] != ""; i += 2 {
			set = append(set, attribute.String(l[i], l[i+1]))
		}
		option, _ = m.attributes.LoadOrStore(l, metric.WithAttributeSet(attribute.NewSet(set...)))
	}
	return option.(metric.MeasurementOption)
}

// event counts a new event. It counts a type without a flow as "other", because a sender can invent any number of
// types.
func (m *metrics) event(ctx context.Context, d *receipt.Delivery, e *receipt.New, status receipt.Status, written bool) {
	eventType, version := "other", "other"
	if written {
		eventType, version = e.Type, m.versions.Label(e.APIVersion)
	}
	m.events.Add(ctx, 1, m.option(labels{"provider", d.Provider, "type", eventType, "api_version", version,
		"status", string(status)}))
	if !e.OccurredAt.IsZero() {
		m.age.Record(ctx, d.ReceivedAt.Sub(e.OccurredAt).Seconds(), m.option(labels{"provider", d.Provider}))
	}
}
