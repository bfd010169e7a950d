package receipt

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/schema"
)

// relaySQL inserts receipts that are due at once, for events that a receipt of another source runs. It skips receipts
// that exist. The identity of the new receipts is 'id': pawl made their IDs, so no other delivery is a replay of them.
const relaySQL = `
with input as materialized (` + insertInput + `
), fresh as (
    insert into receipts (` + insertedColumns + `, relay_of)
    select i.id, i.source, i.provider, i.account, i.mode, i.event_id, 'id', i.type, i.object_id, i.api_version, i.occurred_at, i.received_at,
           i.body_hash, i.secret_label, i.correlation_id, i.occurrence, i.hook, i.status, i.reason, false, now(), t.relay_of
      from input i join unnest($1::uuid[], $24::text[]) as t(id, relay_of) using (id)
      join receipts r on (r.provider, r.account, r.mode, r.event_id) = (i.provider, i.account, i.mode, t.relay_of)
     where r.source <> i.source and r.status <> 'ignored'
    on conflict (provider, account, mode, event_id) do nothing
    returning id
)
insert into receipt_bodies (receipt_id, headers, body)
select id, headers::json, body from unnest($1::uuid[], $18::text[], $19::bytea[]) as t(id, headers, body)
 where (id in (select id from fresh)) is true`

type relayRow struct {
	insertValues
	RelayOf string
}

var relayColumns = schema.ColumnsOf[relayRow](relaySQL)

// relayToo inserts a second receipt for each event that a receipt of another source runs, so that the destinations of
// in's source get the event as well. The ID of the second receipt is "ID~SOURCE". This receipt is only relayed.
//
// relayToo must commit before the answer, because the provider does not send a delivery again after a 2xx.
func (s *Store) relayToo(ctx context.Context, in *insertion, outcomes []Outcome) error {
	var rows []relayRow
	for i, o := range outcomes {
		if r := in.rows[i]; o.Duplicate && r.Status == Received {
			relayed := r.key.EventID
			r.key.EventID = ApartID(relayed, in.Source)
			rows = append(rows, relayRow{values(insertRow{row: &r, in: in}), relayed})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout+in.Size().Time())
	defer cancel()
	if _, err := s.pool.Exec(ctx, relaySQL, relayColumns.Args(rows)...); err != nil {
		return fmt.Errorf("insert receipts to relay: %w", err)
	}
	return nil
}
