package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// forFlowsSQL reads from an index that contains neither events with a receipt nor published events that no flow
// selected. It does not lock the rows: two readers of the same events store the same receipts in the same order.
const forFlowsSQL = `
select ` + eventColumns + ` from outbox e
 where e.flows_at is null and e.type = any($1::text[]) and e.only_to = '' order by e.id limit $2`

// ForFlows returns the oldest events of the selected types that have no receipt yet. It does not wait for destinations:
// the events may be published or not. An event for only one destination is not for flows.
func (s *Store) ForFlows(ctx context.Context, types []string, limit int) ([]Event, error) {
	return schema.Rows(ctx, s.pool, "read outbox events for flows", pgx.RowToStructByPos[Event], forFlowsSQL, types,
		limit)
}

// receivedSQL has a subquery that keeps Postgres from scanning the index of events without a receipt.
const receivedSQL = `
update outbox o set flows_at = now() where o.id = any($1) and (select o.flows_at is null)`

// Received records that events have a receipt for their flow.
func (s *Store) Received(ctx context.Context, ids []int64) error {
	return schema.Exec(ctx, s.pool, "record outbox events for flows", receivedSQL, ids)
}
