package receipt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/withheld"
)

const receiptColumns = `r.id::text as id, r.source, r.provider, r.account, r.mode, r.event_id, r.relay_of, r.identity, r.type, r.object_id,
       r.api_version, r.occurred_at, r.received_at, r.body_hash, r.secret_label, r.correlation_id, r.replayed, r.status, r.reason, r.reason_code,
       r.workflow_id, r.last_error, r.duplicates, r.updated_at, ` + withheld.Before + ` as before_effects`

const ignoredOfSQL = `
select id::text as id, event_id from receipts
 where reason_code = $4 and reason_code <> '' and status || '' = 'ignored' and provider = $1 and mode = $2 and account = $3 order by id`

// Named is the ID of a receipt together with its event ID.
type Named struct{ ID, EventID string }

// IgnoredOf returns the receipts of a connected account that were ignored with the given reason code, oldest first.
func IgnoredOf(ctx context.Context, db schema.Querier, provider, mode, account, code string) ([]Named, error) {
	return schema.List[Named](ctx, db, "list ignored receipts of account "+account, ignoredOfSQL, provider, mode,
		account, code)
}

const firstNotWantedSQL = `
select received_at from receipts
 where reason_code = '` + TypeIgnored + `' and reason_code <> '' and source = $1 and status || '' = 'ignored' order by id limit 1`

// FirstNotWanted returns the time of the first event that a source ignored for its type. It returns false if there is
// no such event.
func FirstNotWanted(ctx context.Context, db schema.Querier, source string) (at time.Time, found bool, err error) {
	first, err := schema.One[struct{ ReceivedAt time.Time }](ctx, db, "find the first ignored event of source "+source,
		firstNotWantedSQL, source)
	if errors.Is(err, schema.ErrNotFound) {
		err = nil
	}
	return first.ReceivedAt, !first.ReceivedAt.IsZero(), err
}

const getSQL = `select ` + receiptColumns + ` from receipts r where r.id = $1`

// Get returns a receipt by its ID, or [schema.ErrNotFound].
func (r Reader) Get(ctx context.Context, id string) (Receipt, error) {
	u, err := ParseID(id)
	if err != nil {
		return Receipt{}, err
	}
	return schema.One[Receipt](ctx, r.db, "get receipt "+id, getSQL, [16]byte(u))
}

const bodySQL = `select headers, body from bodies where receipt_id = $1`

// Body returns a receipt's body, or [schema.ErrNotFound] if there is no such receipt or its body is erased.
func (r Reader) Body(ctx context.Context, id string) (Body, error) {
	u, err := ParseID(id)
	if err != nil {
		return Body{}, err
	}
	doing := "read body of receipt " + id
	body, err := schema.One[Body](ctx, r.db, doing, bodySQL, [16]byte(u))
	if err == nil && body.Bytes == nil {
		err = fmt.Errorf("%s: %w", doing, schema.ErrNotFound)
	}
	return body, err
}

const bodySizeSQL = `select octet_length(body) from bodies where receipt_id = $1 and body is not null`

// BodySize returns the size of a receipt's body in bytes without reading the body. It returns [schema.ErrNotFound] if
// the body is erased.
func (r Reader) BodySize(ctx context.Context, id string) (int, error) {
	return schema.One[int](ctx, r.db, "read the size of the body of receipt "+id, bodySizeSQL, id)
}

// BodyIn returns the bytes of a receipt's body in a transaction, or nil if the body is erased.
func BodyIn(ctx context.Context, tx schema.Querier, id string) ([]byte, error) {
	body, err := schema.One[Body](ctx, tx, "read body of receipt "+id, bodySQL, id)
	if errors.Is(err, schema.ErrNotFound) {
		err = nil
	}
	return body.Bytes, err
}

const loadSQL = `
select ` + receiptColumns + `, b.headers, b.body
  from receipts r left join bodies b on b.receipt_id = r.id
 where r.id = $1`

// Load returns a receipt and its body, or [schema.ErrNotFound]. Bytes is nil if the body is erased.
func (r Reader) Load(ctx context.Context, id string) (Receipt, Body, error) {
	u, err := ParseID(id)
	if err != nil {
		return Receipt{}, Body{}, err
	}
	found, err := schema.One[struct {
		Receipt
		Body
	}](ctx, r.db, "load receipt "+id, loadSQL, [16]byte(u))
	return found.Receipt, found.Body, err
}

// openCountsSQL is the union of two queries, so that each uses its own partial index. The age ignores events that wait
// for the entry of another event, because that other event is included, and events that wait for a workflow of the
// user. It also ignores events with an uncertain effect or with a sink that is down, because separate conditions report
// them.
const openCountsSQL = `
select status, mode, coalesce(type like any($1::text[]), false) as financial, count(*)::int, coalesce(extract(epoch from
       now() - min(received_at) filter (where reason_code not in ('` + WaitingForEntry + `', '` + WaitingForWorkflow + `', 'effect_uncertain', 'sink_down'))), 0)::float8 as seconds
  from receipts where status in ('processing', 'retrying', 'needs_review', 'dead') group by status, mode, financial
union all
select 'received', mode, coalesce(type like any($1::text[]), false) as financial, count(*)::int, extract(epoch from now() - min(received_at))::float8
  from receipts where status = 'received' group by mode, financial`

// Open identifies a group of unfinished receipts. Financial is set if the types of their events concern money.
type Open struct {
	Status    Status
	Mode      string
	Financial bool
}

// Waiting is the number of unfinished receipts in a group, and the age of the oldest one in seconds.
type Waiting struct {
	Open
	Count   int
	Seconds float64
}

// Waiting counts the receipts by workflow: not started, running, or parked. A type is financial if it matches one of
// the SQL patterns. Groups without receipts are omitted.
func (r Reader) Waiting(ctx context.Context, financial []string) ([]Waiting, error) {
	return schema.List[Waiting](ctx, r.db, "count open receipts", openCountsSQL, financial)
}
