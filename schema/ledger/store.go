package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/groupcommit"
)

// Store is the ledger in Postgres.
type Store struct {
	pool  *pgxpool.Pool
	group *groupcommit.Committer[op, outcome]
	turns *turns
}

// New returns the ledger of a migrated database, with the bounds of its group commits. Close it to stop its committer.
func New(pool *pgxpool.Pool, commit groupcommit.Config) *Store {
	s := &Store{pool: pool, turns: newTurns()}
	s.group = groupcommit.New(commit.Named("effects"), s.flush)
	return s
}

// Close waits for the writes under way and stops the committer.
func (s *Store) Close() { s.group.Close() }

// op is one change that waits for a commit: exactly one field is set.
type op struct {
	claim  *Claim
	mark   *hold
	finish *Finish
	sight  *Sighting
}

// hold names one claim of a key.
type hold struct {
	key   string
	token int64
}

type outcome struct {
	grant    Grant
	foreign  bool
	held     bool
	finished Finished
}

// ErrForeign says that a claim names another event than its receipt, or a key of another provider or mode.
// Nothing was done. Only who writes to Temporal past pawl gets that far.
var ErrForeign = errors.New("the effect is not of its receipt")

// Claim asks for the right to do an effect. It does not wait for another holder. The error is [ErrForeign] when the
// effect belongs to another receipt.
func (s *Store) Claim(ctx context.Context, c Claim) (Grant, error) {
	out, err := s.group.Do(ctx, op{claim: &c})
	if isExclusive(err) { // another process has claimed it at the same moment
		return Grant{State: Claimed}, nil
	}
	if err == nil && out.foreign {
		err = ErrForeign
	}
	if err != nil {
		return Grant{}, fmt.Errorf("claim effect %s: %w", c.Key, err)
	}
	return out.grant, nil
}

// Commit marks the claim as past its point of no return. It returns false when the claim no longer
// holds: the caller must then not go on. After true, a lease that runs out makes the effect uncertain.
func (s *Store) Commit(ctx context.Context, key string, token int64) (bool, error) {
	out, err := s.group.Do(ctx, op{mark: &hold{key: key, token: token}})
	if err != nil {
		return false, fmt.Errorf("mark effect %s as committing: %w", key, err)
	}
	return out.held, nil
}

// Finish records what came of a claim. [Unrecordable] tells an error that the same record will meet again.
func (s *Store) Finish(ctx context.Context, f Finish) (Finished, error) {
	out, err := s.group.Do(ctx, op{finish: &f})
	if err != nil {
		return Finished{}, fmt.Errorf("record effect %s as %s: %w", f.Key, f.State, err)
	}
	return out.finished, nil
}

// Sight records that a run met a settled effect.
func (s *Store) Sight(ctx context.Context, sighting Sighting) error {
	if _, err := s.group.Do(ctx, op{sight: &sighting}); err != nil {
		return fmt.Errorf("record sight of effect %s: %w", sighting.Key, err)
	}
	return nil
}

// Read returns the records of the keys, as a claim that is not granted would. It leaves out keys that were never
// claimed. Nothing is claimed; only a claim that lapsed after its point of no return becomes uncertain, as it would
// for the next claim.
func (s *Store) Read(ctx context.Context, keys []string) (map[string]Grant, error) {
	return read(ctx, s.pool, keys)
}

// Skip records the decision that an unfinished effect shall not be done, with the reason. An effect that is done,
// skipped or being done stays as it is. The error is [ErrForeign] when the effect belongs to another receipt.
func (s *Store) Skip(ctx context.Context, c Claim, reason string) error {
	err := checkOwn(ctx, s.pool, c)
	if err == nil {
		_, err = s.pool.Exec(ctx, skipSQL, c.Key, c.Kind, c.ReceiptID, c.EventID, c.RunID, reason)
	}
	if err != nil {
		return fmt.Errorf("skip effect %s: %w", c.Key, err)
	}
	return nil
}

// checkOwn returns ErrForeign for a claim that is not of its receipt.
func checkOwn(ctx context.Context, db Tx, c Claim) error {
	keys, err := foreign(ctx, db, []*Claim{&c})
	if err == nil && len(keys) > 0 {
		err = ErrForeign
	}
	return err
}

// Uncertain counts the effects that may or may not have happened: those that are uncertain, and those that will be
// when somebody claims them next, because their claim has lapsed after the point of no return.
func (s *Store) Uncertain(ctx context.Context) (int, error) {
	return schema.One[int](ctx, s.pool, "count uncertain effects", uncertainSQL)
}

// flush writes all ops in one transaction and one round trip, plus one read of the keys that were
// not granted.
func (s *Store) flush(ctx context.Context, ops []op) ([]outcome, error) {
	b := newBatch(ops)
	q := &pgx.Batch{}
	b.queue(q)
	if err := s.pool.SendBatch(ctx, q).Close(); err != nil {
		return nil, err
	}
	if err := b.readRefused(ctx, s.pool); err != nil {
		return nil, err
	}
	return b.outcomes, nil
}

// InTx does an effect in our own database: the claim, what do changes and the record f commit together, or not at
// all. While do runs the claim's row is locked, so that nobody else can claim the key. do is not called when the
// claim is not granted. Its value is recorded as f's result; when it returns an error, InTx rolls back and returns
// that error.
//
// Those that queue for the same ([Claim.Queue]) wait for each other without a connection. A *[StalledError] says that
// somebody else holds the lock and that nothing was done; [ErrBusy] that enough are waiting.
//
// The transaction begins with the claim and commits with the record: two round trips instead of four.
func (s *Store) InTx(ctx context.Context, c Claim, f Finish,
	do func(context.Context, Tx) (json.RawMessage, error)) (grant Grant, err error) {
	err = s.turns.do(ctx, cmp.Or(c.Queue, c.Key), func() error {
		grant, err = s.inTx(ctx, c, f, do)
		return err
	})
	return grant, err
}

// Stalled lists the queues of [Store.InTx] in this process that wait because somebody else holds the lock, the
// longest wait first.
func (s *Store) Stalled() []StalledError { return s.turns.stalled() }

func (s *Store) inTx(ctx context.Context, c Claim, f Finish,
	do func(context.Context, Tx) (json.RawMessage, error)) (Grant, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return Grant{}, fmt.Errorf("claim effect %s: %w", c.Key, err)
	}
	defer conn.Release() // a connection whose transaction is still open is closed
	grant, err := inTx(ctx, conn, c, f, do)
	if conn.Conn().PgConn().TxStatus() != 'I' {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = conn.Exec(undo, "rollback") // where this fails, Postgres rolls back when the connection ends
	}
	return grant, err
}

func inTx(ctx context.Context, tx Tx, c Claim, f Finish, do func(context.Context, Tx) (json.RawMessage, error)) (Grant,
	error) {
	claim := newBatch([]op{{claim: &c}})
	q := &pgx.Batch{}
	q.Queue("begin")
	claim.queue(q)
	if err := tx.SendBatch(ctx, q).Close(); err != nil {
		return Grant{}, fmt.Errorf("claim effect %s: %w", c.Key, err)
	}
	if err := claim.readRefused(ctx, tx); err != nil {
		return Grant{}, fmt.Errorf("claim effect %s: %w", c.Key, err)
	}
	if claim.outcomes[0].foreign {
		return Grant{}, fmt.Errorf("claim effect %s: %w", c.Key, ErrForeign)
	}
	grant := claim.outcomes[0].grant
	if !grant.Granted {
		return grant, nil
	}
	result, err := do(ctx, tx)
	if err != nil {
		return grant, err
	}
	// The claim's row is ours until the end of the transaction: the record cannot find it taken over.
	f.Key, f.Token, f.State, f.Result = c.Key, grant.Token, Done, result
	q = &pgx.Batch{}
	newBatch([]op{{finish: &f}}).queue(q)
	q.Queue("commit")
	if err := tx.SendBatch(ctx, q).Close(); err != nil {
		return grant, fmt.Errorf("record effect %s as %s: %w", f.Key, f.State, err)
	}
	return grant, nil
}

// ErrTakenOver says that a claim's lease had run out and another took it over.
var ErrTakenOver = errors.New("the claim was taken over")

// Tx is a connection inside of a transaction, or one that makes a transaction of each statement or batch.
type Tx interface {
	schema.DB
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Unrecordable reports whether Postgres refused a record for its content (SQLSTATE class 22, data, or 23,
// constraints): nothing was written, and the same record will be refused again.
func Unrecordable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && len(pg.Code) == 5 && (pg.Code[:2] == "22" || pg.Code[:2] == "23")
}

func isExclusive(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == "effects_exclusive"
}
