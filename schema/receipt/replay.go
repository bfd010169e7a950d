package receipt

import (
	"context"
	"fmt"
)

// sameBytes tells whether receipt r has the bytes of event i under another ID. It is false for i's own event under an
// ID that ends with r's source, which may not speak for the event: see [ApartID].
const sameBytes = `r.provider = i.provider and r.body_hash = i.body_hash
             and r.identity <> 'id' and (not i.generic or r.source = i.source)
             and (r.account, r.mode, r.event_id) <> (i.account, i.mode, i.event_id)
             and (r.account, r.mode, r.event_id) <> (i.account, i.mode, i.event_id || '~' || r.source)`

// insertUnsignedSQL also looks for the same bytes under another ID. It runs in one transaction
// after lockHashesSQL: of two requests with the same bytes that come together, the second looks
// only when the first is committed.
//
// Only one event with the same bytes runs. One replay of each type is parked, up to 16 of them, since a person may
// know that it is an event of its own: Shopify sends one body under several topics. A replay shares the first
// receipt's body. Further replays count as duplicates of the parked one, or of the first if their type is not wanted:
// anybody who has one delivery can send it under any number of IDs.
var insertUnsignedSQL = `
with input as materialized (` + insertInput + `
), judged as materialized (
    select i.*, own.id as own_id, first.id as first_id, first.event_id as first_event_id, replay.id as replay_id
      from input i
      left join receipts own using (provider, account, mode, event_id)
      left join lateral (select r.id, r.event_id from receipts r where i.identity <> 'id' and not r.replayed and ` + sameBytes + ` limit 1) first on true
      left join lateral (
          select r.id from (select r.id, r.type, count(*) over () as kept from receipts r where first.id is not null and r.replayed and ` + sameBytes + `) r
           where r.type = i.type or kept >= 16 order by r.type = i.type desc limit 1) replay on true
), fresh as (
    insert into receipts (` + insertColumns + `)
    select id, source, provider, account, mode, event_id, identity, type, object_id, api_version,
           occurred_at, received_at, body_hash, secret_label, correlation_id,
           case when first_id is null then status else 'needs_review' end,
           coalesce('` + SuspectedReplay + `: same bytes as ' || first_event_id, reason), first_id is not null,
           now() + ` + lease + `
      from judged where first_id is null or status = 'received' and replay_id is null
    on conflict (provider, account, mode, event_id) do nothing
    returning id, status, reason, replayed
), ` + insertRest(`case when id not in (select id from fresh where replayed) then body end`,
	`judged i join receipts r on r.id = coalesce(i.own_id, i.replay_id, i.first_id)`, `i.own_id is not null`)

// insertCrowded inserts, one by one, the events whose bytes were in the flush under another ID. Those bytes are
// committed by now, so each insert finds them.
func (s *Store) insertCrowded(ctx context.Context, in *insertion, outcomes []Outcome) error {
	for i := range outcomes {
		if !outcomes[i].crowded {
			continue
		}
		alone := &insertion{Delivery: in.Delivery, header: in.header, rows: in.rows[i : i+1]}
		bounded, cancel := context.WithTimeout(ctx, s.timeout+alone.Size().Time())
		entered, err := s.flushInserts(bounded, []*insertion{alone})
		cancel()
		if err != nil {
			return fmt.Errorf("insert receipts: %w", err)
		}
		entered[0][0].EventID = outcomes[i].EventID
		if err := s.settleRest(ctx, alone, entered[0]); err != nil {
			return err
		}
		outcomes[i] = entered[0][0]
	}
	return nil
}
