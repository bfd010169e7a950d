package receipt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const receiptColumns = `r.id::text as id, r.source, r.provider, r.account, r.mode, r.event_id, r.id_origin, r.type, r.object_id,
       r.api_version, r.occurred_at, r.received_at, r.body_hash, r.secret_label, r.correlation_id, r.status, r.reason,
       r.workflow_id, r.last_error, r.duplicates, r.updated_at`

const getSQL = `select ` + receiptColumns + ` from receipts r where r.id = $1`

// Get returns a receipt by its ID, or [ErrNotFound].
func (s *Store) Get(ctx context.Context, id string) (Receipt, error) {
	u, err := parseID(id)
	if err != nil {
		return Receipt{}, err
	}
	found, err := query[Receipt](ctx, s, getSQL, [16]byte(u))
	if err != nil {
		return Receipt{}, fmt.Errorf("get receipt %s: %w", id, err)
	}
	if len(found) == 0 {
		return Receipt{}, fmt.Errorf("get receipt %s: %w", id, ErrNotFound)
	}
	return found[0], nil
}

const findKeySQL = `select ` + receiptColumns + ` from receipts r
 where r.provider = $1 and r.account = $2 and r.mode = $3 and r.event_id = $4`

// FindKey returns the receipt of an event, or [ErrNotFound].
func (s *Store) FindKey(ctx context.Context, k Key) (Receipt, error) {
	found, err := query[Receipt](ctx, s, findKeySQL, k.Provider, k.Account, k.Mode, k.EventID)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("find event %s of %s: %w", k.EventID, k.Provider, err)
	}
	return found[0], nil
}

// findSQL hops over the unique index from one (provider, account, mode) to the next and looks up
// the event in each: an event ID alone has no index, and a table of millions is not to be read
// through for a question.
const findSQL = `
with recursive tenant as (
    (select provider, account, mode from receipts order by provider, account, mode limit 1)
    union all
    select nxt.* from tenant t cross join lateral (
        select provider, account, mode from receipts r
         where (r.provider, r.account, r.mode) > (t.provider, t.account, t.mode)
         order by provider, account, mode limit 1) nxt
)
select ` + receiptColumns + `
  from tenant t join receipts r using (provider, account, mode)
 where r.event_id = any($1::text[]) and (r.event_id = $2 or r.workflow_id = $2)
 order by r.received_at desc limit 20`

// Find returns the receipts that an operator may mean by ref: a receipt ID, an event ID, or a
// workflow ID ("stripe:evt_1", "stripe:acct_9:evt_1"). It returns the newest first, and
// [ErrNotFound] where there is none. One event ID can stand in several accounts and in both modes.
func (s *Store) Find(ctx context.Context, ref string) ([]Receipt, error) {
	if _, err := uuid.Parse(ref); err == nil {
		r, err := s.Get(ctx, ref)
		if err == nil {
			return []Receipt{r}, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, err
		} // an event ID can look like a UUID: GitHub's do
	}
	found, err := query[Receipt](ctx, s, findSQL, eventIDsIn(ref), ref)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("find %q: %w", ref, err)
	}
	return found, nil
}

// eventIDsIn returns ref and each part of it that may be the event ID in a workflow ID.
func eventIDsIn(ref string) []string {
	ids := []string{ref}
	for rest := ref; ; {
		_, after, more := strings.Cut(rest, ":")
		if !more {
			break
		}
		ids, rest = append(ids, after), after
	}
	// The ID of the other mode's run ends in the mode.
	for _, mode := range []string{":live", ":test"} {
		if base, ok := strings.CutSuffix(ref, mode); ok {
			ids = append(ids, eventIDsIn(base)...)
		}
	}
	return ids
}

// Filter selects receipts; a zero field selects all.
type Filter struct {
	Statuses []Status
	Source   string
	Provider string
	Type     string
	// Limit defaults to 50.
	Limit int
	// Before is the ID of the last receipt of the page before.
	Before string
}

const listSQL = `
select ` + receiptColumns + ` from receipts r
 where (cardinality($1::text[]) = 0 or r.status = any($1::text[]))
   and ($2::text = '' or r.source = $2::text)
   and ($3::text = '' or r.provider = $3::text)
   and ($4::text = '' or r.type = $4::text)
   and ($5::uuid is null or (r.received_at, r.id) < (select received_at, id from receipts where id = $5::uuid))
 order by r.received_at desc, r.id desc limit $6`

// List returns receipts, newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]Receipt, error) {
	statuses := make([]string, len(f.Statuses))
	for i, st := range f.Statuses {
		statuses[i] = string(st)
	}
	if f.Limit <= 0 {
		f.Limit = 50
	}
	var before *[16]byte
	if f.Before != "" {
		u, err := parseID(f.Before)
		if err != nil {
			return nil, err
		}
		before = (*[16]byte)(&u)
	}
	found, err := query[Receipt](ctx, s, listSQL, statuses, f.Source, f.Provider, f.Type, before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list receipts: %w", err)
	}
	return found, nil
}

const bodySQL = `select headers, body from receipt_bodies where receipt_id = $1`

// Body returns what came in, or [ErrNotFound] when there is no such receipt or its body is erased.
func (s *Store) Body(ctx context.Context, id string) (Body, error) {
	u, err := parseID(id)
	if err != nil {
		return Body{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	var headers []byte
	var b Body
	err = s.pool.QueryRow(ctx, bodySQL, [16]byte(u)).Scan(&headers, &b.Bytes)
	if notFound(err) {
		err = ErrNotFound
	}
	if err == nil {
		err = json.Unmarshal(headers, &b.Header)
	}
	if err != nil {
		return Body{}, fmt.Errorf("read body of receipt %s: %w", id, err)
	}
	return b, nil
}

const deliveriesSQL = `
select source, received_at, outcome, body_hash, secret_label from deliveries where receipt_id = $1 order by received_at, id`

// Deliveries returns every authentic delivery of a receipt's event, oldest first.
func (s *Store) Deliveries(ctx context.Context, id string) ([]Seen, error) {
	u, err := parseID(id)
	if err != nil {
		return nil, err
	}
	seen, err := query[Seen](ctx, s, deliveriesSQL, [16]byte(u))
	if err != nil {
		return nil, fmt.Errorf("list deliveries of receipt %s: %w", id, err)
	}
	return seen, nil
}

const runsSQL = `
select workflow_id, run_id, receipt_id::text as receipt_id, kind, requested_by, reason, previous_run_id, started_at, closed_at, outcome
  from runs where receipt_id = $1 order by started_at, run_id`

// Runs returns the runs of a receipt, oldest first.
func (s *Store) Runs(ctx context.Context, id string) ([]Run, error) {
	u, err := parseID(id)
	if err != nil {
		return nil, err
	}
	runs, err := query[Run](ctx, s, runsSQL, [16]byte(u))
	if err != nil {
		return nil, fmt.Errorf("list runs of receipt %s: %w", id, err)
	}
	return runs, nil
}

func query[T any](ctx context.Context, s *Store, sql string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

func notFound(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
