package ingress

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/schema/receipt"
)

// outcome is what became of a delivery, as counted.
type outcome string

const (
	accepted   outcome = "new"
	duplicate  outcome = "duplicate"
	ignored    outcome = "ignored"
	parked     outcome = "parked"
	refused    outcome = "refused" // with the class of the rejection
	handshake  outcome = "handshake"
	probed     outcome = "probe" // of an operator, by `pawl doctor`
	shed       outcome = "shed"
	unfinished outcome = "unavailable" // not committed: 503
)

type metrics struct {
	deliveries metric.Int64Counter
	accept     metric.Float64Histogram
	handed     metric.Int64Counter
	events     metric.Int64Counter
	age        metric.Float64Histogram

	versions versions

	attributes sync.Map // label, eventLabel or provider -> metric.MeasurementOption, so that a delivery builds no set
}

type label struct {
	provider, source string
	outcome          outcome
	class            string
}

// eventLabel are the attributes of a new event.
type eventLabel struct{ provider, eventType, version, status string }

func newMetrics(m metric.Meter) (*metrics, error) {
	var ms metrics
	var errs [5]error
	ms.deliveries, errs[0] = m.Int64Counter("pawl_deliveries",
		metric.WithDescription("Requests to a source, by what became of them."))
	ms.accept, errs[1] = m.Float64Histogram("pawl_accept_seconds", metric.WithUnit("s"),
		metric.WithDescription("From the request's headers to its answer."))
	ms.handed, errs[2] = m.Int64Counter("pawl_events_handed_over",
		metric.WithDescription("Committed events handed to the dispatcher."))
	ms.events, errs[3] = m.Int64Counter("pawl_events",
		metric.WithDescription("New events by type, API version and the status that they are kept with."))
	ms.age, errs[4] = m.Float64Histogram("pawl_event_age", metric.WithUnit("s"),
		metric.WithDescription("From when an event occurred, as its provider says, to when it came."))
	return &ms, errors.Join(errs[:]...)
}

// observe measures connections and memory of bodies.
func observe(m metric.Meter, connections *throttle.Connections, memory *throttle.Memory) error {
	open, err1 := m.Int64ObservableGauge("pawl_connections",
		metric.WithDescription("Open connections: verified, whose last request was authentic, and unproven."))
	displaced, err2 := m.Int64ObservableCounter("pawl_connections_displaced",
		metric.WithDescription("Connections that were closed because others needed their places."))
	bytes, err3 := m.Int64ObservableGauge("pawl_bodies_bytes", metric.WithUnit("By"),
		metric.WithDescription("Memory that bodies take of what is shared out."))
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
	o := m.option(l, "provider", l.provider, "source", l.source, "outcome", string(l.outcome), "class", l.class)
	m.deliveries.Add(ctx, 1, o)
	m.accept.Record(ctx, took.Seconds(), o)
}

// option returns the attributes that stand for of, names and values by turns. It makes a set once.
func (m *metrics) option(of any, pairs ...string) metric.MeasurementOption {
	option, ok := m.attributes.Load(of)
	if !ok {
		var set []attribute.KeyValue
		for pair := range slices.Chunk(pairs, 2) {
			set = append(set, attribute.String(pair[0], pair[1]))
		}
		option, _ = m.attributes.LoadOrStore(of, metric.WithAttributeSet(attribute.NewSet(set...)))
	}
	return option.(metric.MeasurementOption)
}

// event counts a new event. A type without a flow is "other": anybody whose secret is known can make up any number.
func (m *metrics) event(ctx context.Context, d *receipt.Delivery, e *receipt.New, status receipt.Status, written bool) {
	l := eventLabel{d.Provider, "other", "other", string(status)}
	if written {
		l.eventType, l.version = e.Type, m.versions.label(e.APIVersion)
	}
	m.events.Add(ctx, 1, m.option(l, "provider", l.provider, "type", l.eventType, "api_version", l.version,
		"status", l.status))
	if !e.OccurredAt.IsZero() {
		m.age.Record(ctx, d.ReceivedAt.Sub(e.OccurredAt).Seconds(), m.option(d.Provider, "provider", d.Provider))
	}
}

// mostVersions is how many API versions have a label of their own. An endpoint has one, and another while it is moved.
const mostVersions = 16

// versions are the API versions that have come.
type versions struct {
	mu    sync.Mutex
	known map[string]bool
}

// label returns the version, or "other" once there are too many.
func (v *versions) label(version string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known[version] {
		if len(v.known) == mostVersions {
			return "other"
		}
		if v.known == nil {
			v.known = map[string]bool{}
		}
		v.known[version] = true
	}
	return version
}
