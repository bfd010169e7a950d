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
	At        time.Time `json:"recorded_at"`
	Actor     string    `json:"actor"`
	// Issuer and Subject identify a signed-in actor or a token.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	Action  string `json:"action"`
	Target  string `json:"target"`
	Reason  string `json:"reason"`
	// Before is the state that the operator saw. After is the requested state.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	// Hash is the chain's head after the action, in hex.
	Hash string `json:"hash"`
}

// Filter narrows a list. An empty field matches everything.
type Filter struct {
	Target, Actor, Action string
	// Since matches actions at this time or later. The zero time sets no bound.
	Since time.Time
	// OlderThan is the ID of a row. Only older rows match, so a caller can continue a list. 0 sets no bound.
	OlderThan int64
	// Limit is the maximum number of rows, the newest first.
	Limit int
}

const listSQL = `
select id, request_id, at, actor, issuer, subject, action, target, reason, before, after, encode(hash, 'hex') as hash
  from operator_actions
 where ($1 = '' or target = $1) and ($2 = '' or actor = $2) and ($3 = '' or action = $3) and at >= $4 and id < $5
 order by id desc limit $6`

// List returns the actions that match f, the newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]Row, error) {
	older := cmp.Or(f.OlderThan, math.MaxInt64)
	return schema.List[Row](ctx, s.pool, "list audit trail", listSQL, f.Target, f.Actor, f.Action, f.Since, older,
		f.Limit)
}
