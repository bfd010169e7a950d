package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/devstack/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/stripe"
)

// OutageConfig is what [Outage] needs.
type OutageConfig struct {
	Options
	// Server is the kind of Temporal server: "dev" or "postgres".
	Server string
	// Events is how many invoices are paid each second, and Relays how many events are relayed beside them.
	Events, Relays int
	// Length is how long it is measured while all is well, and while finance hangs; Down how long finance is out.
	Length, Down time.Duration
}

// OutageResult is what [Outage] found.
type OutageResult struct {
	// Relays are the latencies of relays to a consumer that is well, from the POST to its request, by what finance does.
	Relays []RelayLatency `json:"relays"`
	// Waiting is how many runs waited for finance when it came back, Parked how many waited for a person by then or later,
	// and OverIn how long it took until every event was done.
	Waiting int     `json:"waiting"`
	Parked  int     `json:"parked"`
	OverIn  float64 `json:"over_in_seconds"`
	// MostTries is how often one entry was tried; Entries is how many finance has, which were all asked for.
	MostTries int `json:"most_tries"`
	Entries   int `json:"entries"`
}

// RelayLatency is how long relays took.
type RelayLatency struct {
	Finance string  `json:"finance"`
	Count   int     `json:"count"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
}

// Outage measures what a sink that hangs, and then is out, does to others, and how what waited for it comes to its end.
func Outage(ctx context.Context, cfg OutageConfig) (_ OutageResult, err error) {
	s, err := newStack(ctx, cfg.Options)
	if err != nil {
		return OutageResult{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	o := &outage{cfg: cfg, stack: s, sent: map[string]time.Time{}}
	if err := o.start(ctx); err != nil {
		return OutageResult{}, err
	}
	defer o.stop(ctx)
	return o.run(ctx)
}

type outage struct {
	cfg      OutageConfig
	stack    *stack
	db       *pgx.Conn
	consumer *http.Server
	client   *http.Client
	invoices forge.Target
	relays   forge.Target

	mu   sync.Mutex
	sent map[string]time.Time
	took []time.Duration
}

func (o *outage) start(ctx context.Context) (err error) {
	s := o.stack
	if s.sandbox, err = sandbox.Start(context.WithoutCancel(ctx), sandbox.Config{Dir: filepath.Join(s.dir, "sandbox"), Log: s.Log}); err != nil {
		return err
	}
	if err := s.startTemporal(ctx, o.cfg.Server); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o.consumer = &http.Server{Handler: http.HandlerFunc(o.consume), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = o.consumer.Serve(listener) }() // it ends when it is closed
	s.consumer = "http://" + listener.Addr().String()
	dsn, err := s.database(ctx, "pawl")
	if err != nil {
		return err
	}
	if o.db, err = pgx.Connect(ctx, dsn); err != nil {
		return err
	}
	in, err := s.run(ctx, "ingress+worker", dsn, "ingress", "--worker")
	if err != nil {
		return err
	}
	o.client = activities.NewHTTPClient()
	o.invoices = forge.Target{URL: "http://" + in.ingress + "/hooks/stripe", Secret: s.secret, Sign: stripe.Provider.Sign}
	o.relays = forge.Target{URL: "http://" + in.ingress + "/hooks/github", Secret: s.secret, Sign: github.Provider.Sign}
	return nil
}

func (o *outage) stop(ctx context.Context) {
	_ = o.consumer.Close()
	_ = o.db.Close(context.WithoutCancel(ctx))
}

// consume notes how long the event took.
func (o *outage) consume(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	o.mu.Lock()
	defer o.mu.Unlock()
	id := r.Header.Get("Pawl-Event-Id")
	if at, ok := o.sent[id]; ok {
		o.took = append(o.took, time.Since(at))
		delete(o.sent, id)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (o *outage) run(ctx context.Context) (result OutageResult, err error) {
	if _, err := o.phase(ctx, "warms up", 5*time.Second, ""); err != nil {
		return result, err
	}
	for _, phase := range []struct {
		finance string
		length  time.Duration
		fault   string
	}{
		{"is well", o.cfg.Length, ""},
		{"hangs", o.cfg.Length, `{"service":"finance","next":1000000,"mode":"hang_after_accept"}`},
		{"is out", o.cfg.Down, `{"service":"finance","next":1000000,"status":503}`},
	} {
		latency, err := o.phase(ctx, phase.finance, phase.length, phase.fault)
		if err != nil {
			return result, err
		}
		result.Relays = append(result.Relays, latency)
		if result.Waiting, err = o.count(ctx, `status = 'retrying'`); err != nil {
			return result, err
		}
		back := time.Now()
		if err := o.fault(ctx, http.MethodDelete, ""); err != nil {
			return result, err
		}
		if err := o.drained(ctx); err != nil {
			return result, err
		}
		result.OverIn = time.Since(back).Seconds()
		o.cfg.say("finance %s: relays p50 %.0f ms, p99 %.0f ms; %d runs waited, over %.0f s after", phase.finance, latency.P50, latency.P99, result.Waiting, result.OverIn)
	}
	if result.Parked, err = o.count(ctx, `id in (select receipt_id from runs) and status in ('dead', 'needs_review')`); err != nil {
		return result, err
	}
	if err := o.db.QueryRow(ctx, `select max(attempts), count(*) filter (where state = 'done') from effects where kind = 'finance-export'`).Scan(&result.MostTries, &result.Entries); err != nil {
		return result, err
	}
	invoices, err := o.count(ctx, `provider = 'stripe'`)
	if err == nil && invoices != result.Entries {
		err = fmt.Errorf("finance has %d entries of %d invoices", result.Entries, invoices)
	}
	return result, err
}

// phase offers events for a time, in which finance has a fault.
func (o *outage) phase(ctx context.Context, finance string, length time.Duration, fault string) (RelayLatency, error) {
	o.cfg.say("%s of events, while finance %s", length, finance)
	if fault != "" {
		if err := o.fault(ctx, http.MethodPost, fault); err != nil {
			return RelayLatency{}, err
		}
	}
	group, offering := errgroup.WithContext(ctx)
	group.Go(func() error {
		return o.offer(offering, length, o.cfg.Events, o.invoices, forge.Params{Provider: stripe.Provider, Plan: "pro"})
	})
	group.Go(func() error {
		return o.offer(offering, length, o.cfg.Relays, o.relays, forge.Params{Provider: github.Provider, Type: "issues.opened", Live: true})
	})
	if err := group.Wait(); err != nil {
		return RelayLatency{}, err
	}
	if err := o.arrived(ctx); err != nil {
		return RelayLatency{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	took := o.took
	o.took = nil
	slices.Sort(took)
	return RelayLatency{Finance: finance, Count: len(took), P50: percentile(took, 0.5), P99: percentile(took, 0.99)}, nil
}

// arrived waits until every relayed event has come to its consumer.
func (o *outage) arrived(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		o.mu.Lock()
		missing := len(o.sent)
		o.mu.Unlock()
		if missing == 0 {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d relayed events have not come to their consumer: %w", missing, ctx.Err())
		}
	}
}

// offer sends so many events a second.
func (o *outage) offer(ctx context.Context, length time.Duration, perSecond int, to forge.Target, p forge.Params) error {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	group, ctx := errgroup.WithContext(ctx)
	for begin := time.Now(); time.Since(begin) < length; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return group.Wait()
		}
		group.Go(func() error { return o.send(ctx, to, p) })
	}
	return group.Wait()
}

func (o *outage) send(ctx context.Context, to forge.Target, p forge.Params) error {
	e, err := forge.New(p, "")
	if err != nil {
		return err
	}
	req, err := to.Request(ctx, e, time.Now())
	if err != nil {
		return err
	}
	if p.Provider.Name == github.Provider.Name {
		o.mu.Lock()
		o.sent[e.ID] = time.Now()
		o.mu.Unlock()
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the ingress answered %d", resp.StatusCode)
	}
	return nil
}

// fault tells the sandbox what to do to finance.
func (o *outage) fault(ctx context.Context, method, fault string) error {
	req, err := http.NewRequestWithContext(ctx, method, o.stack.sandbox.URL()+"/_faults", strings.NewReader(fault))
	if err != nil {
		return err
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the sandbox answered %d to a fault", resp.StatusCode)
	}
	return nil
}

// drained waits until nothing is on its way.
func (o *outage) drained(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	for {
		open, err := o.count(ctx, `status in ('received', 'processing', 'retrying')`)
		if err != nil || open == 0 {
			return err
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d events are still on their way: %w", open, ctx.Err())
		}
	}
}

func (o *outage) count(ctx context.Context, where string) (n int, err error) {
	err = o.db.QueryRow(ctx, `select count(*) from receipts where `+where).Scan(&n)
	return n, err
}
