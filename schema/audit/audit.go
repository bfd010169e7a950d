// Package audit keeps what operators did. Each row's hash covers the row before it: a changed, removed
// or reordered row shows in [Store.Verify]. A full rewrite of the chain shows only against a head that
// was kept elsewhere.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store is the audit trail in Postgres.
type Store struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	// page is how many rows Verify holds at once.
	page int
}

// New returns the trail of a migrated database. Each action is logged to log with the chain's new head: logs that are
// kept elsewhere show whether somebody has rewritten the chain or cut off its end.
func New(pool *pgxpool.Pool, log *slog.Logger) *Store { return &Store{pool, log, verifyPage} }

// Action is one action of an operator.
type Action struct {
	// RequestID makes the record idempotent: a second one with the same ID changes nothing.
	RequestID string
	Actor     string
	// Action is the verb: for an event "retry", "skip", "compensate", "done", "resend", "approve", "reject", "run" or
	// "replay"; for a refused request "admit"; and so on.
	Action string
	// Target is the ID of an event, of a refused request, of a job or of an object. It is logged, and must hold no
	// personal data.
	Target string
	Reason string
	// Before is the state that the operator saw, After the state that the action asked for.
	Before, After map[string]any
}

// appendSQL extends the chain in one statement, so that a writer that dies keeps no lock. prev_hash is unique: only
// one of two concurrent writers extends the same row.
const appendSQL = `
insert into operator_actions (request_id, at, actor, action, target, reason, before, after, prev_hash, hash)
select $1, $2, $3, $4, $5, $6, $7, $8, head.hash, sha256(head.hash || $9::bytea)
  from (select coalesce((select hash from operator_actions order by id desc limit 1), ''::bytea) as hash) head
    on conflict (request_id) do nothing
returning encode(hash, 'hex')`

// Append adds the action to the chain and logs it with the chain's new head. It may be called twice with one RequestID:
// the second call adds nothing.
func (s *Store) Append(ctx context.Context, a Action) error {
	_, err := s.appendBy(ctx, a, func(ctx context.Context, sql string, args []any) (string, error) {
		return newHead(s.pool.QueryRow(ctx, sql, args...))
	})
	return err
}

// AppendWith adds the action to the chain in one transaction with what change does to the database: both are
// committed, or neither. It returns false, and change is not called, if an action with its RequestID is recorded
// already. change may be nil. It may be called several times: at most one of its transactions is committed. Its error
// is returned as it is.
func (s *Store) AppendWith(ctx context.Context, a Action, change func(context.Context, pgx.Tx) error) (added bool,
	err error) {
	var changed error
	added, err = s.appendBy(ctx, a, func(ctx context.Context, sql string, args []any) (head string, err error) {
		changed = nil
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var err error
			if head, err = newHead(tx.QueryRow(ctx, sql, args...)); err == nil && head != "" && change != nil {
				changed = change(ctx, tx)
				err = changed
			}
			return err
		})
		return head, err
	})
	if changed != nil {
		return false, changed
	}
	return added, err
}

// newHead reads the head after an action was added, "" if the action was there already.
func newHead(row pgx.Row) (head string, err error) {
	if err = row.Scan(&head); errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return head, err
}

// appendBy adds the action by exec, which returns the head after it, and logs it once it is committed.
func (s *Store) appendBy(
	ctx context.Context, a Action, exec func(ctx context.Context, sql string, args []any) (head string, err error),
) (added bool, err error) {
	var head string
	e := entry{RequestID: a.RequestID, At: time.Now().UTC().Truncate(time.Microsecond), Actor: a.Actor,
		Action: a.Action, Target: a.Target, Reason: a.Reason}
	if e.Before, err = canonical(a.Before); err != nil {
		return false, fmt.Errorf("encode before of %s: %w", a.RequestID, err)
	}
	if e.After, err = canonical(a.After); err != nil {
		return false, fmt.Errorf("encode after of %s: %w", a.RequestID, err)
	}
	for extended := true; extended; {
		head, err = exec(ctx, appendSQL,
			[]any{e.RequestID, e.At, e.Actor, e.Action, e.Target, e.Reason, e.Before, e.After, e.digest()})
		extended = wasExtended(err) // by another: from there, then
	}
	if err != nil {
		return false, fmt.Errorf("append %s by %s to the audit trail: %w", a.Action, a.Actor, err)
	}
	if head == "" { // it is there
		return false, nil
	}
	s.log.InfoContext(ctx, "audit", "request_id", a.RequestID, "actor", a.Actor, "action", a.Action, "target",
		a.Target, "head", head)
	return true, nil
}

const headSQL = `select encode(hash, 'hex') from operator_actions order by id desc limit 1`

// Watch logs the trail's head once, and then each time that somebody has moved it, until ctx ends. It looks every so
// often. A command line records what its operator decides, and only there is that logged: the log of a process is where
// heads are safe from whoever could cut off the end.
func (s *Store) Watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for known := ""; ; {
		head, err := newHead(s.pool.QueryRow(ctx, headSQL))
		if err == nil && head != "" && head != known { // a database that is away is told of elsewhere
			s.log.InfoContext(ctx, "audit", "head", head)
			known = head
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// wasExtended reports whether another writer extended the chain at the same moment.
func wasExtended(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == "operator_actions_prev_hash_key"
}

// entry is one row.
type entry struct {
	ID        int64
	RequestID string
	At        time.Time
	Actor     string
	Action    string
	Target    string
	Reason    string
	Before    json.RawMessage
	After     json.RawMessage
	PrevHash  []byte
	Hash      []byte
}

// hash covers the previous hash and every field.
func (e entry) hash() []byte {
	sum := sha256.Sum256(slices.Concat(e.PrevHash, e.digest()))
	return sum[:]
}

// digest covers every field of the action. JSON of a list of strings keeps the fields apart whatever they contain.
func (e entry) digest() []byte {
	fields := []string{
		e.RequestID, e.At.UTC().Format(time.RFC3339Nano), e.Actor, e.Action, e.Target, e.Reason, normal(e.Before),
		normal(e.After),
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		panic("encode audit fields: " + err.Error()) // strings always encode
	}
	sum := sha256.Sum256(encoded)
	return sum[:]
}

// canonical encodes m with sorted keys.
func canonical(m map[string]any) (json.RawMessage, error) {
	if m == nil {
		m = map[string]any{}
	}
	return json.Marshal(m)
}

// normal undoes jsonb's changes of spacing and key order, so that a stored row has the same hash.
func normal(raw json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		return string(raw)
	}
	encoded, err := json.Marshal(m)
	if err != nil {
		return string(raw)
	}
	return string(encoded)
}
