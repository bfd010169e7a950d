package run

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// waitsForSettledSQL looks only at receipts that have tried one of the effects: effects share no other link.
const waitsForSettledSQL = `
select r.workflow_id from receipts r
 where r.id in (select a.receipt_id from effect_attempts a where a.key = any($1)) and r.id <> $2::uuid
   and r.status in ('needs_review', 'dead') and r.workflow_id <> '' and jsonb_array_length(r.waits -> 'effects') > 0
   and not exists (select from jsonb_array_elements(r.waits -> 'effects') w left join effects e on e.key = w ->> 'key'
                    where e.state is null or e.state not in ('done', 'skipped'))`

// WaitsForSettled returns the workflow IDs of other receipts' parked runs that wait for nothing but effects that are
// done or skipped by now, some of the keys among them.
func (s *Store) WaitsForSettled(ctx context.Context, receiptID string, keys []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, waitsForSettledSQL, keys, receiptID)
	if err != nil {
		return nil, fmt.Errorf("list the runs that wait for %d effects: %w", len(keys), err)
	}
	waiting, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the runs that wait for %d effects: %w", len(keys), err)
	}
	return waiting, nil
}
