package ingress

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// deliver is the way of one request.
func (s *Server) deliver(c echo.Context) (err error) {
	begun := s.cfg.Now()
	l := label{source: "unknown", outcome: refused}
	defer func() {
		if p := recover(); p != nil {
			// The value may quote the body, so only its type is told. A 503 comes again, a 500 may not.
			s.cfg.Log.Error("delivery panicked", "source", l.source, "error", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			l.outcome, l.class = unfinished, "panic"
			err = nil
			if !c.Response().Committed {
				err = unavailable(c, "unavailable")
			}
		}
		s.metrics.delivery(c.Request().Context(), l, s.cfg.Now().Sub(begun))
	}()

	source, ok := s.cfg.Sources[c.Param("source")]
	if !ok {
		l.class = "unknown_source"
		leaveUnread(c)
		return answer(c, http.StatusNotFound, l.class)
	}
	l.source, l.provider = source.Name, source.Provider.Name
	r := &webhook.Request{Method: c.Request().Method, URL: source.CalledURL(c.Request().URL.RawQuery), Header: c.Request().Header, ReceivedAt: begun}
	from := remoteAddr(c.Request(), s.cfg.Limits.TrustedProxies)
	if r.Method != http.MethodPost {
		leaveUnread(c) // whatever comes of it, no body is read
		return s.greet(c, &source, r, from, &l)
	}
	release, done := s.admit(c, &source, from, &l)
	if done {
		return nil
	}
	defer release()

	held := metered{budget: &s.bodies}
	defer held.release()
	switch err := s.read(c, &source, r, &held); {
	case errors.Is(err, errOverBudget):
		l.outcome, l.class = shed, "bodies"
		return unavailable(c, "busy")
	case err != nil:
		return s.refuse(c, &source, &l, r, err, from)
	}
	match, err := source.verify(c.Request().Context(), r)
	if err != nil && source.pinged(r, err) {
		l.outcome = handshake
		return c.NoContent(http.StatusOK)
	}
	if err != nil {
		return s.refuse(c, &source, &l, r, err, from)
	}
	s.tally.used(source.Name, match.Secret, r.ReceivedAt)
	return s.keep(c, &source, r, match, &l)
}

// pinged reports whether r, which is refused with err, is the provider's unsigned ping. Nothing of it is kept.
func (s *Source) pinged(r *webhook.Request, err error) bool {
	number, found := bytes.CutPrefix(r.Body, []byte(s.Provider.Contract.Ping))
	class, _ := webhook.ClassOf(err)
	return s.Provider.Contract.Ping != "" && found && class == webhook.MissingHeader && isNumber(number)
}

// isNumber reports whether b is the number of something.
func isNumber(b []byte) bool {
	return len(b) > 0 && len(b) <= 20 && !slices.ContainsFunc(b, func(c byte) bool { return c < '0' || c > '9' })
}

// greet answers what is not a POST: a handshake where the provider has one and the verifier admits it, or a
// HEAD where the provider asks with one whether the URL can be called, else 405.
func (s *Server) greet(c echo.Context, source *Source, r *webhook.Request, from netip.Addr, l *label) error {
	asked := r.Method == http.MethodHead && source.Provider.Contract.AsksWithHead
	answerer, ok := source.Verifier.(webhook.Answerer)
	if !asked && (!ok || r.Method != http.MethodGet || queryOf(r.URL) == "") {
		l.class = "method_not_allowed"
		c.Response().Header().Set("Allow", http.MethodPost)
		return answer(c, http.StatusMethodNotAllowed, l.class)
	}
	release, done := s.admit(c, source, from, l)
	if done {
		return nil
	}
	defer release()
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
	s.tally.refused(l.source, l.class, r.ReceivedAt)
	return answer(c, http.StatusBadRequest, l.class)
}

// admit decides, before a byte of the body is read, whether the request is worked on now. When it
// is not, done is true and the answer is written.
func (s *Server) admit(c echo.Context, source *Source, from netip.Addr, l *label) (release func(), done bool) {
	if !source.admits(from) {
		l.class = "address_not_allowed"
		s.tally.refused(l.source, l.class, s.cfg.Now())
		leaveUnread(c)
		_ = answer(c, http.StatusForbidden, l.class)
		return nil, true
	}
	now := s.cfg.Now()
	// Per address first: what one address sends too much must not use up its source's tokens.
	if !s.perAddr.Allow(throttle.Network(from), now) || !s.perSource.Allow(source.Name, now) {
		l.outcome, l.class = shed, "rate"
		leaveUnread(c)
		_ = unavailable(c, "busy")
		return nil, true
	}
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, false
	default:
		l.outcome, l.class = shed, "in_flight"
		leaveUnread(c)
		_ = unavailable(c, "busy")
		return nil, true
	}
}

// read reads the body into r, counting it in held. Its error is an *[webhook.Error], or errOverBudget where there is
// no room for the body now.
//
// No body is decompressed: no provider here sends a content coding, and those that sign sign the bytes
// that they send.
func (s *Server) read(c echo.Context, source *Source, r *webhook.Request, held *metered) error {
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			leaveUnread(c)
			return webhook.Errorf(webhook.ContentEncoding, "the body came with a content coding; no provider sends one, so something on the way compresses")
		}
	}
	limit := s.bodyLimit(source)
	tooLarge := func() error {
		leaveUnread(c) // http.MaxBytesReader does so only where it is given net/http's own writer
		return webhook.Errorf(webhook.TooLarge, "the limit is %d bytes; set sources.%s.body_limit for more", limit, source.Name)
	}
	length := c.Request().ContentLength
	if length > limit {
		return tooLarge()
	}
	// Counted on the bytes read: a chunked body announces no length.
	held.Reader = http.MaxBytesReader(c.Response(), c.Request().Body, limit)
	// A length that is announced is not yet sent, so it buys no more than a small buffer.
	body := bytes.NewBuffer(make([]byte, 0, min(max(length, 0), 64<<10)+bytes.MinRead))
	_, err := body.ReadFrom(held)
	r.Body = body.Bytes()
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &over):
		return tooLarge()
	case errors.Is(err, errOverBudget):
		leaveUnread(c)
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		leaveUnread(c)
		return webhook.Errorf(webhook.SlowBody, "the body had not come within %s of the request", s.cfg.Limits.Read)
	}
	return webhook.Errorf(webhook.UnreadableBody, "the connection ended, or the body's framing is wrong")
}

func (s *Server) bodyLimit(source *Source) int64 {
	return cmp.Or(source.BodyLimit, source.Provider.Contract.BodyLimit, s.cfg.Limits.Body)
}

// refuse answers a request whose body could not be read, or that the verifier did not admit: it counts the refusal
// and shows it to whoever keeps refusals. An err that is no *[webhook.Error] refuses nothing.
func (s *Server) refuse(c echo.Context, source *Source, l *label, r *webhook.Request, err error, from netip.Addr) error {
	var refusal *webhook.Error
	if !errors.As(err, &refusal) {
		// Not one of the classes: what it takes to verify is not there, and the delivery should come again.
		s.unverified.Do(func() {
			s.cfg.Log.Error("deliveries cannot be verified now", "source", l.source, "provider", l.provider, "error", err)
		})
		l.outcome, l.class = unfinished, "verifier"
		return unavailable(c, "unavailable")
	}
	l.class = string(refusal.Class)
	s.tally.refused(l.source, l.class, r.ReceivedAt)
	s.cfg.Refused(l.source, r, refusal, from.String())
	return answer(c, source.statusOf(refusal.Class), l.class)
}

// keep commits what r carries and answers. The hand-over comes after the answer is decided:
// nothing that happens there can take a 2xx back.
func (s *Server) keep(c echo.Context, source *Source, r *webhook.Request, match webhook.Match, l *label) error {
	d := source.delivery(r, match)
	// The provider may have hung up. Its bytes are here and authentic, and GitHub for one never
	// sends them again, so they are kept all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), s.cfg.Limits.Ack)
	defer cancel()
	outcomes, err := s.cfg.Receipts.Insert(ctx, d)
	if err != nil {
		s.cfg.Log.Warn("delivery not committed", "provider", d.Provider, "source", d.Source, "error", err)
		l.outcome = unfinished
		return unavailable(c, "unavailable")
	}
	var sum summary
	for _, o := range outcomes {
		sum.add(o)
		if o.Uncounted != nil {
			s.cfg.Log.Warn("duplicate not counted", "provider", d.Provider, "source", d.Source, "event_id", o.EventID, "error", o.Uncounted)
		}
	}
	l.outcome = sum.outcome()
	err = s.confirm(c, source, r, sum, outcomes)
	s.handOver(ctx, &d, outcomes)
	return err
}

func (s *Server) handOver(ctx context.Context, d *receipt.Delivery, outcomes []receipt.Outcome) {
	var pending []receipt.Pending
	for i, o := range outcomes {
		if e := &d.Events[i]; !o.Duplicate && o.Status == receipt.Received {
			pending = append(pending, receipt.Pending{ReceiptID: o.ReceiptID, Provider: d.Provider, Account: e.Account,
				Mode: e.Mode, EventID: o.EventID, Type: e.Type, ObjectID: e.Object, ReceivedAt: d.ReceivedAt})
		}
	}
	if len(pending) > 0 {
		s.cfg.Dispatch(pending)
		s.metrics.handed.Add(ctx, int64(len(pending)))
	}
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
