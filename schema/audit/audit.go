// Package audit keeps what operators did. Each row's hash covers the row before it: a changed, removed
// or reordered row shows in [Store.Verify]. A full rewrite of the chain shows only against a head that
// was kept elsewhere.
package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{"append": appendSQL, "before": beforeSQL, "all": allSQL}

// Store is the audit trail in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the trail of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Action is one deed of an operator.
type Action struct {
	// RequestID makes the record idempotent: a second one with the same ID changes nothing.
	RequestID string
	Actor     string
	// Action is what was done: "retry", "skip" or "compensate" of a parked run, "run" of an event, "admit" of a
	// refused request.
	Action string
	// Target is what it was done to: an event ID, or the ID of a refused request.
	Target string
	Reason string
	// Before and After are what the operator saw and what was to become of it.
	Before, After map[string]any
}

// appendSQL extends the chain in one statement, so that no writer that is gone holds it. Of two that extend it at once
// from the same row, prev_hash lets one through.
const appendSQL = `
insert into operator_actions (request_id, at, actor, action, target, reason, before, after, prev_hash, hash)
select $1, $2, $3, $4, $5, $6, $7, $8, head.hash, sha256(head.hash || $9::bytea)
  from (select coalesce((select hash from operator_actions order by id desc limit 1), ''::bytea) as hash) head
    on conflict (request_id) do nothing`

const allSQL = `
select id, request_id, at, actor, action, target, reason, before, after, prev_hash, hash from operator_actions order by id`

// Append adds the action to the chain. It may be called twice with one RequestID.
func (s *Store) Append(ctx context.Context, a Action) error {
	e := entry{RequestID: a.RequestID, At: time.Now().UTC().Truncate(time.Microsecond), Actor: a.Actor, Action: a.Action, Target: a.Target, Reason: a.Reason}
	var err error
	if e.Before, err = canonical(a.Before); err != nil {
		return fmt.Errorf("encode before of %s: %w", a.RequestID, err)
	}
	if e.After, err = canonical(a.After); err != nil {
		return fmt.Errorf("encode after of %s: %w", a.RequestID, err)
	}
	for extended := true; extended; {
		_, err = s.pool.Exec(ctx, appendSQL, e.RequestID, e.At, e.Actor, e.Action, e.Target, e.Reason, e.Before, e.After, e.digest())
		extended = wasExtended(err) // by another: from there, then
	}
	if err != nil {
		return fmt.Errorf("append %s by %s to the audit trail: %w", a.Action, a.Actor, err)
	}
	return nil
}

// wasExtended reports whether somebody else has extended the chain at the same moment.
func wasExtended(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == "operator_actions_prev_hash_key"
}

const beforeSQL = `select before from operator_actions where request_id = $1`

// Before returns what the operator saw when the action was recorded, and false where no such action is.
func (s *Store) Before(ctx context.Context, requestID string) (before json.RawMessage, found bool, err error) {
	err = s.pool.QueryRow(ctx, beforeSQL, requestID).Scan(&before)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s from the audit trail: %w", requestID, err)
	}
	return before, true, nil
}

// ErrBroken says that the chain has been tampered with; the wrapped text names the first bad row.
var ErrBroken = errors.New("audit chain is broken")

// Verify walks the chain. It returns the head, which is the last row's hash in hex and is to be kept elsewhere, and the
// number of rows. kept is the head of an earlier call, "" for none. The error is [ErrBroken] at the first row that does
// not follow from the one before, and where no row has the hash that was kept.
func (s *Store) Verify(ctx context.Context, kept string) (head string, rows int, err error) {
	all, err := s.pool.Query(ctx, allSQL)
	if err != nil {
		return "", 0, fmt.Errorf("read audit trail: %w", err)
	}
	entries, err := pgx.CollectRows(all, pgx.RowToStructByName[entry])
	if err != nil {
		return "", 0, fmt.Errorf("read audit trail: %w", err)
	}
	var prev []byte
	found := kept == ""
	for _, e := range entries {
		if !bytes.Equal(e.PrevHash, prev) || !bytes.Equal(e.Hash, e.hash()) {
			return "", 0, fmt.Errorf("%w at row %d (%s by %s)", ErrBroken, e.ID, e.Action, e.Actor)
		}
		prev = e.Hash
		found = found || hex.EncodeToString(e.Hash) == strings.ToLower(kept)
	}
	if !found {
		return "", 0, fmt.Errorf("%w: none of its %d rows has the hash %.64q", ErrBroken, len(entries), kept)
	}
	return hex.EncodeToString(prev), len(entries), nil
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
		e.RequestID, e.At.UTC().Format(time.RFC3339Nano), e.Actor, e.Action, e.Target, e.Reason, normal(e.Before), normal(e.After),
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

// normal undoes what jsonb does to spacing and order of keys, so that a row hashes the same when it
// comes back.
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
