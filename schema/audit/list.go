package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Row is one action of the trail.
type Row struct {
	// ID grows with time. Gaps between IDs mean nothing.
	ID        int64     `json:"id"`
	RequestID string    `json:"request_id"`
	At        time.Time `json:"at"`
	Actor     string    `json:"actor"`
	Action    string    `json:"action"`
	Target    string    `json:"target"`
	Reason    string    `json:"reason"`
	// Before is the state that the operator saw, After the state that the action asked for.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	// Hash is the chain's head after the action, in hex.
	Hash string `json:"hash"`
}

// Filter narrows a list; empty fields let everything pass.
type Filter struct {
	Target, Actor, Action string
	// Since lets pass actions at this time or later. The zero time sets no bound.
	Since time.Time
	// OlderThan is the ID of a row: those before it pass. It continues a list; 0 sets no bound.
	OlderThan int64
	// Limit is the most rows to return, the newest first.
	Limit int
}

const listSQL = `
select id, request_id, at, actor, action, target, reason, before, after, encode(hash, 'hex') as hash
  from operator_actions
 where ($1 = '' or target = $1) and ($2 = '' or actor = $2) and ($3 = '' or action = $3) and at >= $4 and id < $5
 order by id desc limit $6`

// List returns the actions that pass f, the newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]Row, error) {
	older := cmp.Or(f.OlderThan, math.MaxInt64)
	return schema.List[Row](ctx, s.pool, "list audit trail", listSQL, f.Target, f.Actor, f.Action, f.Since, older,
		f.Limit)
}
