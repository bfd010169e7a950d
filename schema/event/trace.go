package event

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const traceparent = "traceparent"

// unsampled is the trace of all that is not sampled: nothing of it is exported, or told to anybody.
var unsampled = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})

// TraceOf returns the trace of ctx as a traceparent (W3C Trace Context, section 3.2), "" if it is in none that is
// sampled.
func TraceOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c[traceparent]
}

// WithTrace returns ctx as part of the trace that a traceparent names. If parent is "", no trace begins in ctx: whoever
// took the delivery has not sampled it.
func WithTrace(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return trace.ContextWithSpanContext(ctx, unsampled)
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: parent})
}
