package account

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Change is a published change of an account's access.
type Change struct {
	At time.Time `json:"changed_at"`
	// Before is null for the first known change. Neither state contains Held.
	Before *Access `json:"before"`
	After  Access  `json:"after"`
	// Event is the ID of the event that caused the change, or that scheduled it. It may be empty. Reason describes the
	// cause in words.
	Event  string `json:"event"`
	Reason string `json:"reason"`
}

// MostChanges is the maximum number of changes in an account.
const MostChanges = 24

const changesSQL = `
select o.created_at, o.data, split_part(o.effect_key, ':', 1), coalesce(r.type, '')
  from outbox o left join receipts r on r.id = o.receipt_id
 where o.type = 'access.changed' and o.mode = $1 and o.account = $2 order by o.id desc limit $3`

// changes returns the newest changes of an account's access, newest first.
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
		c.After, c.Reason = told.Access, why(by, eventType)
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

// why describes the cause of a change, by the kind of the effect that made it and the type of the event.
func why(kind, eventType string) string {
	switch kind {
	case "apply-facts":
		return eventType
	case "apply-due":
		return "a scheduled action ran, after " + eventType
	case "hold-account":
		return "a person put the account on hold"
	case "release-account":
		return "a person released the account"
	case "withhold-grant":
		return "a sink refused the order"
	}
	return "the account was recomputed: " + kind
}
