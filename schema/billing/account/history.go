package account

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Change is a change of an account's access, as subscribers were told of it.
type Change struct {
	At time.Time `json:"at"`
	// Before is nil for the first change that is known. Neither has Held.
	Before *Access `json:"before"`
	After  Access  `json:"after"`
	// Event is the one that has moved it, or that made something due; "" where none has. Why says what did, in words.
	Event string `json:"event"`
	Why   string `json:"why"`
}

// MostChanges is how many of an account's changes are shown, the newest.
const MostChanges = 24

const changesSQL = `
select o.created_at, o.data, split_part(o.effect_key, ':', 1), coalesce(r.type, '')
  from outbox o left join receipts r on r.id = o.receipt_id
 where o.type = 'access.changed' and o.mode = $1 and o.account = $2 order by o.id desc limit $3`

// changes returns the newest changes of an account's access, the newest first.
func changes(ctx context.Context, tx pgx.Tx, of Name) ([]Change, error) {
	all, err := schema.Rows(ctx, tx, "read history", func(row pgx.CollectableRow) (c Change, err error) {
		var told struct {
			Access
			Event string `json:"source_event"`
		}
		var by, eventType string
		if err := row.Scan(&c.At, &told, &by, &eventType); err != nil {
			return c, err
		}
		c.After, c.Why = told.Access, why(by, eventType)
		if !strings.HasPrefix(told.Event, "operator-") {
			c.Event = told.Event
		}
		return c, nil
	}, changesSQL, of.Mode, of.ID, MostChanges+1)
	for i := range len(all) - 1 {
		all[i].Before = &all[i+1].After
	}
	return all[:min(len(all), MostChanges)], err
}

// why says how access was moved, by the kind of the effect that did, and the type of its event.
func why(kind, eventType string) string {
	switch kind {
	case "apply-facts":
		return eventType
	case "apply-due":
		return "its time had come, after " + eventType
	case "hold-account":
		return "a person held it back"
	case "release-account":
		return "a person gave it back"
	case "withhold-grant":
		return "its effect was refused"
	}
	return "what was told is read anew: " + kind
}
