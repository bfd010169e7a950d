// Package telemetry exports the metrics of pawl and of the Temporal SDK for Prometheus. It uses a registry of its own,
// because the global registry would also export the metrics of other libraries.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

// buckets are the upper bounds in seconds of every histogram. Accepting a delivery takes milliseconds, and a flow with
// retries takes hours.
var buckets = []float64{
	.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600,
}

// ahead are additional bounds for the age of events. The age is negative if the clock of a provider is ahead of pawl's
// clock.
var ahead = []float64{-300, -60, -5, -1, 0}

// bounded is the only view for histograms, because a histogram that matches two views is exported twice.
func bounded(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
	bounds := buckets
	if i.Name == "pawl_event_age" {
		bounds = append(ahead, buckets...)
	}
	return sdkmetric.Stream{
		Name: i.Name, Description: i.Description, Unit: i.Unit,
		Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: bounds},
	}, i.Kind == sdkmetric.InstrumentKindHistogram
}

// Telemetry contains the metrics of one process.
type Telemetry struct {
	provider *sdkmetric.MeterProvider
	registry *prometheus.Registry
	log      *slog.Logger
}

// New returns an exporter with the metrics of the Go runtime and the process.
func New(log *slog.Logger) (*Telemetry, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo(),
		otelprom.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics exporter: %w", err)
	}
	// The default handler would write to the standard logger in another format.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("metrics are left out", "error", err) }))
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithView(bounded))
	return &Telemetry{provider: provider, registry: registry, log: log}, nil
}

// Meter returns the meter for pawl's own instruments.
func (t *Telemetry) Meter() metric.Meter { return t.provider.Meter("github.com/pawlhq/pawl") }

// Handler serves /metrics.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		// If one metric cannot be collected, the others are still exported.
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      slog.NewLogLogger(t.log.Handler(), slog.LevelWarn),
	})
}

// Temporal returns the handler for client.Options.MetricsHandler. It exports counters as counters; the default of the
// SDK exports gauges. It logs an instrument that cannot be created; the default panics.
func (t *Telemetry) Temporal() client.MetricsHandler {
	return opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter:                t.provider.Meter("temporal-sdk-go"),
		UseMonotonicCounters: true,
		OnError:              func(err error) { t.log.Warn("metric of the Temporal SDK is left out", "error", err) },
	})
}

// Shutdown stops the exporter. Later measurements are lost.
func (t *Telemetry) Shutdown(ctx context.Context) error { return t.provider.Shutdown(ctx) }
