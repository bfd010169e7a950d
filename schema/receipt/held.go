package receipt

import (
	"context"

	"github.com/pawlhq/pawl/schema"
)

const heldSQL = `
select i.n from unnest($1::text[], $2::text[], $3::text[], $4::text[]) with ordinality as i(provider, account, mode, event_id, n)
 where exists (select from receipts r where (r.provider, r.account, r.mode, r.event_id) = (i.provider, i.account, i.mode, i.event_id))`

var heldColumns = schema.ColumnsOf[Key](heldSQL)

// Held reports for each key whether a receipt with this key exists.
func (r Reader) Held(ctx context.Context, keys []Key) ([]bool, error) {
	found, err := schema.List[int](ctx, r.db, "read which events have a receipt", heldSQL, heldColumns.Args(keys)...)
	held := make([]bool, len(keys))
	for _, n := range found {
		held[n-1] = true
	}
	return held, err
}
