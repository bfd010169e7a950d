package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/retention"
)

// modeRetention is pawl without Temporal while a retention run deletes expired payloads.
const modeRetention = "retention"

// expiredAge is the age of the youngest expired payload.
const expiredAge = 100 * 24 * time.Hour

// expireSQL inserts processed receipts with payloads of 1.2 KB. Their IDs are UUIDs of version 7, as in production.
const expireSQL = `
with made as (
    select n, now() - $3::interval - n * interval '1 second' as at from generate_series($1::bigint, $2::bigint) as n
), expired as (
    insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, updated_at, body_hash, status)
    select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
           'stripe', 'stripe', 'test', 'evt_old_' || md5(n::text), 'id', 'invoice.paid', 'in_' || n, at, at, sha256(n::text::bytea), 'processed'
      from made returning id
)
insert into receipt_bodies (receipt_id, headers, body) select id, '{}', convert_to(repeat(md5(id::text), 38), 'UTF8') from expired`

// expire inserts n receipts with expired payloads.
func (s *stack) expire(ctx context.Context, pool *pgxpool.Pool, n int) error {
	begin := time.Now()
	for from := 1; from <= n; from += fillBatch {
		to := min(from+fillBatch-1, n)
		// The statement takes longer than a statement of pawl may take.
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "set local statement_timeout = 0"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, expireSQL, from, to, expiredAge)
			return err
		})
		if err != nil {
			return fmt.Errorf("insert expired payloads: %w", err)
		}
		s.say("%d of %d expired payloads made (%s)", to, n, time.Since(begin).Round(time.Second))
	}
	return nil
}

// handling returns a pool with the settings of a worker.
func handling(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	schema.Bound(options, schema.Handle)
	return pgxpool.NewWithConfig(ctx, options)
}

// acceptRetention measures pawl at a fixed rate, alternately alone and while retention deletes expired payloads. It
// returns an error if the payloads do not last for all rounds.
func acceptRetention(ctx context.Context, cfg AcceptConfig, s *stack) (results []AcceptResult, err error) {
	server, err := s.serve(ctx, modeWithoutTemporal, cfg.Fill)
	if err != nil {
		return nil, err
	}
	dsn, err := s.database(ctx, modeWithoutTemporal)
	if err != nil {
		return nil, err
	}
	pool, err := handling(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if err := s.expire(ctx, pool, cfg.Expired); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, "checkpoint"); err != nil {
		return nil, err
	}
	rows := []AcceptResult{{Mode: modeWithoutTemporal, Connections: rateConnections},
		{Mode: modeRetention, Connections: rateConnections}}
	return inTurns(rows, cfg.Rounds, func(round int, r AcceptResult) (_ AcceptResult, err error) {
		done := func() (retention.Run, error) { return retention.Run{}, nil }
		if r.Mode == modeRetention && round > 0 {
			done = sweep(ctx, pool)
		}
		r.Measured, _, err = offerBoth(ctx, server.ingress, s.secret, cfg, round)
		run, failed := done()
		if err = errors.Join(err, failed); err != nil {
			return r, server.failed(err)
		}
		if run.Complete {
			return r, errors.New("all expired payloads were deleted before the end: use more of them, or a shorter time")
		}
		s.say("round %d: %-22s %s; deleted %s", round, r.Mode, r.Measured, run.Counts())
		return r, nil
	})
}

// sweep runs retention until the returned function is called.
func sweep(ctx context.Context, pool *pgxpool.Pool) (done func() (retention.Run, error)) {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		run retention.Run
		err error
	}
	ended := make(chan result, 1)
	go func() {
		s := retention.Sweep{DB: pool, Ages: retention.Ages{Payloads: 90 * 24 * time.Hour}, Within: time.Hour,
			Look: 5 * time.Second}
		run, err := s.Run(ctx, retention.Run{})
		ended <- result{run, err}
	}()
	return func() (retention.Run, error) {
		cancel()
		r := <-ended
		if errors.Is(r.err, context.Canceled) {
			r.err = nil
		}
		return r.run, r.err
	}
}
