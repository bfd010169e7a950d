package receipt

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// relayMissingSQL finds the events that a receipt of another source runs and that source $1 has no receipt of yet.
const relayMissingSQL = `
select i.n from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) with ordinality
    as i(provider, account, mode, event_id, apart, n)
  join receipts r using (provider, account, mode, event_id)
 where r.source <> $1 and r.status <> 'ignored'
   and not exists (select from receipts own
                    where (own.provider, own.account, own.mode, own.event_id) = (i.provider, i.account, i.mode, i.apart))`

// relaySQL inserts receipts for them, due at once. Their identity is 'id', because pawl made the ID: no bytes can be
// a replay of it.
const relaySQL = `
with input as materialized (` + insertInput + `
), fresh as (
    insert into receipts (` + insertColumns + `, relay_of)
    select id, source, provider, account, mode, event_id, 'id', type, object_id, api_version, occurred_at, received_at,
           body_hash, secret_label, correlation_id, status, reason, false, now(), t.relay_of
      from input join unnest($1::uuid[], $21::text[]) as t(id, relay_of) using (id)
    on conflict (provider, account, mode, event_id) do nothing
    returning id
)
insert into receipt_bodies (receipt_id, headers, body)
select id, headers::json, body from unnest($1::uuid[], $18::text[], $19::bytea[]) as t(id, headers, body)
 where (id in (select id from fresh)) is true`

// relayToo inserts a receipt for in's source for each event that another source's receipt runs, so that the source's
// consumers get the event, too. The receipt's ID is the event's ID, "~" and the source's name, and it is only
// relayed.
//
// It has to be committed before the answer: a delivery that was answered 2xx is not sent again.
func (s *Store) relayToo(ctx context.Context, in *insertion, outcomes []Outcome) error {
	var rows []insertRow
	var texts [5][]string // keys, and the IDs to hold them under
	for i, o := range outcomes {
		r := &in.rows[i]
		if !o.Duplicate || r.Status != Received {
			continue
		}
		rows = append(rows, insertRow{row: r, in: in})
		for c, v := range [...]string{r.key.Provider, r.key.Account, r.key.Mode, r.key.EventID,
			ApartID(r.key.EventID, in.Source)} {
			texts[c] = append(texts[c], v)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout+in.Size().Time())
	defer cancel()
	found, err := s.pool.Query(ctx, relayMissingSQL, in.Source, texts[0], texts[1], texts[2], texts[3], texts[4])
	if err != nil {
		return fmt.Errorf("find what another source runs: %w", err)
	}
	missing, err := pgx.CollectRows(found, pgx.RowTo[int])
	if err != nil {
		return fmt.Errorf("find what another source runs: %w", err)
	}
	var apart []insertRow
	var of []string
	for _, n := range missing {
		r := *rows[n-1].row
		of = append(of, r.key.EventID)
		r.key.EventID = texts[4][n-1]
		apart = append(apart, insertRow{row: &r, in: in})
	}
	if len(apart) == 0 {
		return nil
	}
	if _, err := s.pool.Exec(ctx, relaySQL, append(insertArgs(apart), of)...); err != nil {
		return fmt.Errorf("insert receipts to relay: %w", err)
	}
	return nil
}
