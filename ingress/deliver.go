package ingress

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
)

var closing = []string{"close"}

// deliver is the way of one request.
func (s *Server) deliver(c echo.Context) (err error) {
	begun := s.cfg.Now()
	l := label{source: "unknown", outcome: refused}
	defer s.finish(c, &l, begun, &err)

	// A connection outlives its request only if that brings a new event: anybody can repeat a captured delivery.
	// Nothing that is left of a body is read before the answer leaves.
	c.Response().Header()["Connection"] = closing
	source, ok := s.cfg.Sources[c.Param("source")]
	if !ok {
		l.class = "unknown_source"
		return answer(c, http.StatusNotFound, l.class)
	}
	l.source, l.provider = source.Name, source.Provider.Name
	defer s.trace(c, &source, &l)()
	r := &webhook.Request{Method: c.Request().Method, URL: source.CalledURL(c.Request().URL.RawQuery),
		Header: c.Request().Header, ReceivedAt: begun}
	from := s.sender(c.Request())
	if r.Method != http.MethodPost {
		return s.greet(c, &source, r, from, &l)
	}
	if !s.admit(c, &source, from, &l) {
		return nil
	}
	conn := throttle.ConnOf(c.Request().Context())
	conn.Asks(from)
	body := reader{s: s, c: c, source: &source, r: r, from: from, began: time.Now(),
		limit: cmp.Or(source.BodyLimit, source.Provider.Contract.BodyLimit, s.cfg.Limits.Body)}
	defer body.release()
	err = body.read()
	if class, ok := errors.AsType[shedError](err); ok {
		l.outcome, l.class = shed, string(class)
		return unavailable(c, "busy")
	}
	if err != nil {
		return s.refuse(c, &source, &l, r, err, from)
	}
	release, ok := s.slots.Take(source.Name, from)
	if !ok {
		l.outcome, l.class = shed, "in_flight"
		return unavailable(c, "busy")
	}
	defer release()
	match, err := source.Verifier.Verify(r)
	if err != nil && source.pinged(r, err) {
		l.outcome = handshake
		return c.NoContent(http.StatusOK)
	}
	if err != nil {
		return s.refuse(c, &source, &l, r, err, from)
	}
	body.keep()
	conn.Verified()
	if p, ok := source.probe(r, match); ok {
		return s.keepProbe(c, &source, p, r, match, &l)
	}
	s.tally.count(source.Name, receipt.Admitted, match.Secret, r.ReceivedAt)
	// A panic leaves the outcome that the label had at first.
	defer func() { s.tally.answered(source.Name, l.outcome != unfinished && l.outcome != refused, r.ReceivedAt) }()
	return s.keep(c, &source, r, match, &l)
}

// finish counts the request. It is deferred: a panic becomes a 503, which comes again, where a 500 may not.
func (s *Server) finish(c echo.Context, l *label, begun time.Time, err *error) {
	if p := recover(); p != nil {
		// The value may quote the body, so only its type is told.
		s.cfg.Log.Error("delivery panicked", "source", l.source, "error", fmt.Sprintf("%T", p), "stack",
			string(debug.Stack()))
		l.outcome, l.class = unfinished, "panic"
		*err = nil
		if !c.Response().Committed {
			*err = unavailable(c, "unavailable")
		}
	}
	s.metrics.delivery(c.Request().Context(), *l, s.cfg.Now().Sub(begun))
}

// keepsAlive reports whether the connection of r, which has brought an event, stays open after the answer. A chunked
// one does not: net/http hides whether it had a Content-Length too, after which a proxy may disagree on where the
// next request begins.
func (s *Server) keepsAlive(r *http.Request) bool {
	return len(r.TransferEncoding) == 0 && !s.connections.Crowded() && !s.cfg.Leaving()
}

// pinged reports whether r, which is refused with err, is the provider's unsigned ping. Nothing of it is kept.
func (s *Source) pinged(r *webhook.Request, err error) bool {
	number, found := bytes.CutPrefix(r.Body, []byte(s.Provider.Contract.Ping))
	class, _ := webhook.ClassOf(err)
	_, notANumber := strconv.ParseUint(string(number), 10, 64)
	return s.Provider.Contract.Ping != "" && found && class == webhook.MissingHeader && notANumber == nil
}

// greet answers a request that is no POST: the provider's handshake, if the verifier admits it, or a HEAD if the
// provider checks URLs by HEAD. Any other request gets 405.
func (s *Server) greet(c echo.Context, source *Source, r *webhook.Request, from netip.Addr, l *label) error {
	asked := r.Method == http.MethodHead && source.Provider.Contract.AsksWithHead
	answerer, ok := source.Verifier.(webhook.Answerer)
	if !asked && (!ok || r.Method != http.MethodGet || queryOf(r.URL) == "") {
		l.class = "method_not_allowed"
		c.Response().Header().Set("Allow", http.MethodPost)
		return answer(c, http.StatusMethodNotAllowed, l.class)
	}
	if !s.admit(c, source, from, l) {
		return nil
	}
	if asked {
		l.outcome = handshake
		return c.NoContent(http.StatusOK)
	}
	if _, err := source.Verifier.Verify(r); err != nil {
		return s.refuse(c, source, l, r, err, from)
	}
	if a, yes := answerer.Answer(r); yes {
		l.outcome = handshake
		return reply(c, a)
	}
	l.class = "no_handshake"
	s.tally.refuse(l.source, l.class, r.ReceivedAt, nil)
	return answer(c, http.StatusBadRequest, l.class)
}

// admit decides, before a byte of the body is read, whether the request is worked on. When it is not, the answer is
// written.
func (s *Server) admit(c echo.Context, source *Source, from netip.Addr, l *label) bool {
	if !source.admits(from) {
		l.class = "address_not_allowed"
		s.tally.refuse(l.source, l.class, s.cfg.Now(), nil)
		_ = answer(c, http.StatusForbidden, l.class)
		return false
	}
	now := s.cfg.Now()
	// Per address first: what one address sends too much must not use up its source's tokens.
	if !s.perAddr.Allow(throttle.Network(from), now) || !s.perSource.Allow(source.Name, now) {
		l.outcome, l.class = shed, "rate"
		_ = unavailable(c, "busy")
		return false
	}
	return true
}

// refuse answers a request whose body could not be read, or that the verifier did not admit: it counts the rejection
// and shows it to whoever keeps rejections. An err that is no *[webhook.Error] refuses nothing.
func (s *Server) refuse(c echo.Context, source *Source, l *label, r *webhook.Request, err error,
	from netip.Addr) error {
	rejection, ok := errors.AsType[*webhook.Error](err)
	if !ok {
		// The verifier lacks something that it needs, such as a certificate: the delivery should come again.
		s.unverified.Do(func() {
			s.cfg.Log.Error("deliveries cannot be verified now", "source", l.source, "provider", l.provider, "error",
				err)
		})
		l.outcome, l.class = unfinished, "verifier"
		return unavailable(c, "unavailable")
	}
	l.class = string(rejection.Class)
	s.tally.refuse(l.source, l.class, r.ReceivedAt, func() []any { return source.claims(r, rejection) })
	s.cfg.Refused(l.source, r, rejection, from.String())
	return answer(c, source.statusOf(rejection.Class), l.class)
}

// keep commits what r carries and answers. The hand-over comes after the answer is decided:
// nothing that happens there can take a 2xx back.
func (s *Server) keep(c echo.Context, source *Source, r *webhook.Request, match webhook.Match, l *label) error {
	d := source.delivery(r, match, "")
	// The provider may have hung up. Its bytes are here and authentic, and GitHub for one never
	// sends them again, so they are kept all the same.
	within := s.cfg.Limits.Ack + d.CommitTime()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), within)
	defer cancel()
	if within > time.Second { // a large delivery may be answered late
		_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(within + s.cfg.Limits.Total))
	}
	traceparent := event.TraceOf(ctx)
	switch {
	case traceparent != "":
		d.Header.Set(traceHeader, traceparent)
	case s.cfg.Tracer != nil:
		d.Header.Del(traceHeader) // the sender's decides nothing
	}
	outcomes, err := s.cfg.Receipts.Insert(ctx, d)
	if err != nil {
		s.missed.Add(1)
		s.uncommitted.Do(func() {
			s.cfg.Log.Warn("deliveries not committed", "count", s.missed.Swap(0), "provider", d.Provider, "source",
				d.Source, "error", err)
		})
		l.outcome = unfinished
		return unavailable(c, "unavailable")
	}
	var sum summary
	var uncounted int
	var last receipt.Outcome
	for _, o := range outcomes {
		sum.add(o)
		if o.Uncounted != nil {
			uncounted, last = uncounted+1, o
		}
	}
	if uncounted > 0 {
		s.cfg.Log.Warn("duplicates not counted", "provider", d.Provider, "source", d.Source, "count", uncounted,
			"event_id", last.EventID, "error", last.Uncounted)
	}
	l.outcome = sum.outcome()
	news := sum.fresh+sum.ignored > 0
	if news {
		throttle.ConnOf(c.Request().Context()).Delivers()
	}
	// A duplicate under an ID that is not signed may be one captured request, sent again and again: it proves no
	// sender.
	if (news || slices.ContainsFunc(d.Events, func(e receipt.New) bool { return e.Identity == receipt.ByID })) &&
		s.keepsAlive(c.Request()) {
		c.Response().Header().Del("Connection")
	}
	err = s.confirm(c, source, r, sum, outcomes)
	s.handOver(ctx, &d, outcomes, traceparent)
	return err
}

// handOver logs what became of each event, and hands over those that are run, as part of the trace of.
func (s *Server) handOver(ctx context.Context, d *receipt.Delivery, outcomes []receipt.Outcome, of string) {
	var pending []receipt.Pending
	for i, o := range outcomes {
		e := &d.Events[i]
		ref := event.Ref{ReceiptID: o.ReceiptID, Provider: d.Provider, Account: e.Account, Mode: e.Mode,
			EventID: o.EventID, Type: e.Type, ObjectID: e.Object, Correlation: e.Correlation}
		if o.Duplicate {
			s.metrics.again.Add(ctx, 1, s.metrics.option(labels{"provider", d.Provider, "status", string(o.Status)}))
			s.tally.tell(line{d.Source, false, string(o.Status)}, func() []any { return ref.Log() })
			continue
		}
		s.metrics.event(ctx, d, e, o.Status, s.cfg.Written(d.Provider, e.Type))
		s.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "event received", ref.Attrs(slog.String("source", d.Source),
			slog.String("status", string(o.Status)))...)
		if o.Status == receipt.Received {
			pending = append(pending, receipt.Pending{Source: d.Source, ReceivedAt: d.ReceivedAt, Ref: ref, Trace: of})
		}
	}
	if len(pending) > 0 {
		s.cfg.Dispatch(pending)
		s.metrics.handed.Add(ctx, int64(len(pending)))
	}
}

// claims returns what a refused request says its first event is. Nobody has verified it, and the keys say so.
func (s *Source) claims(r *webhook.Request, why *webhook.Error) (claimed []any) {
	defer func() {
		if recover() != nil {
			claimed = nil // these are anybody's bytes, and the refusal stands
		}
	}()
	if why.Class.Incomplete() {
		return nil
	}
	for _, e := range s.Verifier.Events(r) {
		return []any{"claimed_event_id", identifier(e.ID), "claimed_type", text(e.Type)}
	}
	return nil
}

// CalledURL returns the URL that the provider called: that of the configuration, never of the Host
// header, with the query that came. A fragment is never called: Twilio's holds connection overrides.
func (s *Source) CalledURL(query string) string {
	base, _, _ := strings.Cut(s.PublicURL, "#")
	base, _, _ = strings.Cut(base, "?")
	if query == "" {
		return base
	}
	return base + "?" + query
}

func queryOf(url string) string {
	_, query, _ := strings.Cut(url, "?")
	return query
}
