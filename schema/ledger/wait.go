package ledger

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Some effects may start only after another effect, which this file calls the first effect. A run that waits for the
// first effect stores its workflow ID with the methods below. The run that settles the first effect then signals the
// waiting run.

// Wait records that an effect of a run waits for the first effect, and returns how long the run has waited. It may be
// called repeatedly. After Wait, the run must read the state of the first effect once more: a run that settled the
// first effect before Wait has not signalled this run.
func (s *Store) Wait(ctx context.Context, key, workflowID, first string) (waited time.Duration, err error) {
	return schema.One[time.Duration](ctx, s.pool, "record that effect "+key+" waits for "+first, waitSQL, key,
		workflowID, first)
}

// Waiting returns the workflow IDs of the runs that wait for one of the effects.
func (s *Store) Waiting(ctx context.Context, keys []string) ([]string, error) {
	return schema.List[string](ctx, s.pool, "list the runs that wait for effects", waitingSQL, keys)
}

// Woken deletes the record of a run that waited, after the run was woken. If the run has to wait longer, it calls Wait
// again.
func (s *Store) Woken(ctx context.Context, keys []string, workflowID string) error {
	return schema.Exec(ctx, s.pool, "forget that "+workflowID+" waits", wokenSQL, keys, workflowID)
}

// waitSQL updates a row that exists already, because [Store.Woken] may be about to delete it.
const waitSQL = `
insert into effect_waits (key, workflow_id, first) values ($1, $2, $3)
    on conflict (key, workflow_id) do update set first = excluded.first
returning now() - since`

const waitingSQL = `select distinct workflow_id from effect_waits where first = any($1)`

const wokenSQL = `delete from effect_waits where first = any($1) and workflow_id = $2`
