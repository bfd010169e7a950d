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

// New returns the ledger of a migrated database. commit contains the bounds of its group commits. The caller must call
// Close.
func New(pool *pgxpool.Pool, commit groupcommit.Config) *Store {
	s := &Store{pool: pool, turns: newTurns()}
	s.group = groupcommit.New(commit.Named("effects"), s.flush)
	return s
}

// Close waits for writes in progress and stops the group commits.
func (s *Store) Close() { s.group.Close() }

// op is one change in a flush. Exactly one field is set.
type op struct {
	claim  *Claim
	mark   *hold
	finish *Finish
	sight  *Sighting
}

// hold identifies one claim of a key.
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

// ErrForeign means that the event of a claim is not the event of its receipt, or that its key contains another provider
// or mode. Nothing was done. This happens only if a workflow was started without pawl.
var ErrForeign = errors.New("the effect does not belong to its receipt")

// Claim requests the right to do an effect. It returns at once if another claim is valid. The error is [ErrForeign] if
// the effect belongs to another receipt.
func (s *Store) Claim(ctx context.Context, c Claim) (Grant, error) {
	out, err := s.group.Do(ctx, op{claim: &c})
	if isExclusive(err) { // another process claimed the exclusive name at the same time
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

// Commit marks a claim as past its point of no return. If it returns false, the claim is no longer valid, and the
// caller must not do the effect. If it returns true and the lease ends, the effect becomes uncertain.
func (s *Store) Commit(ctx context.Context, key string, token int64) (bool, error) {
	out, err := s.group.Do(ctx, op{mark: &hold{key: key, token: token}})
	if err != nil {
		return false, fmt.Errorf("mark effect %s as committing: %w", key, err)
	}
	return out.held, nil
}

// Finish records the outcome of a claim. If [Unrecordable] is true for the error, a repetition would fail as well.
func (s *Store) Finish(ctx context.Context, f Finish) (Finished, error) {
	out, err := s.group.Do(ctx, op{finish: &f})
	if err != nil {
		return Finished{}, fmt.Errorf("record effect %s as %s: %w", f.Key, f.State, err)
	}
	return out.finished, nil
}

// Release ends the claim of an effect that has begun and has no outcome yet. It stores the reason and no attempt, and
// counts no failure. The next claim of the same round continues in the same generation. If another claim has taken
// over, Release changes nothing.
func (s *Store) Release(ctx context.Context, key string, token int64, reason string) error {
	return schema.Exec(ctx, s.pool, "release the claim of effect "+key, releaseSQL, key, token, clean(reason))
}

// Sight records that a run found an effect already settled by another run.
func (s *Store) Sight(ctx context.Context, sighting Sighting) error {
	if _, err := s.group.Do(ctx, op{sight: &sighting}); err != nil {
		return fmt.Errorf("record that effect %s was already settled: %w", sighting.Key, err)
	}
	return nil
}

// Read returns the records of the keys, in the same form as a claim that is not granted. It omits keys that were never
// claimed. If the lease of a claim ended after its point of no return, Read makes the effect uncertain, as the next
// claim would.
func (s *Store) Read(ctx context.Context, keys []string) (map[string]Grant, error) {
	return read(ctx, s.pool, keys)
}

// Skip records the decision not to do an unfinished effect, with the reason. It does not change an effect that is done,
// skipped or in progress. also is executed in the same commit, after the record; its statements have to check the
// record themselves. The error is [ErrForeign] if the effect belongs to another receipt.
func (s *Store) Skip(ctx context.Context, c Claim, reason string, also ...Statement) error {
	err := checkOwn(ctx, s.pool, c)
	if err == nil {
		b := &pgx.Batch{}
		b.Queue(skipSQL, c.Key, c.Kind, c.ReceiptID, c.EventID, c.RunID, reason)
		for _, more := range also {
			b.Queue(more.SQL, more.Args...)
		}
		err = s.pool.SendBatch(ctx, b).Close()
	}
	if err != nil {
		return fmt.Errorf("skip effect %s: %w", c.Key, err)
	}
	return nil
}

// checkOwn returns ErrForeign if the event or the key of a claim does not match its receipt.
func checkOwn(ctx context.Context, db Tx, c Claim) error {
	keys, err := foreign(ctx, db, []*Claim{&c})
	if err == nil && len(keys) > 0 {
		err = ErrForeign
	}
	return err
}

// Uncertain counts the effects that may or may not have happened: effects in the state Uncertain, and claims that
// lapsed after their point of no return.
func (s *Store) Uncertain(ctx context.Context) (int, error) {
	return schema.One[int](ctx, s.pool, "count uncertain effects", uncertainSQL)
}

// flush executes all ops in one transaction and one round trip. It needs another round trip to read the keys that were
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

// InTx does an effect in pawl's own database. The claim, the changes of do and the record f commit together or not at
// all. While do runs, the row of the claim is locked, so that no other claim of the key succeeds. InTx does not call do
// if the claim is not granted. It records the value that do returns as the result in f. If do returns an error, InTx
// rolls back and returns that error.
//
// Callers with the same [Claim.Queue] wait for each other without occupying a connection. A *[StalledError] means that
// another transaction holds the lock. [ErrBusy] means that too many callers wait. Nothing was done in both cases.
//
// The transaction begins with the claim and commits with the record, which takes two round trips instead of four.
func (s *Store) InTx(ctx context.Context, c Claim, f Finish,
	do func(context.Context, Tx) (json.RawMessage, error)) (grant Grant, err error) {
	err = s.turns.do(ctx, cmp.Or(c.Queue, c.Key), func() error {
		grant, err = s.inTx(ctx, c, f, do)
		return err
	})
	return grant, err
}

// Stalled returns the queues of [Store.InTx] in this process that wait for the lock of another transaction, longest
// wait first.
func (s *Store) Stalled() []StalledError { return s.turns.stalled() }

func (s *Store) inTx(ctx context.Context, c Claim, f Finish,
	do func(context.Context, Tx) (json.RawMessage, error)) (Grant, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return Grant{}, fmt.Errorf("claim effect %s: %w", c.Key, err)
	}
	defer conn.Release() // this closes the connection if its transaction is still open
	grant, err := inTx(ctx, conn, c, f, do)
	if conn.Conn().PgConn().TxStatus() != 'I' {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = conn.Exec(undo, "rollback") // if this fails, Postgres rolls back when the connection ends
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
	// The row of the claim is locked until the transaction ends, so no other claim can have taken over.
	f.Key, f.Token, f.State, f.Result = c.Key, grant.Token, Done, result
	q = &pgx.Batch{}
	newBatch([]op{{finish: &f}}).queue(q)
	q.Queue("commit")
	if err := tx.SendBatch(ctx, q).Close(); err != nil {
		return grant, fmt.Errorf("record effect %s as %s: %w", f.Key, f.State, err)
	}
	return grant, nil
}

// ErrTakenOver means that the lease of a claim ended and another claim took over.
var ErrTakenOver = errors.New("the claim was taken over")

// Tx is a connection with an open transaction, or a pool. A pool executes each statement or batch in a transaction of
// its own.
type Tx interface {
	schema.DB
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Unrecordable reports whether Postgres rejected a record because of its content (SQLSTATE classes 22 and 23). Nothing
// was written, and Postgres would reject the same record again.
func Unrecordable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && len(pg.Code) == 5 && (pg.Code[:2] == "22" || pg.Code[:2] == "23")
}

func isExclusive(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == "effects_exclusive"
}
