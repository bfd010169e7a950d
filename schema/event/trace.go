package event

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

const traceparent = "traceparent"

// TraceOf returns the trace of ctx as a traceparent (W3C Trace Context, section 3.2), "" if it has none.
func TraceOf(ctx context.Context) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c[traceparent]
}

// WithTrace returns ctx as part of the trace that a traceparent names, or as it is if parent names none.
func WithTrace(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: parent})
}
