package ingress

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceHeader is the header under which a receipt stores the trace of its delivery.
const traceHeader = "Traceparent"

// trace makes a span of the request if tracing is on, and returns the function that ends it. The span starts a new
// trace and links to the sender's trace, so that a sender cannot decide which traces are exported.
func (d *delivery) trace() (end func()) {
	if d.s.cfg.Tracer == nil {
		return func() {}
	}
	r := d.c.Request()
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer)}
	if r.Header.Get(traceHeader) != "" {
		sender := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
		options = append(options, trace.WithLinks(trace.LinkFromContext(sender)))
	}
	ctx, span := d.s.cfg.Tracer.Start(r.Context(), "webhook "+d.source.Name, options...)
	if !span.IsRecording() { // most spans are not sampled
		return func() {}
	}
	d.c.SetRequest(r.WithContext(ctx))
	return func() {
		span.SetAttributes(attribute.String("provider", d.provider), attribute.String("outcome", string(d.outcome)),
			attribute.String("class", d.class), attribute.Int("http.response.status_code", d.c.Response().Status))
		if d.outcome == unfinished {
			span.SetStatus(codes.Error, d.class)
		}
		span.End()
	}
}
