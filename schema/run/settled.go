package run

import (
	"context"

	"github.com/pawlhq/pawl/schema"
)

// waitsForSettledSQL reads only receipts that have tried one of the effects, because nothing else links a receipt to an
// effect.
const waitsForSettledSQL = `
select r.workflow_id from receipts r
 where r.id in (select a.receipt_id from effect_attempts a where a.key = any($1)) and r.id <> $2::uuid
   and r.status in ('needs_review', 'dead') and r.workflow_id <> '' and jsonb_array_length(r.waits -> 'effects') > 0
   and not exists (select from jsonb_array_elements(r.waits -> 'effects') w left join effects e on e.key = w ->> 'key'
                    where e.state is null or e.state not in ('done', 'skipped'))`

// WaitsForSettled returns the workflow IDs of parked runs of other receipts that can continue: all effects that they
// wait for are done or skipped by now. At least one of these effects has one of the keys.
func (s *Store) WaitsForSettled(ctx context.Context, receiptID string, keys []string) ([]string, error) {
	return schema.List[string](ctx, s.db, "list the runs that wait for effects", waitsForSettledSQL, keys, receiptID)
}
