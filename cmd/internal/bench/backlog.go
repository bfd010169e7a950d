package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// BacklogConfig is what [Backlog] needs.
type BacklogConfig struct {
	Options
	// Events is how many events wait when Temporal comes back, and Takes how many starts a second it then takes.
	Events, Takes int
	// Rate is how many events a second are offered beside. Window is for how long at a time.
	Rate   int
	Window time.Duration
}

// BacklogResult is what [Backlog] found.
type BacklogResult struct {
	// Waiting is how many events waited when Temporal was back, and Over how long it took until none did.
	Waiting int     `json:"waiting"`
	Over    float64 `json:"over_in_seconds"`
	// PerSecond is how many were started meanwhile each second, and Takes how many Temporal would have taken.
	PerSecond float64 `json:"per_second"`
	Takes     int     `json:"takes_per_second"`
	// Calls is how many starts were asked for in all, of how many Events.
	Calls  int `json:"start_calls"`
	Events int `json:"events"`
	// The latency of the events that were offered beside: with nothing waiting, while Temporal is away, and while the
	// backlog is started, as the median of its windows and the worst of them.
	Alone    AcceptResult `json:"alone"`
	Away     AcceptResult `json:"away"`
	Draining AcceptResult `json:"draining"`
	Worst    AcceptResult `json:"worst"`
	// Shed is how many of them were answered 503.
	Shed int `json:"shed"`
}

// Backlog measures how what was accepted while Temporal was away is started when it is back, and what accepting feels of
// that. Temporal is a stand-in that takes so many starts a second, and does nothing else.
func Backlog(ctx context.Context, cfg BacklogConfig) (_ BacklogResult, err error) {
	s, err := newStack(ctx, cfg.Options)
	if err != nil {
		return BacklogResult{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.wearIn(ctx); err != nil {
		return BacklogResult{}, err
	}
	temporal, err := newEngine(cfg.Takes)
	if err != nil {
		return BacklogResult{}, err
	}
	defer temporal.end()
	s.engine = temporal.addr
	if err := temporal.begin(ctx); err != nil {
		return BacklogResult{}, err
	}
	dsn, err := s.database(ctx, "pawl")
	if err != nil {
		return BacklogResult{}, err
	}
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return BacklogResult{}, err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	in, err := s.run(ctx, "ingress", dsn, "ingress")
	if err != nil {
		return BacklogResult{}, err
	}
	b := &backlog{cfg: cfg, stack: s, db: db, temporal: temporal, in: in}
	if err := b.run(ctx); err != nil {
		return BacklogResult{}, in.failed(err)
	}
	return b.result, nil
}

type backlog struct {
	cfg      BacklogConfig
	stack    *stack
	db       *pgx.Conn
	temporal *engine
	in       *child
	result   BacklogResult
}

func (b *backlog) run(ctx context.Context) (err error) {
	if _, err := b.offer(ctx, "warming up", 5*time.Second); err != nil {
		return err
	}
	if b.result.Alone, err = b.offer(ctx, "nothing waits", b.cfg.Window); err != nil {
		return err
	}
	b.temporal.end()
	if b.result.Away, err = b.offer(ctx, "Temporal is away", b.cfg.Window); err != nil {
		return err
	}
	for waiting := 0; waiting < b.cfg.Events; {
		if _, err := offer(ctx, b.in.ingress, b.stack.secret, rateConnections, false, time.Second); err != nil {
			return err
		}
		if waiting, err = b.count(ctx, "status = 'received'"); err != nil {
			return err
		}
	}
	if b.result.Waiting, err = b.count(ctx, "status = 'received'"); err != nil {
		return err
	}
	b.stack.say("%d events wait; Temporal is back", b.result.Waiting)
	_, before := b.temporal.count()
	back := time.Now()
	if err := b.temporal.begin(ctx); err != nil {
		return err
	}
	if err := b.drain(ctx); err != nil {
		return err
	}
	b.result.Over = time.Since(back).Seconds()
	calls, runs := b.temporal.count()
	b.result.PerSecond, b.result.Takes = float64(runs-before)/b.result.Over, b.cfg.Takes
	b.result.Calls = calls
	if b.result.Events, err = b.count(ctx, "true"); err != nil {
		return err
	}
	if runs < b.result.Waiting {
		err = fmt.Errorf("%d runs of %d events that waited", runs, b.result.Waiting)
	}
	return err
}

// drain offers events, a window after the other, until no more wait than come in while one looks.
func (b *backlog) drain(ctx context.Context) error {
	var windows []AcceptResult
	for {
		w, err := b.offer(ctx, "the backlog is started", b.cfg.Window)
		if err != nil {
			return err
		}
		waiting, err := b.count(ctx, "status = 'received'")
		if err != nil {
			return err
		}
		windows = append(windows, w)
		if w.P99 > b.result.Worst.P99 {
			b.result.Worst = w
		}
		b.stack.say("%d events wait", waiting)
		if waiting <= b.cfg.Rate {
			b.result.Draining = acceptMedian(AcceptResult{Mode: modePawl, Connections: rateConnections}, windows)
			return nil
		}
	}
}

// offer offers events at the rate and returns what accepting them was like.
func (b *backlog) offer(ctx context.Context, while string, length time.Duration) (AcceptResult, error) {
	m, err := offerRate(ctx, b.in.ingress, b.stack.secret, b.cfg.Rate, length, false)
	if err != nil {
		return AcceptResult{}, fmt.Errorf("while %s: %w", while, err)
	}
	b.result.Shed += m.shed
	b.stack.say("%-22s %4.0f/s offered for %s: p50 %.2f ms, p99 %.2f ms%s", while, m.rps, length, m.p50, m.p99, m.note())
	return AcceptResult{Mode: modePawl, Connections: rateConnections, RPS: m.rps, P50: m.p50, P99: m.p99}, nil
}

func (b *backlog) count(ctx context.Context, where string) (n int, err error) {
	err = b.db.QueryRow(ctx, `select count(*) from receipts where `+where).Scan(&n)
	return n, err
}
