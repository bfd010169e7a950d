package activities

import (
	"fmt"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/pawlhq/pawl/schema/event"
)

// A sender can invent event types and API versions. Therefore all types without a flow share one label, and at most
// 16 versions have their own label.
func TestMeasures_TypesAndVersions_Bounded(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	m, err := NewMeasures(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(""),
		func(provider, eventType string) bool { return provider == "stripe" && eventType == "invoice.paid" })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		m.leaves(t.Context(), event.Ref{Provider: "stripe", Type: fmt.Sprint("made.up.", i)}, fmt.Sprint(i), "dead")
		m.leaves(t.Context(), event.Ref{Provider: "stripe", Type: "invoice.paid"}, fmt.Sprint("2025-", i), "dead")
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, p := range all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64]).DataPoints {
		eventType, _ := p.Attributes.Value("type")
		version, _ := p.Attributes.Value("api_version")
		got[eventType.AsString()+" "+version.AsString()] = p.Value
	}
	if len(got) != 18 || got["other other"] != 1000 || got["invoice.paid 2025-0"] != 1 || got["invoice.paid other"] != 984 {
		t.Errorf("%d labels, want 16 versions, other versions, and other types: %v", len(got), got)
	}
}
