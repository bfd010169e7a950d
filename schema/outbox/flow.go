package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// forFlowsSQL reads from an index that contains neither events with a receipt nor events that PassFlows has recorded.
// It does not lock the rows: two readers of the same events store the same receipts in the same order.
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

// passFlowsSQL reads from an index of the published events without flows_at.
const passFlowsSQL = `
update outbox o set flows_at = now()
  from (select id from outbox
         where flows_at is null and published_at < now() - $2::interval and (only_to <> '' or type <> all($1::text[]))
         order by published_at limit $3 for update skip locked) passed
 where o.id = passed.id`

// PassFlows records that at most limit events start no flow: published events older than age, unless their type is in
// types. It returns how many it recorded. Younger events wait, because during a deployment another process can have a
// flow that selects them.
func (s *Store) PassFlows(ctx context.Context, types []string, age time.Duration, limit int) (int64, error) {
	tag, err := s.pool.Exec(ctx, passFlowsSQL, append([]string{}, types...), age, limit) // not null
	if err != nil {
		return 0, fmt.Errorf("record outbox events without a flow: %w", err)
	}
	return tag.RowsAffected(), nil
}
