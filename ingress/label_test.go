package ingress_test

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/pawlhq/pawl/ingress"
)

// A sender can invent event types. The metrics therefore use one label for all types without a flow.
func TestMetrics_TypesThatNobodyKnows_AreOne(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		c.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
		c.Written = func(provider, eventType string) bool { return provider == "acme" && eventType == "invoice.paid" }
	})
	for i := range 10 {
		b.post(t, fmt.Sprintf(`{"id":"evt_%d","type":"made.up.%[1]d"}`, i))
		b.post(t, fmt.Sprintf(`{"id":"evt_p%d","type":"invoice.paid"}`, i))
	}
	b.post(t, `{"id":"evt_0","type":"made.up.0"}`)
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got, again := map[string]int64{}, map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "pawl_duplicates" {
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				status, _ := p.Attributes.Value(attribute.Key("status"))
				again[status.AsString()] += p.Value
			}
		}
		if m.Name != "pawl_events" {
			continue
		}
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			value, _ := p.Attributes.Value(attribute.Key("type"))
			got[value.AsString()] += p.Value
		}
	}
	if len(got) != 2 || got["invoice.paid"] != 10 || got["other"] != 10 {
		t.Errorf("counted %v, want ten of invoice.paid and ten others", got)
	}
	if len(again) != 1 || again["received"] != 1 {
		t.Errorf("duplicates %v, want only one of the received types", again)
	}
}
