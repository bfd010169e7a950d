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

// AcceptConfig is what [Accept] needs.
type AcceptConfig struct {
	Options
	// Modes are the servers to measure, some of [AcceptModes] and [ModeSignals].
	Modes []string
	// Connections are the numbers of connections that deliver at once.
	Connections []int
	// Length is how long each is measured in a round.
	Length time.Duration
	// Rounds is how often everything is repeated.
	Rounds int
	// Rate, when set, asks for something else: pawl alone, at this many events per second for Length,
	// with Temporal and without it.
	Rate int
	// Flood, beside a Rate, is how many forged events per second are offered at the same time.
	Flood int
	// Fill is how many receipts the table of pawl holds before.
	Fill int
}

// AcceptResult is one row of the table that [Accept] returns.
type AcceptResult struct {
	Mode        string `json:"mode"`
	Connections int    `json:"connections"`
	// Duplicates is the part of the deliveries that repeat an event: 0 or 0.5.
	Duplicates float64 `json:"duplicates"`
	RPS        float64 `json:"rps"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
}

// The modes of [Accept]. In a run at a fixed rate there are two more: "pawl" while no Temporal can be
// reached, and the forgeries that were offered beside.
const (
	modeNoStorage       = "no-storage"
	modeInsert          = "insert"
	modeInlineStart     = "inline-start"
	modeWithoutTemporal = "pawl-without-temporal"
	// modeForged is the row of the forged deliveries that the server refused meanwhile.
	modeForged = "forged"
	// ModeSignals is "pawl" as [Options.Signals] has it. It is measured where it is asked for.
	ModeSignals = "pawl-signals"
)

// AcceptModes are the modes of [Accept], in the order in which they take turns.
var AcceptModes = []string{modeNoStorage, modeInsert, modeInlineStart, modePawl}

// Accept measures the way from a request to its answer.
//
// In the comparison no Temporal can be reached by "pawl": a storm is taken faster than any Temporal
// could start workflows for it, and how fast it starts them in the meantime would be measured
// instead. A run at a fixed rate has both.
func Accept(ctx context.Context, cfg AcceptConfig) (results []AcceptResult, err error) {
	s, err := newStack(ctx, cfg.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.wearIn(ctx); err != nil {
		return nil, err
	}
	if cfg.Rate > 0 {
		return acceptRate(ctx, cfg, s)
	}
	servers := map[string]*child{}
	modes := slices.Clone(cfg.Modes)
	// Last, because every process that is configured after Temporal was started can reach it.
	slices.SortStableFunc(modes, func(a, b string) int { return rank(a) - rank(b) })
	for _, mode := range modes {
		if servers[mode], err = s.serve(ctx, mode, cfg.Fill); err != nil {
			return nil, err
		}
	}
	cells := cells(cfg)
	rounds := make([][]AcceptResult, len(cells))
	for round := range cfg.Rounds + 1 {
		for i, cell := range cells {
			length := cfg.Length
			if round == 0 {
				length = min(length, 500*time.Millisecond) // fills caches and pools, and does not count
			}
			m, err := offer(ctx, servers[cell.Mode].ingress, s.secret, cell.Connections, cell.Duplicates > 0, length)
			if err != nil {
				return nil, servers[cell.Mode].failed(fmt.Errorf("with %d connections: %w", cell.Connections, err))
			}
			if round > 0 {
				s.say("round %d: %-12s %3d connections, %2.0f %% duplicates: %7.0f/s, p50 %.2f ms, p99 %.2f ms%s",
					round, cell.Mode, cell.Connections, 100*cell.Duplicates, m.rps, m.p50, m.p99, m.note())
				cell.RPS, cell.P50, cell.P99 = m.rps, m.p50, m.p99
				rounds[i] = append(rounds[i], cell)
			}
		}
	}
	for i, cell := range cells {
		results = append(results, acceptMedian(cell, rounds[i]))
	}
	return results, nil
}

func rank(mode string) int {
	if mode == modeInlineStart {
		return 1
	}
	return 0
}

// cells lists what a round measures: the modes take turns at each load.
func cells(cfg AcceptConfig) []AcceptResult {
	var list []AcceptResult
	for _, duplicates := range []float64{0, 0.5} {
		for _, connections := range cfg.Connections {
			for _, mode := range cfg.Modes {
				list = append(list, AcceptResult{Mode: mode, Connections: connections, Duplicates: duplicates})
			}
		}
	}
	return list
}

func acceptMedian(cell AcceptResult, rounds []AcceptResult) AcceptResult {
	cell.RPS = medianOf(rounds, func(r AcceptResult) float64 { return r.RPS })
	cell.P50 = medianOf(rounds, func(r AcceptResult) float64 { return r.P50 })
	cell.P99 = medianOf(rounds, func(r AcceptResult) float64 { return r.P99 })
	return cell
}

// serve starts the server of a mode on a database of its own.
func (s *stack) serve(ctx context.Context, mode string, fill int) (*child, error) {
	dsn, err := s.database(ctx, mode)
	if err != nil {
		return nil, err
	}
	args := []string{"bench", "serve", mode}
	switch mode {
	case modePawl, modeWithoutTemporal, ModeSignals:
		args = []string{"ingress"}
		if err := s.fill(ctx, dsn, fill); err != nil {
			return nil, err
		}
	case modeInlineStart:
		if err := s.startTemporal(ctx, syncedDevServer); err != nil {
			return nil, err
		}
	}
	return s.run(ctx, mode, dsn, args...)
}

// acceptRate measures pawl at a fixed rate, with and without Temporal, in turns.
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
	for _, mode := range []string{modePawl, modeWithoutTemporal} {
		cell, flood := AcceptResult{Mode: mode, Connections: rateConnections},
			AcceptResult{Mode: modeForged, Connections: rateConnections}
		var rounds, floods []AcceptResult
		for range cfg.Rounds {
			// to warm up
			if _, err := offerRate(ctx, servers[mode].ingress, s.secret, cfg.Rate, time.Second, false); err != nil {
				return nil, servers[mode].failed(err)
			}
			m, forged, err := offerBoth(ctx, servers[mode].ingress, s.secret, cfg)
			if err != nil {
				return nil, servers[mode].failed(err)
			}
			s.say("%-22s %4.0f/s offered for %s: p50 %.2f ms, p99 %.2f ms%s", mode, m.rps, cfg.Length, m.p50, m.p99,
				m.note())
			cell.RPS, cell.P50, cell.P99 = m.rps, m.p50, m.p99
			rounds = append(rounds, cell)
			if cfg.Flood > 0 {
				s.say("%-22s %4.0f/s refused beside: p50 %.2f ms, p99 %.2f ms%s", modeForged, forged.rps, forged.p50,
					forged.p99, forged.note())
				flood.RPS, flood.P50, flood.P99 = forged.rps, forged.p50, forged.p99
				floods = append(floods, flood)
			}
		}
		results = append(results, acceptMedian(cell, rounds))
		if cfg.Flood > 0 {
			results = append(results, acceptMedian(flood, floods))
		}
	}
	return results, nil
}

// offerBoth offers valid events and, when asked for, forged ones at the same time.
func offerBoth(ctx context.Context, addr, secret string, cfg AcceptConfig) (valid, forged measured, err error) {
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

// fillSQL makes receipts as they stand when their time is over: processed, the body erased by
// retention. Everything that an insert has to look into is there.
const fillSQL = `
insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, workflow_id)
select gen_random_uuid(), 'stripe', 'stripe', 'test', 'evt_' || md5(n::text), 'id', 'invoice.paid', 'in_' || n,
       now() - n * interval '1 second', sha256(n::text::bytea), 'processed', 'stripe:evt_' || md5(n::text)
  from generate_series($1::bigint, $2::bigint) as n`

// fillBatch is how many receipts a transaction makes: progress can be told, and no WAL file is kept
// for long.
const fillBatch = 250_000

// fill makes n receipts that came in second by second up to now.
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
