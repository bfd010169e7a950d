package receipt

import (
	"context"
	"fmt"
)

// sameBytes is true if receipt r has the same bytes as event i and another ID. It is false if r has the ID of i with
// the name of r's source appended. Such a receipt only relays the same event; see [ApartID].
const sameBytes = `r.provider = i.provider and r.body_hash = i.body_hash
             and r.identity <> 'id' and (not i.generic or r.source = i.source)
             and (r.account, r.mode, r.event_id) <> (i.account, i.mode, i.event_id)
             and (r.account, r.mode, r.event_id) <> (i.account, i.mode, i.event_id || '~' || r.source)`

// sharing is the time since when an event must have been received for a suspected replay to share its payload. A replay
// of an older event stores its own, because the payload of the older event may have expired. Package retention keeps
// every payload twice as long.
const sharing = `now() - interval '7 days'`

// sameTopic is true if receipt r has the same topic as event i and came through the same webhook subscription.
const sameTopic = `r.type = i.type and r.hook = i.hook`

// relayed is true if event i, which has the same bytes as receipt r, is relayed with a mark instead of parked.
// Providers send one body under several topics, and to several subscriptions of one URL. A destination must accept
// repeated events, because relays are delivered at least once. An event with a flow must have a signed ID or be
// approved by a person.
const relayed = `i.relay_only and (r.account, r.mode) = (i.account, i.mode)
             and (r.type <> i.type or r.hook <> i.hook and r.hook <> '' and i.hook <> '')`

// insertUnsignedSQL also searches for receipts with the same bytes and another ID. It runs in one transaction after
// lockHashesSQL. If two requests with the same bytes arrive together, the second one searches after the first is
// committed.
//
// Two deliveries are duplicates if bytes, topic and the provider's event ID are equal and they are at most ten minutes
// apart. A provider sends one event to each subscription of a URL.
//
// Any other delivery with the same bytes is a suspected replay. It is relayed if relayed is true, otherwise parked. For
// each topic and subscription, one replay is stored, up to 16 in total. A stored replay shares the body of the first
// receipt if that is young enough. Further replays count as duplicates of the stored replay. If their type is not
// wanted, they count as duplicates of the first receipt. These limits exist because an attacker with one delivery can
// send it under any number of IDs.
var insertUnsignedSQL = `
with input as materialized (` + insertInput + `
), judged as materialized (
    select i.*, own.id as own_id, twin.id as twin_id, first.id as first_id, first.event_id as first_event_id, replay.id as replay_id,
           first.relayed, coalesce(first.received_at > ` + sharing + `, false) as shares
      from input i
      left join receipts own using (provider, account, mode, event_id)
      left join lateral (
          select r.id from receipts r
           where i.identity <> 'id' and i.occurrence <> '' and r.occurrence = i.occurrence and r.type = i.type and ` + sameBytes + `
             and (r.account, r.mode) = (i.account, i.mode)
             and r.received_at between i.received_at - interval '10 minutes' and i.received_at + interval '10 minutes'
           limit 1) twin on true
      left join lateral (
          select r.id, r.event_id, r.received_at, ` + relayed + ` as relayed from receipts r
           where i.identity <> 'id' and not r.replayed and ` + sameBytes + `
           order by ` + sameTopic + ` desc limit 1) first on true
      left join lateral (
          select r.id from (select r.id, r.type, r.hook, count(*) over () as kept from receipts r where first.id is not null and r.replayed and ` + sameBytes + `) r
           where ` + sameTopic + ` or kept >= 16 order by ` + sameTopic + ` desc limit 1) replay on true
), fresh as (
    insert into receipts (` + insertedColumns + `)
    select id, source, provider, account, mode, event_id, identity, type, object_id, api_version,
           occurred_at, received_at, body_hash, secret_label, correlation_id, occurrence, hook,
           case when first_id is null or relayed then status else 'needs_review' end,
           case when first_id is null or relayed then reason else '` + SuspectedReplay + `: same bytes as ' || first_event_id end,
           first_id is not null, now() + ` + lease + `
      from judged where twin_id is null and (first_id is null or status = 'received' and replay_id is null)
    on conflict (provider, account, mode, event_id) do nothing
    returning id, status, reason, replayed
), ` + insertRest(`case when id not in (select f.id from fresh f join judged j using (id) where j.shares) then body end`,
	`judged i join receipts r on r.id = coalesce(i.own_id, i.twin_id, i.replay_id, i.first_id)`, `i.own_id is not null`)

// insertCrowded inserts the events that were left out of a flush, because the flush contained another event with the
// same bytes and another ID. The flush is committed, so each insert finds that other event. The events are inserted one
// at a time.
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
