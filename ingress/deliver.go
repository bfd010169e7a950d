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
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
)

var closing = []string{"close"}

// delivery holds one request and the state of its processing.
type delivery struct {
	label
	s      *Server
	c      echo.Context
	source Source
	r      *webhook.Request
	from   netip.Addr
	conn   *throttle.Conn
}

// deliver processes one request from its headers to its answer.
func (s *Server) deliver(c echo.Context) (err error) {
	d := &delivery{s: s, c: c, label: label{outcome: refused}, conn: throttle.ConnOf(c.Request().Context()),
		r: &webhook.Request{Method: c.Request().Method, Header: c.Request().Header, ReceivedAt: s.cfg.Now()}}
	defer d.finish(&err)

	// The connection is closed after the answer unless the request contained a new event, because anybody can replay a
	// captured delivery. net/http does not read the rest of the body before it answers.
	c.Response().Header()["Connection"] = closing
	source, ok := s.cfg.Sources[c.Param("source")]
	if !ok {
		d.label.source, d.class = "unknown", "unknown_source"
		return answer(c, http.StatusNotFound, d.class)
	}
	d.source, d.label.source, d.provider = source, source.Name, source.Provider.Name
	defer d.trace()()
	d.r.URL = source.CalledURL(c.Request().URL.RawQuery)
	d.from = s.sender(c.Request())
	if !source.delivers(d.r) {
		return d.greet()
	}
	if !d.admit() {
		return nil
	}
	d.conn.Requested(d.from)
	body := reader{delivery: d, began: time.Now(),
		limit: cmp.Or(source.BodyLimit, source.Provider.Contract.BodyLimit, s.cfg.Limits.Body)}
	defer body.release()
	err = body.read()
	if class, ok := errors.AsType[shedError](err); ok {
		return d.shed(string(class))
	}
	if err != nil {
		return d.refuse(err)
	}
	release, ok := s.slots.Take(source.Name, d.from)
	if !ok {
		return d.shed("in_flight")
	}
	defer release()
	match, err := source.Verifier.Verify(d.r)
	if err != nil && source.pinged(d.r, err) {
		d.outcome = handshake
		return c.NoContent(http.StatusOK)
	}
	if err != nil {
		return d.refuse(err)
	}
	body.keep()
	d.conn.Verified()
	s.tally.count(source.Name, receipt.Admitted, match.Secret, d.r.ReceivedAt)
	verified := s.cfg.Now()
	// After a panic, the label still has its first outcome.
	defer func() {
		ok := d.outcome != unfinished && d.outcome != refused
		s.tally.answered(source.Name, ok, d.r.ReceivedAt)
		if !ok || s.cfg.Now().Sub(verified) > receipt.SlowAnswer {
			s.tally.count(source.Name, receipt.Slow, "", d.r.ReceivedAt)
		}
	}()
	return d.keep(match)
}

// finish counts the request and turns a panic into a 503, because a provider may not retry a 500. It must be deferred.
func (d *delivery) finish(err *error) {
	if p := recover(); p != nil {
		// The panic value may quote the body, so the log contains only the type of the value.
		d.s.cfg.Log.Error("delivery panicked", "source", d.label.source, "error", fmt.Sprintf("%T", p), "stack",
			string(debug.Stack()))
		d.outcome, d.class = unfinished, "panic"
		*err = nil
		if !d.c.Response().Committed {
			*err = unavailable(d.c, "unavailable")
		}
	}
	d.s.metrics.delivery(d.c.Request().Context(), d.label, d.s.cfg.Now().Sub(d.r.ReceivedAt))
}

// shed answers 503, because the server has no capacity for the delivery.
func (d *delivery) shed(class string) error {
	d.outcome, d.class = shed, class
	return unavailable(d.c, "busy")
}

// keepsAlive reports whether the connection of r stays open after the answer. r contained a new event. keepsAlive
// returns false for a chunked request: such a request may also have a Content-Length, and a proxy could disagree about
// the start of the next request.
func (s *Server) keepsAlive(r *http.Request) bool {
	return len(r.TransferEncoding) == 0 && !s.connections.Crowded() && !s.cfg.Leaving()
}

// delivers reports whether r may be a delivery: a POST, or a GET with a query if the provider sends such deliveries.
func (s *Source) delivers(r *webhook.Request) bool {
	return r.Method == http.MethodPost ||
		r.Method == http.MethodGet && s.Provider.Contract.DeliversByGET && r.Query() != ""
}

// pinged reports whether r, which was refused with err, is the unsigned ping of the provider. The server does not store
// pings.
func (s *Source) pinged(r *webhook.Request, err error) bool {
	number, found := bytes.CutPrefix(r.Body, []byte(s.Provider.Contract.Ping))
	class, _ := webhook.ClassOf(err)
	_, notANumber := strconv.ParseUint(string(number), 10, 64)
	return s.Provider.Contract.Ping != "" && found && class == webhook.MissingHeader && notANumber == nil
}

// greet answers a request that is not a delivery. It answers the handshake of the provider if the verifier admits it,
// and a HEAD request if the provider checks URLs with HEAD. Any other request gets 405.
func (d *delivery) greet() error {
	asked := d.r.Method == http.MethodHead && d.source.Provider.Contract.AsksWithHead
	answerer, ok := d.source.Verifier.(webhook.Answerer)
	if !asked && (!ok || d.r.Method != http.MethodGet || d.r.Query() == "") {
		d.class = "method_not_allowed"
		d.c.Response().Header().Set("Allow", http.MethodPost)
		return answer(d.c, http.StatusMethodNotAllowed, d.class)
	}
	if !d.admit() {
		return nil
	}
	if asked {
		d.outcome = handshake
		return d.c.NoContent(http.StatusOK)
	}
	if _, err := d.source.Verifier.Verify(d.r); err != nil {
		return d.refuse(err)
	}
	if a, yes := answerer.Answer(d.r); yes {
		d.outcome = handshake
		return reply(d.c, a)
	}
	d.class = "no_handshake"
	d.s.tally.refuse(d.source.Name, d.class, d.r.ReceivedAt, nil)
	return answer(d.c, http.StatusBadRequest, d.class)
}

// admit checks the allow-list and the rate limits before the body is read. If it returns false, it has written the
// answer.
func (d *delivery) admit() bool {
	now := d.s.cfg.Now()
	if !d.source.admits(d.from) {
		d.class = "address_not_allowed"
		d.s.tally.refuse(d.source.Name, d.class, now, nil)
		_ = answer(d.c, http.StatusForbidden, d.class)
		return false
	}
	// The limit per address is checked first, so that one address cannot use up the tokens of the source.
	if !d.s.perAddr.Allow(throttle.Network(d.from), now) || !d.s.perSource.Allow(d.source.Name, now) {
		_ = d.shed("rate")
		return false
	}
	return true
}

// refuse answers a request that could not be read or verified. It counts the rejection and passes the request to
// Config.Refused. If err is not a *[webhook.Error], the request could not be verified now, and the answer is 503.
func (d *delivery) refuse(err error) error {
	rejection, ok := errors.AsType[*webhook.Error](err)
	if !ok {
		// The verifier lacks data that it could not fetch, such as a certificate. After a 503, the provider retries.
		d.s.unverified.Do(func() {
			d.s.cfg.Log.Error("deliveries cannot be verified now", "source", d.source.Name, "provider", d.provider,
				"error", err)
		})
		d.outcome, d.class = unfinished, "verifier"
		return unavailable(d.c, "unavailable")
	}
	d.class = string(rejection.Class)
	d.s.tally.refuse(d.source.Name, d.class, d.r.ReceivedAt, func() []any { return d.source.claims(d.r, rejection) })
	d.s.cfg.Refused(d.source.Name, d.r, rejection, d.from.String())
	return answer(d.c, d.source.statusOf(rejection.Class), d.class)
}

// keep commits the events of the request and answers. It passes the events to the dispatcher only after it has chosen
// the answer, so that a failure of the dispatcher cannot change a 2xx.
func (d *delivery) keep(match webhook.Match) error {
	s := d.s
	rows := d.source.delivery(d.r, match, "")
	// Commit the authentic delivery even if the provider has closed the connection, because some providers (GitHub)
	// never retry.
	within := s.cfg.Limits.Ack + rows.CommitTime()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.c.Request().Context()), within)
	defer cancel()
	if within > time.Second { // a large delivery may get a late answer
		_ = http.NewResponseController(d.c.Response()).SetWriteDeadline(time.Now().Add(within + s.cfg.Limits.Total))
	}
	traceparent := event.TraceOf(ctx)
	switch {
	case traceparent != "":
		rows.Header.Set(traceHeader, traceparent)
	case s.cfg.Tracer != nil:
		rows.Header.Del(traceHeader) // pawl does not continue the sender's trace
	}
	outcomes, err := s.cfg.Receipts.Insert(ctx, rows)
	if err != nil {
		s.missed.Add(1)
		s.uncommitted.Do(func() {
			s.cfg.Log.Warn("deliveries not committed", "count", s.missed.Swap(0), "provider", d.provider, "source",
				d.source.Name, "error", err)
		})
		d.outcome = unfinished
		return unavailable(d.c, "unavailable")
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
		s.cfg.Log.Warn("duplicates not counted", "provider", d.provider, "source", d.source.Name, "count", uncounted,
			"event_id", last.EventID, "error", last.Uncounted)
	}
	d.outcome = sum.outcome()
	news := sum.fresh+sum.ignored > 0
	if news {
		d.conn.Delivered()
	}
	// A duplicate does not show that the sender is the provider if its ID is unsigned: an attacker may replay a
	// captured request.
	if (news || slices.ContainsFunc(rows.Events, func(e receipt.New) bool { return e.Identity == receipt.ByID })) &&
		s.keepsAlive(d.c.Request()) {
		d.c.Response().Header().Del("Connection")
	}
	err = d.confirm(sum, outcomes)
	s.handOver(ctx, &rows, outcomes, traceparent)
	return err
}

// handOver logs each event, and passes the events that run to the dispatcher. traceparent is the trace of the delivery,
// or "".
func (s *Server) handOver(ctx context.Context, d *receipt.Delivery, outcomes []receipt.Outcome, traceparent string) {
	var pending []receipt.Pending
	for i, o := range outcomes {
		e := &d.Events[i]
		ref := event.Ref{ReceiptID: o.ReceiptID, Provider: d.Provider, Account: e.Account, Mode: e.Mode,
			EventID: o.EventID, Type: e.Type, ObjectID: e.Object, Correlation: e.Correlation}
		if o.Duplicate {
			s.metrics.again.Add(ctx, 1, s.metrics.option(labels{"provider", d.Provider, "status", string(o.Status)}))
			s.tally.note(line{d.Source, false, string(o.Status)}, func() []any { return ref.Log() })
			continue
		}
		s.metrics.event(ctx, d, e, o.Status, s.cfg.Written(d.Provider, e.Type))
		s.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "event received", ref.Attrs(slog.String("source", d.Source),
			slog.String("status", string(o.Status)))...)
		if o.Status == receipt.Received {
			pending = append(pending, receipt.Pending{Source: d.Source, ReceivedAt: d.ReceivedAt, Ref: ref,
				Trace: traceparent})
		}
	}
	if len(pending) > 0 {
		s.cfg.Dispatch(pending)
		s.metrics.handed.Add(ctx, int64(len(pending)))
	}
}

// claims returns log attributes with the ID and type of the first event in a refused request. The values are
// unverified, so the keys start with "claimed_".
func (s *Source) claims(r *webhook.Request, why *webhook.Error) (claimed []any) {
	defer func() {
		if recover() != nil {
			claimed = nil // the unverified bytes caused a panic
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
