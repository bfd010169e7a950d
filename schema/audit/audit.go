// Package audit stores the actions of operators. The hash of each row covers the row before it, so that [Store.Verify]
// detects a changed, removed or reordered row. If the whole chain was rewritten, Verify detects it only by comparing
// with a head that was stored elsewhere.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
	// page is how many rows Verify reads at once.
	page int
}

// New returns the trail of a migrated database. It logs each action with the chain's new head. Logs that are stored
// elsewhere reveal a rewritten or truncated chain.
func New(pool *pgxpool.Pool, log *slog.Logger) *Store { return &Store{pool, log, verifyPage} }

// Action is one action of an operator.
type Action struct {
	// RequestID makes Append idempotent: a second action with the same ID changes nothing.
	RequestID string
	Actor     string
	// Issuer and Subject identify a signed-in actor or a token. They are "" for the command line and for pawl.
	Issuer, Subject string
	// Action is the verb of the operator's action, for example "retry", "approve" or "replay" for an event, and "admit"
	// for a rejected request.
	Action string
	// Target is the ID of an event, a rejected request, a job or an object. It is logged and must not contain personal
	// data.
	Target string
	Reason string
	// Before is the state that the operator saw. After is the requested state.
	Before, After map[string]any
	// Arguments is a hash of the request's arguments. It is nil if the request has no arguments.
	Arguments []byte
}

// appendSQL adds a row in one statement, so that a writer that dies holds no lock. prev_hash is unique. If two
// concurrent writers read the same last row, only one writer succeeds. Postgres sets the time as the default of the
// column, because no role may choose it. The hash covers this time.
const appendSQL = `
insert into operator_actions (request_id, actor, issuer, subject, action, target, reason, before, after, arguments, prev_hash, hash)
select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, head.hash,
       sha256(head.hash || $11::bytea || int8send((extract(epoch from now()) * 1000000)::bigint))
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

// AppendWith adds the action to the chain and calls change in one transaction: both are committed, or neither. If an
// action with its RequestID is already recorded, AppendWith returns false and does not call change. change may be nil.
// AppendWith may call change several times, but commits at most one of the transactions. It returns the error of change
// unchanged.
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

// newHead returns the head after an action was added, or "" if the action already existed.
func newHead(row pgx.Row) (head string, err error) {
	if err = row.Scan(&head); errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return head, err
}

// appendBy adds the action by calling exec, which returns the new head. It logs the action after the commit.
func (s *Store) appendBy(
	ctx context.Context, a Action, exec func(ctx context.Context, sql string, args []any) (head string, err error),
) (added bool, err error) {
	var head string
	e := entry{RequestID: a.RequestID, Actor: a.Actor, Issuer: a.Issuer, Subject: a.Subject, Action: a.Action,
		Target: a.Target, Reason: a.Reason, Arguments: append([]byte{}, a.Arguments...)}
	if e.Before, err = canonical(a.Before); err != nil {
		return false, fmt.Errorf("encode the state before %s: %w", a.RequestID, err)
	}
	if e.After, err = canonical(a.After); err != nil {
		return false, fmt.Errorf("encode the state after %s: %w", a.RequestID, err)
	}
	for extended := true; extended; {
		head, err = exec(ctx, appendSQL,
			[]any{e.RequestID, e.Actor, e.Issuer, e.Subject, e.Action, e.Target, e.Reason, e.Before, e.After,
				e.Arguments, e.digest()})
		extended = wasExtended(err) // another writer was faster: try again after its row
	}
	if err != nil {
		return false, fmt.Errorf("append %s by %s to the audit trail: %w", a.Action, a.Actor, err)
	}
	if head == "" { // already recorded
		return false, nil
	}
	s.log.InfoContext(ctx, "audit", "request_id", a.RequestID, "actor", a.Actor, "action", a.Action, "target",
		a.Target, "head", head)
	return true, nil
}

const headSQL = `select encode(hash, 'hex') from operator_actions order by id desc limit 1`

// Watch logs the trail's head at the start and after each change, until ctx ends. It reads the head once per interval.
// The command line logs only on the operator's machine, so the operator could remove log lines. An operator cannot
// change the log of a server process, so a truncated chain can be detected by comparing it with this log.
func (s *Store) Watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for known := ""; ; {
		head, err := newHead(s.pool.QueryRow(ctx, headSQL))
		if err == nil && head != "" && head != known { // an unreachable database is reported elsewhere
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

// wasExtended reports whether err means that another writer added a row at the same time.
func wasExtended(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == "operator_actions_prev_hash_key"
}

// entry is one row of the trail.
type entry struct {
	ID        int64
	RequestID string
	At        time.Time
	Actor     string
	Issuer    string
	Subject   string
	Action    string
	Target    string
	Reason    string
	Before    json.RawMessage
	After     json.RawMessage
	Arguments []byte
	PrevHash  []byte
	Hash      []byte
}

// hash covers the previous hash, every field and the time in microseconds.
func (e entry) hash() []byte {
	at := binary.BigEndian.AppendUint64(nil, uint64(e.At.UnixMicro()))
	sum := sha256.Sum256(slices.Concat(e.PrevHash, e.digest(), at))
	return sum[:]
}

// digest covers every field of the action except its time. It encodes the fields as a JSON list, so that two different
// actions never have the same encoding.
func (e entry) digest() []byte {
	fields := []string{
		e.RequestID, e.Actor, e.Action, e.Target, e.Reason, normal(e.Before),
		normal(e.After), e.Issuer, e.Subject, hex.EncodeToString(e.Arguments),
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		panic("encode audit fields: " + err.Error()) // encoding strings cannot fail
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

// normal returns JSON without the differences that jsonb makes (spacing and key order), so that a row has the same hash
// after it was stored and read.
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
