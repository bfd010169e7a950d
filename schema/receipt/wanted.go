package receipt

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// runIgnoredSQL locks the receipts in the order of their IDs, as every statement here that changes several
// does. What was ignored was compared with nothing, so the same bytes under another ID are looked for here, but for
// those that are ignored or suspected replays themselves.
const runIgnoredSQL = `
with held as materialized (
    select r.id, i.unsigned from receipts r
      join unnest($1::text[], $2::text[], $3::text[], $4::text[], $6::text[], $7::boolean[])
           as i(provider, account, mode, event_id, type, unsigned) using (provider, account, mode, event_id, type)
     where r.status = 'ignored'
     order by r.id for no key update of r
), judged as (
    select held.id, same.event_id as same from held join receipts r using (id)
      left join lateral (
          select o.event_id from receipts o
           where held.unsigned and o.provider = r.provider and o.body_hash = r.body_hash
             and o.id_origin <> 'body' and (not $8::boolean or o.source = $5)
             and o.id <> r.id and o.status <> 'ignored' and not o.replayed
           limit 1) same on true
)
update receipts r
   set status = case when same is null then 'received' else 'needs_review' end, replayed = same is not null,
       reason = coalesce('suspected_replay: same bytes as ' || same, ''), routed_by = nullif($5, r.source),
       dispatch_at = now() + ` + startAfter + `, updated_at = now()
  from judged where r.id = judged.id and r.status = 'ignored'
returning r.id, r.provider, r.account, r.mode, r.event_id, r.status, r.reason`

// runIgnored lets those events run that are held as ignored and that in's source wants: they came before to a source
// with other types, accounts or another mode, or when this one wanted less. In outcomes they become new events. It
// has to be committed before the answer: a delivery that was answered 2xx is not sent again.
//
// One that is held with another type stays as it is. Where nothing signs the type, whoever holds what was ignored could
// call it what is wanted.
func (s *Store) runIgnored(ctx context.Context, in *insertion, outcomes []Outcome) error {
	var keys [5][]string
	var unsigned []bool
	at := map[Key]int{}
	for i, o := range outcomes {
		k := in.rows[i].key
		switch {
		case in.rows[i].Status != Received || !o.Duplicate || o.EventID != k.EventID:
		case o.Status == Ignored || o.Uncounted != nil: // what could not be counted may stand anyhow
			for c, v := range [...]string{k.Provider, k.Account, k.Mode, k.EventID, in.rows[i].Type} {
				keys[c] = append(keys[c], v)
			}
			unsigned = append(unsigned, in.rows[i].Unsigned)
			at[k] = i
		}
	}
	if len(at) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, runIgnoredSQL, keys[0], keys[1], keys[2], keys[3], in.Source, keys[4], unsigned, in.Generic)
	if err != nil {
		return fmt.Errorf("run what was ignored: %w", err)
	}
	var id [16]byte
	var k Key
	var status, reason string
	_, err = pgx.ForEachRow(rows, []any{&id, &k.Provider, &k.Account, &k.Mode, &k.EventID, &status, &reason}, func() error {
		outcomes[at[k]] = Outcome{ReceiptID: uuid.UUID(id).String(), EventID: k.EventID, Status: Status(status), Reason: reason}
		return nil
	})
	if err != nil {
		return fmt.Errorf("run what was ignored: %w", err)
	}
	return nil
}
