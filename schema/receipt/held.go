package receipt

import (
	"context"

	"github.com/pawlhq/pawl/schema"
)

const heldSQL = `
select i.n from unnest($1::text[], $2::text[], $3::text[], $4::text[]) with ordinality as i(provider, account, mode, event_id, n)
 where exists (select from receipts r where (r.provider, r.account, r.mode, r.event_id) = (i.provider, i.account, i.mode, i.event_id))`

var heldColumns = schema.ColumnsOf[Key](heldSQL)

// Held returns, for each key, whether its receipt exists.
func (r Reader) Held(ctx context.Context, keys []Key) ([]bool, error) {
	found, err := schema.List[int](ctx, r.db, "read which events are held", heldSQL, heldColumns.Args(keys)...)
	held := make([]bool, len(keys))
	for _, n := range found {
		held[n-1] = true
	}
	return held, err
}
