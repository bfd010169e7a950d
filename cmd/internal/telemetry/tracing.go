package telemetry

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
)

// Tracing sends traces by OTLP over HTTP. A nil Tracing sends nothing.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// NewTracing sends traces to a collector (http://host:4318) under the name of a service. sampleRatio is the share of
// requests that are traced. NewTracing does not connect yet. If the collector is down, spans are lost, and nothing else
// happens. The exporter also reads headers and certificates from the variables OTEL_EXPORTER_OTLP_*, which the
// OpenTelemetry Protocol Exporter specification defines.
func NewTracing(ctx context.Context, endpoint, service string, sampleRatio float64) (*Tracing, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint+"/v1/traces"))
	if err != nil {
		return nil, fmt.Errorf("traces exporter: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(sampleRatio))))
	return &Tracing{provider: provider, tracer: provider.Tracer("github.com/pawlhq/pawl")}, nil
}

// Tracer returns the tracer for pawl's own spans, or nil if tracing is off.
func (t *Tracing) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// Interceptors returns interceptors that trace runs and activities. They propagate the trace from the start of a run to
// its effects.
func (t *Tracing) Interceptors() ([]interceptor.ClientInterceptor, error) {
	if t == nil {
		return nil, nil
	}
	tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{
		Tracer: t.provider.Tracer("temporal-sdk-go"), TextMapPropagator: propagation.TraceContext{},
	})
	if err != nil {
		return nil, fmt.Errorf("trace Temporal: %w", err)
	}
	return []interceptor.ClientInterceptor{tracing}, nil
}

// Client returns c with tracing. A request within a sampled trace becomes a span and propagates the trace (W3C Trace
// Context). The span contains only the host, because the path and the query of a webhook may be secrets. The usual
// instrumentation would export them.
func (t *Tracing) Client(c *http.Client) *http.Client {
	if t != nil {
		c.Transport = tracedTransport{c.Transport, t.tracer}
	}
	return c
}

type tracedTransport struct {
	http.RoundTripper
	tracer trace.Tracer
}

func (t tracedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(req.Context()).IsSampled() {
		return t.RoundTripper.RoundTrip(req)
	}
	ctx, span := t.tracer.Start(req.Context(), "HTTP "+req.Method, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("server.address", req.URL.Host)))
	defer span.End()
	req = req.Clone(ctx)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		span.SetStatus(codes.Error, "no answer")
		return resp, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, resp.Status)
	}
	return resp, nil
}

// Shutdown sends the spans that are not sent yet.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}
