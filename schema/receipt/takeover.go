package receipt

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// wantsOver is true if event i takes over the receipt r that has its ID: r's source ignored the event, and i's source
// accepts it. It is false if i is another event. It is also false if i has the same bytes and another type. The type
// is then unsigned, and an attacker with the ignored bytes could send them under a wanted type.
const wantsOver = `i.status <> 'ignored' and ` + notWanted + `
        and case when r.body_hash = i.body_hash then r.type = i.type else i.identity <> 'bytes' end`

// notWanted is true if receipt r was ignored because its source does not accept the event. It uses a subquery for the
// reason given at [schema.Handling].
const notWanted = `r.status = (select 'ignored') and r.reason_code = any((select array['` + ModeIgnored + `', '` +
	AccountIgnored + `', '` + TypeIgnored + `'])::text[])`

// takeOverSQL locks the receipts in the order of their IDs, like every statement in this package that changes several
// receipts. An ignored event was not checked for a replay. takeOverSQL therefore searches for the same bytes under
// another ID, except in ignored receipts and suspected replays. It replaces bodies without an upsert, because an upsert
// requires the right to read the table, which an ingress must not have.
const takeOverSQL = `
with input as materialized (` + insertInput + `
), held as materialized (
    select i.*, r.id as held_id, r.source as was_source, r.received_at as was_received_at, r.body_hash as was_body_hash, r.secret_label as was_secret_label
      from input i join receipts r using (provider, account, mode, event_id)
     where ` + wantsOver + `
     order by r.id for no key update of r
), judged as materialized (
    select i.*, same.event_id as same, same.relayed, coalesce(same.received_at > ` + sharing + `, false) as shares from held i
      left join lateral (
          select r.event_id, r.received_at, ` + relayed + ` as relayed from receipts r
           where i.identity <> 'id' and i.status = 'received' and r.provider = i.provider and r.body_hash = i.body_hash
             and r.identity <> 'id' and (not i.generic or r.source = i.source)
             and r.id <> i.held_id and r.status <> 'ignored' and not r.replayed
           order by ` + sameTopic + ` desc limit 1) same on true
), kept as (
    insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label, outcome)
    select held_id, was_source, was_received_at, was_body_hash, was_secret_label, 'ignored' from judged
), bodies as (
    select held_id, t.headers::json as headers, case when not shares then t.body end as body
      from judged join unnest($1::uuid[], $18::text[], $19::bytea[]) as t(id, headers, body) using (id)
), replaced as (
    update receipt_bodies b set headers = n.headers, body = n.body from bodies n where b.receipt_id = n.held_id returning b.receipt_id
), erased as (
    insert into receipt_bodies (receipt_id, headers, body) select * from bodies where held_id not in (select receipt_id from replaced)
)
update receipts r
   set source = j.source, identity = j.identity, type = j.type, object_id = j.object_id, api_version = j.api_version,
       occurred_at = j.occurred_at, received_at = j.received_at, body_hash = j.body_hash, secret_label = j.secret_label,
       correlation_id = j.correlation_id, occurrence = j.occurrence, hook = j.hook,
       status = case when same is null or relayed then j.status else 'needs_review' end,
       reason = case when same is null or relayed then j.reason else '` + SuspectedReplay + `: same bytes as ' || same end,
       replayed = same is not null,
       dispatch_at = now() + ` + lease + `, updated_at = now()
  from judged j where r.id = j.held_id
returning j.id, r.id, r.status, r.reason`

// takeOver lets events of in take over the receipts that have their IDs. The source of in accepts these events, but
// the source of the first delivery does not: it accepts other types, other accounts or another mode. Both may be the
// same source, if its list of types has grown since the first delivery.
//
// The bytes of a source that does not want an event never run as this event. So the receipt takes everything from the
// new delivery: the bytes, the headers, the source and the fields that are read from them. The first delivery remains
// in the list of deliveries. The outcomes of these events are new and not duplicates.
//
// takeOver must commit before the answer, because the provider does not send a delivery again after a 2xx. left is true
// if another delivery took over one of the receipts first. The outcome of that event is then unknown, and the caller
// must determine it again.
func (s *Store) takeOver(ctx context.Context, in *insertion, outcomes []Outcome) (left bool, err error) {
	var rows []insertRow
	at := map[uuid.UUID]int{}
	seen := map[Key]bool{}
	for i, o := range outcomes {
		if r := &in.rows[i]; o.wanted && !seen[r.key] {
			seen[r.key], at[r.id] = true, i
			rows = append(rows, insertRow{row: r, in: in})
		}
	}
	if len(rows) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout+in.Size().Time())
	defer cancel()
	taken, err := s.pool.Query(ctx, takeOverSQL, insertColumns.Args(valuesOf(rows))...)
	if err != nil {
		return false, fmt.Errorf("take over ignored receipts: %w", err)
	}
	var asked, id [16]byte
	var status, reason string
	_, err = pgx.ForEachRow(taken, []any{&asked, &id, &status, &reason}, func() error {
		i := at[asked]
		outcomes[i] = Outcome{ReceiptID: uuid.UUID(id).String(), EventID: in.rows[i].key.EventID,
			Status: Status(status), Reason: reason}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("take over ignored receipts: %w", err)
	}
	for i := range outcomes {
		if o := &outcomes[i]; o.wanted {
			o.wanted, o.open, left = false, true, true
		}
	}
	return left, nil
}
