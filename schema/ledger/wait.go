package ledger

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Some effects must come after others. A run that waits for such an earlier effect, the first, records that here, and
// the run that settles the first wakes it.

// Wait records that a run waits with an effect for the first, and returns how long it has waited. It may be called
// again. The run must read the first once more afterwards, because a run that settled it before found no waiter to
// wake.
func (s *Store) Wait(ctx context.Context, key, workflowID, first string) (waited time.Duration, err error) {
	return schema.One[time.Duration](ctx, s.pool, "record that effect "+key+" waits for "+first, waitSQL, key,
		workflowID, first)
}

// Waiting returns the workflow IDs of the runs that wait for effects.
func (s *Store) Waiting(ctx context.Context, keys []string) ([]string, error) {
	return schema.List[string](ctx, s.pool, "list the runs that wait for effects", waitingSQL, keys)
}

// Woken deletes the record that a run waits for effects, after it was woken. A run that still has to wait calls Wait
// again.
func (s *Store) Woken(ctx context.Context, keys []string, workflowID string) error {
	return schema.Exec(ctx, s.pool, "forget that "+workflowID+" waits", wokenSQL, keys, workflowID)
}

// waitSQL also writes an existing row: [Store.Woken] may be about to delete it.
const waitSQL = `
insert into effect_waits (key, workflow_id, first) values ($1, $2, $3)
    on conflict (key, workflow_id) do update set first = excluded.first
returning now() - since`

const waitingSQL = `select distinct workflow_id from effect_waits where first = any($1)`

const wokenSQL = `delete from effect_waits where first = any($1) and workflow_id = $2`
