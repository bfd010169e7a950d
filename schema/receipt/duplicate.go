package receipt

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/groupcommit"
)

// repeat is one more delivery of an event that has a receipt.
type repeat struct {
	key Key
	in  *insertion
	row *row
}

type repeats []repeat

// Size is what the repeats write.
func (r repeats) Size() groupcommit.Size { return groupcommit.Size{Rows: len(r)} }

// countRest records the duplicates that the insert could not count, and fills in their outcomes from the first
// receipt. It does not count an event that turns out to be another one, or to take the receipt over. It has a commit
// of its own, because a conflicting row may be invisible to the statement that met it. The answer does not depend on
// that commit: the first delivery is committed either way.
func (s *Store) countRest(ctx context.Context, in *insertion, outcomes []Outcome) {
	var again repeats
	var at []int
	for i := range outcomes {
		if outcomes[i].Duplicate && outcomes[i].ReceiptID == "" && outcomes[i].Uncounted == nil && !outcomes[i].other {
			again = append(again, repeat{in.rows[i].key, in, &in.rows[i]})
			at = append(at, i)
		}
	}
	if len(again) == 0 {
		return
	}
	held, err := s.count(ctx, again)
	for j, i := range at {
		if err != nil {
			outcomes[i].Uncounted = err
		} else {
			held[j].EventID = outcomes[i].EventID
			outcomes[i] = held[j]
		}
	}
}

// count records repeated deliveries. It goes on when ctx ends: the caller's answer is 2xx by then, and no other
// delivery will make up for one that was not counted.
func (s *Store) count(ctx context.Context, again repeats) ([]Outcome, error) {
	type result struct {
		held []Outcome
		err  error
	}
	done := make(chan result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.readTimeout)
		defer cancel()
		held, err := s.duplicates.Do(ctx, again)
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
    select i.*, r.id
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::bytea[], $8::text[],
                  $9::text[], $10::text[], $11::text[], $12::timestamptz[], $13::text[])
           with ordinality as i(provider, account, mode, event_id, source, received_at, body_hash, secret_label,
                                status, type, object_id, occurred_at, identity, n)
      join receipts r using (provider, account, mode, event_id) order by r.id
), matched as materialized (
    select i.*, held.status as held_status, held.reason, held.duplicates, held.other, held.wanted from found i
     cross join lateral (select r.status, r.reason, r.duplicates, ` + collides + ` as other, ` + wantsOver + ` as wanted
                           from receipts r where r.id = i.id for no key update) held
), same as (
    select * from matched where not other and not wanted
), logged as (
    insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label)
    select id, source, received_at, body_hash, secret_label from same where ` + listed + ` order by n
), counted as (
    update receipts r set duplicates = r.duplicates + c.n, updated_at = now()
      from (select id, count(*) as n from same group by id) c where r.id = c.id
)
select n, id, held_status, reason, other, wanted from matched`

func (s *Store) flushDuplicates(ctx context.Context, reqs []repeats) ([][]Outcome, error) {
	all := slices.Concat(reqs...)
	n := len(all)
	var texts [10][]string
	for i := range texts {
		texts[i] = make([]string, n)
	}
	received, occurred := make([]time.Time, n), make([]*time.Time, n)
	hashes := make([][]byte, n)
	for i, r := range all {
		for c, v := range [...]string{r.key.Provider, r.key.Account, r.key.Mode, r.key.EventID, r.in.Source,
			r.in.Secret,
			string(r.row.Status), r.row.Type, r.row.Object, string(r.row.Identity)} {
			texts[c][i] = v
		}
		received[i], occurred[i] = r.in.ReceivedAt, r.row.occurred()
		hashes[i] = r.row.hash[:]
	}
	rows, err := s.pool.Query(ctx, duplicateSQL, texts[0], texts[1], texts[2], texts[3], texts[4], received, hashes,
		texts[5],
		texts[6], texts[7], texts[8], occurred, texts[9])
	if err != nil {
		return nil, err
	}
	held := make([]Outcome, n)
	for i := range held {
		// This stays for a receipt that was erased after the insert had met it.
		held[i] = Outcome{Duplicate: true, Uncounted: ErrNotFound}
	}
	var at int
	var id [16]byte
	var status, reason string
	o := Outcome{Duplicate: true}
	if _, err = pgx.ForEachRow(rows, []any{&at, &id, &status, &reason, &o.other, &o.wanted}, func() error {
		o.ReceiptID, o.Status, o.Reason = uuid.UUID(id).String(), Status(status), reason
		held[at-1] = o
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
