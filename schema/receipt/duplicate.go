package receipt

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/groupcommit"
)

// repeat is another delivery of an event that has a receipt.
type repeat struct {
	in  *insertion
	row *row
}

type repeats []repeat

// Size returns the size of the write.
func (r repeats) Size() groupcommit.Size { return groupcommit.Size{Rows: len(r)} }

// countRest records the duplicates that the insert could not count. countRest commits separately. The answer to the
// provider does not depend on the count, because the first delivery is committed in any case.
func (s *Store) countRest(ctx context.Context, in *insertion, outcomes []Outcome) {
	var again repeats
	var at []int
	for i := range outcomes {
		if outcomes[i].again {
			again = append(again, repeat{in, &in.rows[i]})
			at = append(at, i)
		}
	}
	if len(again) == 0 {
		return
	}
	held, err := s.count(ctx, again)
	for j, i := range at {
		o := &outcomes[i]
		switch o.again = false; {
		case err != nil:
			o.Uncounted = err
		case held[j].Uncounted != nil:
			o.Uncounted = held[j].Uncounted
		default:
			o.ReceiptID, o.Status, o.Reason = held[j].ReceiptID, held[j].Status, held[j].Reason
		}
	}
}

// count records repeated deliveries. It continues even if ctx ends. The caller answers 2xx anyway, and a missing count
// would never be corrected.
func (s *Store) count(ctx context.Context, again repeats) ([]Outcome, error) {
	type result struct {
		held []Outcome
		err  error
	}
	done := make(chan result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Within)
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

// duplicateSQL locks the receipts in the order of their IDs, like every statement in this package that changes several
// receipts. It then counts and stores each delivery.
const duplicateSQL = `
with found as materialized (
    select i.*, r.id
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::bytea[], $8::text[])
           with ordinality as i(provider, account, mode, event_id, source, received_at, body_hash, secret_label, n)
      join receipts r using (provider, account, mode, event_id) order by r.id
), held as materialized (
    select i.*, locked.status, locked.reason, locked.duplicates from found i
     cross join lateral (select r.status, r.reason, r.duplicates from receipts r where r.id = i.id for no key update) locked
), logged as (
    insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label)
    select id, source, received_at, body_hash, secret_label from held where ` + listed + ` order by n
), counted as (
    update receipts r set duplicates = r.duplicates + c.n, updated_at = now()
      from (select id, count(*) as n from held group by id) c where r.id = c.id
)
select n, id, status, reason from held`

type duplicateRow struct {
	Key
	Source      string
	ReceivedAt  time.Time
	BodyHash    []byte
	SecretLabel string
}

var duplicateColumns = schema.ColumnsOf[duplicateRow](duplicateSQL)

func (s *Store) flushDuplicates(ctx context.Context, reqs []repeats) ([][]Outcome, error) {
	all := slices.Concat(reqs...)
	n := len(all)
	again := make([]duplicateRow, n)
	for i, r := range all {
		again[i] = duplicateRow{r.row.key, r.in.Source, r.in.ReceivedAt, r.row.hash[:], r.in.Secret}
	}
	rows, err := s.pool.Query(ctx, duplicateSQL, duplicateColumns.Args(again)...)
	if err != nil {
		return nil, err
	}
	held := make([]Outcome, n)
	for i := range held {
		// The receipt was erased after the insert found it.
		held[i] = Outcome{Uncounted: schema.ErrNotFound}
	}
	var at int
	var id [16]byte
	var o Outcome
	if _, err = pgx.ForEachRow(rows, []any{&at, &id, &o.Status, &o.Reason}, func() error {
		o.ReceiptID = uuid.UUID(id).String()
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
