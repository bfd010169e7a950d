package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress/stripe"
)

// sender sends deliveries as a provider does, and keeps a log of the answers.
type sender struct {
	t    *testing.T
	http *http.Client

	mu  sync.Mutex
	log []delivery
}

// delivery is one request in the client's log.
type delivery struct {
	event      invoice
	status     int // 0 for no answer
	retryAfter string
	body       string
	took       time.Duration
}

func (d delivery) acknowledged() bool { return d.status/100 == 2 }

// refused reports whether the answer guarantees that nothing was stored.
func (d delivery) refused() bool { return d.status/100 == 4 }

func newSender(t *testing.T) *sender {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	return &sender{t: t, http: &http.Client{Transport: transport, Timeout: 15 * time.Second}}
}

// invoice is an event about an invoice, with the values that form its effects' keys.
type invoice struct {
	forge.Event
	invoice, number, account, subscription string
}

// newInvoice returns an invoice.paid event with a plan that causes all effects. change may edit it.
func newInvoice(t *testing.T, change func(*forge.Params)) invoice {
	t.Helper()
	p := forge.Params{Provider: stripe.Provider, Type: "invoice.paid", Plan: "enterprise", Live: true}
	if change != nil {
		change(&p)
	}
	p = p.WithDefaults()
	e, err := forge.New(p, "")
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Data struct {
			Object struct {
				ID, Number string
				Parent     struct {
					Details struct{ Subscription string } `json:"subscription_details"`
				}
			}
		}
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		t.Fatal(err)
	}
	o := body.Data.Object
	return invoice{e, o.ID, o.Number, p.Account, o.Parent.Details.Subscription}
}

func newInvoices(t *testing.T, n int) []invoice {
	t.Helper()
	events := make([]invoice, n)
	for i := range events {
		events[i] = newInvoice(t, nil)
	}
	return events
}

// request returns a signed delivery of e. at is the time of the signature.
func (s *sender) request(url string, e invoice, at time.Time) *http.Request {
	s.t.Helper()
	target := forge.Target{URL: url, Secret: secret, Sign: stripe.Provider.Sign}
	req, err := target.Request(s.t.Context(), e.Event, at)
	if err != nil {
		s.t.Fatal(err)
	}
	return req
}

// post delivers e once, signed now.
func (s *sender) post(url string, e invoice) delivery {
	s.t.Helper()
	return s.do(e, s.request(url, e, time.Now()))
}

// do sends a delivery of e and adds it to the log.
func (s *sender) do(e invoice, req *http.Request) delivery {
	d := delivery{event: e}
	begun := time.Now()
	resp, err := s.http.Do(req)
	d.took = time.Since(begun)
	if err == nil {
		var body bytes.Buffer
		_, err = body.ReadFrom(io.LimitReader(resp.Body, 1<<16))
		_ = resp.Body.Close()
		if err == nil {
			d.status, d.retryAfter, d.body = resp.StatusCode, resp.Header.Get("Retry-After"), body.String()
		}
	}
	s.mu.Lock()
	s.log = append(s.log, d)
	s.mu.Unlock()
	return d
}

// accepted sends requests for e until the answer is not 503, as a provider does: on a busy machine a delivery may
// exceed its timeout. It fails unless the last request is acknowledged.
func (s *sender) accepted(e invoice, request func() *http.Request) (last delivery) {
	s.t.Helper()
	await(s.t, patience, func() error {
		if last = s.do(e, request()); last.status == http.StatusServiceUnavailable {
			return fmt.Errorf("answered %d %s", last.status, last.body)
		}
		return nil
	})
	if !last.acknowledged() {
		s.t.Errorf("%d bytes were answered %d %s, want 202", len(e.Body), last.status, last.body)
	}
	return last
}

// postAll delivers events concurrently, each event copies times, and uses the urls in turn.
func (s *sender) postAll(events []invoice, copies int, urls ...string) []delivery {
	s.t.Helper()
	var group sync.WaitGroup
	barrier := make(chan struct{})
	deliveries := make([]delivery, len(events)*copies)
	for i := range deliveries {
		e, url := events[i%len(events)], urls[i%len(urls)]
		req := s.request(url, e, time.Now())
		group.Go(func() {
			<-barrier
			deliveries[i] = s.do(e, req)
		})
	}
	close(barrier)
	group.Wait()
	return deliveries
}

// acknowledged reports whether e was answered 2xx.
func (s *sender) acknowledged(e invoice) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.log {
		if d.event.ID == e.ID && d.acknowledged() {
			return true
		}
	}
	return false
}

func (s *sender) anyAcknowledged(events []invoice) bool {
	return slices.ContainsFunc(events, s.acknowledged)
}

// deliver sends events until each is acknowledged, as a provider does.
func (w *world) deliver(in endpoint, events ...invoice) {
	w.t.Helper()
	for _, e := range events {
		await(w.t, patience, func() error {
			if d := w.sender.post(in.url, e); !d.acknowledged() {
				return fmt.Errorf("%s was answered %d %s", e.ID, d.status, d.body)
			}
			return nil
		})
	}
}

// deliverToKill sends e until the ingress is killed at a failure hook or acknowledges it, and returns the last
// delivery. On a busy machine the first one may be rejected before it reaches the hook.
func (w *world) deliverToKill(in endpoint, e invoice, point string) (last delivery) {
	w.t.Helper()
	await(w.t, patience, func() error {
		select {
		case <-in.done:
			return nil
		default:
		}
		if last = w.sender.post(in.url, e); last.status >= 500 {
			return fmt.Errorf("%s was answered %d %s", e.ID, last.status, last.body)
		}
		return nil
	})
	in.awaitHook(point)
	return last
}

// deliverAll sends events concurrently, and repeats those without acknowledgement.
func (w *world) deliverAll(in endpoint, events []invoice) {
	w.t.Helper()
	for _, d := range w.sender.postAll(events, 1, in.url) {
		if !d.acknowledged() {
			w.deliver(in, d.event)
		}
	}
}
