package receipt

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// repeat is one more delivery of an event that is held.
type repeat struct {
	key Key
	in  *insertion
	row *row
}

// countRest enters the duplicates among outcomes that the insert could not count, and fills in what is
// held. One that was tried under an ID of its own already (see [Store.insertApart]) stays uncounted: it is none of the
// receipt that holds the ID. It has a commit of its own, because a conflicting row may be invisible to the statement that
// met it. The answer does not depend on it: the first delivery is committed either way.
func (s *Store) countRest(ctx context.Context, in *insertion, outcomes []Outcome) {
	var repeats []repeat
	var at []int
	for i := range outcomes {
		if outcomes[i].Duplicate && outcomes[i].ReceiptID == "" && outcomes[i].Uncounted == nil {
			repeats = append(repeats, repeat{in.rows[i].key, in, &in.rows[i]})
			at = append(at, i)
		}
	}
	if len(repeats) == 0 {
		return
	}
	held, err := s.count(ctx, repeats)
	for j, i := range at {
		if err != nil {
			outcomes[i].Uncounted = err
		} else {
			held[j].EventID = outcomes[i].EventID
			outcomes[i] = held[j]
		}
	}
}

// count enters repeats. It goes on when ctx ends: the caller's answer is 2xx by then, and no other
// delivery will make up for one that was not counted.
func (s *Store) count(ctx context.Context, repeats []repeat) ([]Outcome, error) {
	type result struct {
		held []Outcome
		err  error
	}
	done := make(chan result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.readTimeout)
		defer cancel()
		held, err := s.duplicates.Do(ctx, repeats)
		done <- result{held, err}
	}()
	select {
	case r := <-done:
		return r.held, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// duplicateSQL locks the receipts in the order of their IDs, as every statement here that changes
// several does, then counts and logs each delivery.
const duplicateSQL = `
with found as materialized (
    select i.n, i.source, i.received_at, i.body_hash, i.secret_label, r.id
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::bytea[], $8::text[])
           with ordinality as i(provider, account, mode, event_id, source, received_at, body_hash, secret_label, n)
      join receipts r using (provider, account, mode, event_id) order by r.id
), matched as materialized (
    select found.*, held.status, held.reason from found
     cross join lateral (select r.status, r.reason from receipts r where r.id = found.id for no key update) held
), logged as (
    insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label)
    select id, source, received_at, body_hash, secret_label from matched order by n
), counted as (
    update receipts r set duplicates = r.duplicates + c.n, updated_at = now()
      from (select id, count(*) as n from matched group by id) c where r.id = c.id
)
select n, id, status, reason from matched`

func (s *Store) flushDuplicates(ctx context.Context, reqs [][]repeat) ([][]Outcome, error) {
	all := slices.Concat(reqs...)
	n := len(all)
	var texts [6][]string
	for i := range texts {
		texts[i] = make([]string, n)
	}
	received, hashes := make([]time.Time, n), make([][]byte, n)
	for i, r := range all {
		for c, v := range [...]string{r.key.Provider, r.key.Account, r.key.Mode, r.key.EventID, r.in.Source, r.in.Secret} {
			texts[c][i] = v
		}
		received[i], hashes[i] = r.in.ReceivedAt, r.row.hash[:]
	}
	rows, err := s.pool.Query(ctx, duplicateSQL, texts[0], texts[1], texts[2], texts[3], texts[4], received, hashes, texts[5])
	if err != nil {
		return nil, err
	}
	held := make([]Outcome, n)
	for i := range held {
		// An erased receipt: the event was held when the insert met it.
		held[i] = Outcome{Duplicate: true, Uncounted: ErrNotFound}
	}
	var at int
	var id [16]byte
	var status, reason string
	if _, err = pgx.ForEachRow(rows, []any{&at, &id, &status, &reason}, func() error {
		held[at-1] = Outcome{ReceiptID: uuid.UUID(id).String(), Duplicate: true, Status: Status(status), Reason: reason}
		return nil
	}); err != nil {
		return nil, err
	}
	results := make([][]Outcome, len(reqs))
	for i, req := range reqs {
		results[i], held = held[:len(req):len(req)], held[len(req):]
	}
	return results, nil
}
