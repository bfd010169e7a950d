package ledger

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Listed is an effect in a list.
type Listed struct {
	Key   string `json:"key"`
	Kind  string `json:"kind"`
	State string `json:"state"`
	// Attempts counts the attempts. Generation counts how often the effect was started, from 1; each repetition
	// requires a decision of a person.
	Attempts   int    `json:"attempts"`
	Generation int    `json:"generation"`
	LastError  string `json:"last_error"`
	ErrorClass string `json:"error_class"`
	// ClaimedAt is the time of the first claim. DoneAt is nil while the effect is not done.
	ClaimedAt time.Time  `json:"claimed_at"`
	DoneAt    *time.Time `json:"done_at"`
	// EventID and Receipt identify the event that claimed the effect.
	EventID string          `json:"event_id"`
	Receipt string          `json:"receipt"`
	Result  json.RawMessage `json:"result"`
}

// Filter narrows a list of effects. An empty field matches everything.
type Filter struct {
	// Prefix is the beginning of the keys to list, such as "receipt-email:", or a whole key.
	Prefix string
	// Open selects unfinished effects with this state: claimed, failed or uncertain.
	Open string
	// After is the last key of the previous page.
	After string
	// Limit is the maximum number of effects.
	Limit int
}

const (
	listed = `select key, kind, state, attempts, generation, error as last_error, error_class, claimed_at, done_at, event_id, receipt_id::text as receipt, result
  from effects`
	page = ` where key > $1 and key >= $2 and key < $2 || chr(1114111) order by key limit $3`
)

// listSQL reads the keys in order and stops at the limit.
const listSQL = listed + page

// listOpenSQL reads the effects of one unfinished state through a partial index, because few effects are unfinished at
// a time.
const listOpenSQL = `
with open as materialized (select key from effects where state = $4 and state in ('claimed', 'failed', 'uncertain')),
     page as materialized (select key from open` + page + `)
` + listed + ` join page using (key) order by key`

// List returns the effects that match f, ordered by key.
func List(ctx context.Context, db schema.Querier, f Filter) ([]Listed, error) {
	sql, args := listSQL, []any{f.After, f.Prefix, f.Limit}
	if f.Open != "" {
		sql, args = listOpenSQL, append(args, f.Open)
	}
	return schema.List[Listed](ctx, db, "list effects", sql, args...)
}
