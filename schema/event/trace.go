package event

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const traceparent = "traceparent"

// unsampled is the span context of all untraced work. It is never exported or propagated.
var unsampled = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})

// TraceOf returns the trace of ctx as a traceparent (W3C Trace Context, section 3.2), or "" if ctx has no sampled
// trace.
func TraceOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c[traceparent]
}

// WithTrace returns ctx with the trace of a traceparent. parent is "" if the delivery was not sampled; ctx then starts
// no trace.
func WithTrace(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return trace.ContextWithSpanContext(ctx, unsampled)
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: parent})
}
