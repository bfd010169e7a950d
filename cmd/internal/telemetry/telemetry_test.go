package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlhq/pawl/cmd/internal/telemetry"
)

func TestHandler_OursAndTemporals_Exported(t *testing.T) {
	t.Parallel()
	tel, err := telemetry.New(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	counter, err := tel.Meter().Int64Counter("pawl_deliveries")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3, metric.WithAttributes(attribute.String("provider", "stripe")))
	temporal := tel.Temporal().WithTags(map[string]string{"namespace": "default"})
	temporal.Counter("temporal_request").Inc(2)
	temporal.Timer("temporal_latency").Record(20 * time.Millisecond)

	age, err := tel.Meter().Float64Histogram("pawl_event_age", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	age.Record(t.Context(), -30) // the clock of the event's provider is ahead
	age.Record(t.Context(), 2)

	answer := httptest.NewRecorder()
	tel.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`pawl_deliveries_total{provider="stripe"} 3`,
		`temporal_request_total{namespace="default"} 2`,
		`temporal_latency_seconds_bucket{namespace="default",le="0.025"} 1`,
		`pawl_event_age_seconds_bucket{le="-60"} 0`,
		`pawl_event_age_seconds_bucket{le="-5"} 1`,
		`pawl_event_age_seconds_bucket{le="2.5"} 2`,
		"go_goroutines",
	} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("/metrics does not hold %s:\n%s", want, answer.Body)
		}
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNew_Twice_RegistriesApart(t *testing.T) {
	t.Parallel()
	for range 2 {
		if _, err := telemetry.New(slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
}

// An error of a measurement is logged in the format of the log. The test is not parallel, because OpenTelemetry has
// one global handler.
func TestHandler_GaugeFails_Logged(t *testing.T) {
	var log strings.Builder
	tel, err := telemetry.New(slog.New(slog.NewJSONHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = tel.Meter().Int64ObservableGauge("pawl_dispatch_backlog", metric.WithInt64Callback(func(context.Context, metric.Int64Observer) error {
		return errors.New("the database is away")
	}))
	if err != nil {
		t.Fatal(err)
	}
	tel.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	if !strings.HasPrefix(log.String(), "{") || !strings.Contains(log.String(), "the database is away") {
		t.Errorf("log = %q, want the error", log.String())
	}
}
