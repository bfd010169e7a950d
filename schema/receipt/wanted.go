package receipt

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// runIgnoredSQL locks the receipts in the order of their IDs, as every statement here that changes several
// does.
const runIgnoredSQL = `
with held as materialized (
    select id from receipts
     where (provider, account, mode, event_id, type) in (select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $6::text[]))
       and status = 'ignored'
     order by id for no key update
)
update receipts r
   set status = 'received', reason = '', routed_by = nullif($5, r.source), dispatch_at = now() + ` + startAfter + `, updated_at = now()
  from held where r.id = held.id and r.status = 'ignored'
returning r.id, r.provider, r.account, r.mode, r.event_id`

// runIgnored lets those events run that are held as ignored and that in's source wants: they came before to a source
// with other types, accounts or another mode, or when this one wanted less. In outcomes they become new events. It
// has to be committed before the answer: a delivery that was answered 2xx is not sent again.
//
// One that is held with another type stays as it is. Where nothing signs the type, whoever holds what was ignored could
// call it what is wanted.
func (s *Store) runIgnored(ctx context.Context, in *insertion, outcomes []Outcome) error {
	var keys [5][]string
	at := map[Key]int{}
	for i, o := range outcomes {
		k := in.rows[i].key
		switch {
		case in.rows[i].Status != Received || !o.Duplicate || o.EventID != k.EventID:
		case o.Status == Ignored || o.Uncounted != nil: // what could not be counted may stand anyhow
			for c, v := range [...]string{k.Provider, k.Account, k.Mode, k.EventID, in.rows[i].Type} {
				keys[c] = append(keys[c], v)
			}
			at[k] = i
		}
	}
	if len(at) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, runIgnoredSQL, keys[0], keys[1], keys[2], keys[3], in.Source, keys[4])
	if err != nil {
		return fmt.Errorf("run what was ignored: %w", err)
	}
	var id [16]byte
	var k Key
	_, err = pgx.ForEachRow(rows, []any{&id, &k.Provider, &k.Account, &k.Mode, &k.EventID}, func() error {
		outcomes[at[k]] = Outcome{ReceiptID: uuid.UUID(id).String(), EventID: k.EventID, Status: Received}
		return nil
	})
	if err != nil {
		return fmt.Errorf("run what was ignored: %w", err)
	}
	return nil
}
