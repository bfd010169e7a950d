package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// AcceptConfig configures [Accept].
type AcceptConfig struct {
	Options
	// Modes are the servers to measure, from [AcceptModes] and [ModeSignals].
	Modes []string
	// Connections are the numbers of concurrent connections.
	Connections []int
	// Length is the duration of each measurement.
	Length time.Duration
	// Rounds is how often everything is repeated.
	Rounds int
	// Rate, if set, changes the benchmark: it measures pawl alone at this many events per second for Length, with and
	// without Temporal.
	Rate int
	// Flood, with a Rate, is how many forged events per second are sent at the same time.
	Flood int
	// Fill is how many receipts pawl's table contains at the start.
	Fill int
	// Expired, with a Rate, is how many expired payloads the database contains. The benchmark then measures pawl while
	// retention deletes them, and alone.
	Expired int
}

// AcceptResult is one row of the table that [Accept] returns.
type AcceptResult struct {
	Mode        string `json:"mode"`
	Connections int    `json:"connections"`
	// Duplicates is the share of deliveries that repeat an event: 0 or 0.5.
	Duplicates float64 `json:"duplicates"`
	Measured
}

// The modes of [Accept]. A run at a fixed rate has two more: "pawl" without a reachable Temporal, and the forged
// deliveries sent at the same time.
const (
	modeNoStorage       = "no-storage"
	modeInsert          = "insert"
	modeInlineStart     = "inline-start"
	modeWithoutTemporal = "pawl-without-temporal"
	// modeForged is the row of the forged deliveries that the server rejected.
	modeForged = "forged"
	// ModeSignals is "pawl" with [Options.Signals]. It is measured only on request.
	ModeSignals = "pawl-signals"
)

// AcceptModes are the modes of [Accept] in the order of measurement.
var AcceptModes = []string{modeNoStorage, modeInsert, modeInlineStart, modePawl}

// Accept measures the time from a request to its answer.
//
// In the comparison, "pawl" cannot reach a Temporal server: pawl accepts a flood of events faster than any Temporal
// server starts workflows, so the benchmark would measure how fast the workflows start. A run at a fixed rate measures
// pawl with and without Temporal.
func Accept(ctx context.Context, cfg AcceptConfig) (results []AcceptResult, err error) {
	s, err := newStack(ctx, cfg.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.wearIn(ctx); err != nil {
		return nil, err
	}
	if cfg.Expired > 0 {
		return acceptRetention(ctx, cfg, s)
	}
	if cfg.Rate > 0 {
		return acceptRate(ctx, cfg, s)
	}
	servers := map[string]*child{}
	modes := slices.Clone(cfg.Modes)
	// Serve modeInlineStart last, because it starts Temporal, and every process that is configured later can reach
	// Temporal.
	if i := slices.Index(modes, modeInlineStart); i >= 0 {
		modes = append(slices.Delete(modes, i, i+1), modeInlineStart)
	}
	for _, mode := range modes {
		if servers[mode], err = s.serve(ctx, mode, cfg.Fill); err != nil {
			return nil, err
		}
	}
	var rows []AcceptResult // the modes take turns at each load
	for _, duplicates := range []float64{0, 0.5} {
		for _, connections := range cfg.Connections {
			for _, mode := range cfg.Modes {
				rows = append(rows, AcceptResult{Mode: mode, Connections: connections, Duplicates: duplicates})
			}
		}
	}
	return inTurns(rows, cfg.Rounds, func(round int, r AcceptResult) (_ AcceptResult, err error) {
		length := cfg.Length
		if round == 0 {
			length = min(length, 500*time.Millisecond)
		}
		server := servers[r.Mode]
		r.Measured, err = offer(ctx, server.ingress, s.secret, r.Connections, r.Duplicates > 0, length)
		if err != nil {
			return r, server.failed(fmt.Errorf("with %d connections: %w", r.Connections, err))
		}
		s.say("round %d: %-12s %3d connections, %2.0f %% duplicates: %s", round, r.Mode, r.Connections,
			100*r.Duplicates, r.Measured)
		return r, nil
	})
}

// serve starts the server of a mode on its own database.
func (s *stack) serve(ctx context.Context, mode string, fill int) (*child, error) {
	dsn, err := s.database(ctx, mode)
	if err != nil {
		return nil, err
	}
	path, args := s.Self, []string{"serve", mode}
	switch mode {
	case modePawl, modeWithoutTemporal, ModeSignals:
		path, args = s.Pawl, []string{"ingress"}
		if err := s.fill(ctx, dsn, fill); err != nil {
			return nil, err
		}
	case modeInlineStart:
		if err := s.startTemporal(ctx, syncedDevServer); err != nil {
			return nil, err
		}
	}
	return s.run(ctx, path, mode, dsn, args...)
}

// acceptRate measures pawl at a fixed rate, alternately with and without Temporal.
func acceptRate(ctx context.Context, cfg AcceptConfig, s *stack) (results []AcceptResult, err error) {
	servers := map[string]*child{}
	if servers[modeWithoutTemporal], err = s.serve(ctx, modeWithoutTemporal, cfg.Fill); err != nil {
		return nil, err
	}
	if err := s.startTemporal(ctx, devServer); err != nil {
		return nil, err
	}
	if servers[modePawl], err = s.serve(ctx, modePawl, cfg.Fill); err != nil {
		return nil, err
	}
	var rows []AcceptResult
	for _, mode := range []string{modePawl, modeWithoutTemporal} {
		rows = append(rows, AcceptResult{Mode: mode, Connections: rateConnections})
		if cfg.Flood > 0 {
			rows = append(rows, AcceptResult{Mode: modeForged, Connections: rateConnections})
		}
	}
	var forged Measured
	return inTurns(rows, cfg.Rounds, func(round int, r AcceptResult) (_ AcceptResult, err error) {
		if r.Mode == modeForged { // at the same time as the previous row
			r.Measured = forged
		} else if r.Measured, forged, err = offerBoth(ctx, servers[r.Mode].ingress, s.secret, cfg, round); err != nil {
			return r, servers[r.Mode].failed(err)
		}
		s.say("round %d: %-22s %s", round, r.Mode, r.Measured)
		return r, nil
	})
}

// offerBoth sends valid events and, on request, forged events at the same time. Round 0 sends valid events for one
// second.
func offerBoth(ctx context.Context, addr, secret string, cfg AcceptConfig, round int) (valid, forged Measured,
	err error) {
	if round == 0 {
		cfg.Length, cfg.Flood = time.Second, 0
	}
	group, ctx := errgroup.WithContext(ctx)
	if cfg.Flood > 0 {
		group.Go(func() (err error) {
			forged, err = offerRate(ctx, addr, secret, cfg.Flood, cfg.Length, true)
			return err
		})
	}
	group.Go(func() (err error) {
		valid, err = offerRate(ctx, addr, secret, cfg.Rate, cfg.Length, false)
		return err
	})
	return valid, forged, group.Wait()
}

// fillSQL inserts receipts in their final state: processed, with the body erased by retention. The receipts contain all
// data that an insert reads.
const fillSQL = `
insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, workflow_id)
select gen_random_uuid(), 'stripe', 'stripe', 'test', 'evt_' || md5(n::text), 'id', 'invoice.paid', 'in_' || n,
       now() - n * interval '1 second', sha256(n::text::bytea), 'processed', 'stripe:evt_' || md5(n::text)
  from generate_series($1::bigint, $2::bigint) as n`

// fillBatch is how many receipts one transaction inserts, so that progress is visible and no WAL file is kept for long.
const fillBatch = 250_000

// fill inserts n receipts with receive times up to now, one second apart.
func (s *stack) fill(ctx context.Context, dsn string, n int) error {
	if n == 0 {
		return nil
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	begin := time.Now()
	for from := 1; from <= n; from += fillBatch {
		to := min(from+fillBatch-1, n)
		if _, err := conn.Exec(ctx, fillSQL, from, to); err != nil {
			return fmt.Errorf("fill the table: %w", err)
		}
		s.say("%d of %d receipts made (%s)", to, n, time.Since(begin).Round(time.Second))
	}
	if _, err := conn.Exec(ctx, "vacuum analyze receipts"); err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	_, err = conn.Exec(ctx, "checkpoint")
	return err
}
