package ingress

import (
	"context"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceHeader is the header under which a receipt keeps the trace of its delivery.
const traceHeader = "Traceparent"

// trace makes the request a span, if traces are wanted, and returns what ends it. The span begins a trace of its own
// and links to the sender's: anybody may send a traceparent, and none decides about the export here.
func (s *Server) trace(c echo.Context, source *Source, l *label) (end func()) {
	if s.cfg.Tracer == nil {
		return func() {}
	}
	r := c.Request()
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer)}
	if r.Header.Get(traceHeader) != "" {
		sender := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
		options = append(options, trace.WithLinks(trace.LinkFromContext(sender)))
	}
	ctx, span := s.cfg.Tracer.Start(r.Context(), "webhook "+source.Name, options...)
	if !span.IsRecording() { // most are not sampled
		return func() {}
	}
	c.SetRequest(r.WithContext(ctx))
	return func() {
		span.SetAttributes(attribute.String("provider", l.provider), attribute.String("outcome", string(l.outcome)),
			attribute.String("class", l.class), attribute.Int("http.response.status_code", c.Response().Status))
		if l.outcome == unfinished {
			span.SetStatus(codes.Error, l.class)
		}
		span.End()
	}
}
