package event

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const traceparent = "traceparent"

// unsampled is the trace of everything that is not sampled. It is never exported or propagated.
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

// WithTrace returns ctx as part of the trace in a traceparent. If parent is "", the delivery was not sampled, and no
// trace starts in ctx.
func WithTrace(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return trace.ContextWithSpanContext(ctx, unsampled)
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: parent})
}
