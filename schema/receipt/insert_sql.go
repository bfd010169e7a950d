package receipt

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/failpoint"
)

// insertSQL writes new receipts and their bodies, and counts the deliveries of existing ones. It does not return a row
// that exists but is locked or not visible in the snapshot of the statement. It does not wait for such a row, because
// only a count depends on it.
var insertSQL = `
with input as materialized (` + insertInput + `
), fresh as (
    insert into receipts (` + insertedColumns + `)
    select id, source, provider, account, mode, event_id, identity, type, object_id, api_version,
           occurred_at, received_at, body_hash, secret_label, correlation_id, occurrence, hook, status, reason, false,
           now() + ` + lease + `
      from input
    on conflict (provider, account, mode, event_id) do nothing
    returning id, status, reason
), ` + insertRest(`body`, `input i join receipts r using (provider, account, mode, event_id)`, `true`)

// insertOneSQL does the same as insertSQL for a single row, with the same parameters up to $21. It is a quarter faster.
const insertOneSQL = `
with fresh as (
    insert into receipts (` + insertedColumns + `)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $20, $21, $16, $17, false, now() + ` + lease + `)
    on conflict (provider, account, mode, event_id) do nothing
    returning id, status, reason
), bodies as (
    insert into receipt_bodies (receipt_id, headers, body) select id, $18::json, $19 from fresh
), held as materialized (
    select r.id, r.status, r.reason, r.duplicates, ` + collides + ` as other, ` + wantsOver + ` as wanted
      from receipts r
     cross join (select $13::bytea as body_hash, 'id' as identity, $16::text as status, $8::text as type, $9::text as object_id,
                        $11::timestamptz as occurred_at) i
     where r.provider = $3 and r.account = $4 and r.mode = $5 and r.event_id = $6 and not exists (select from fresh)
       for no key update of r skip locked
), same as (
    select id, duplicates from held where not other and not wanted
), logged as (
    insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label) select id, $2, $12, $13, $14 from same where ` + listed + `
), counted as (
    update receipts r set duplicates = r.duplicates + 1, updated_at = now() from same where r.id = same.id
)
select id as asked, id, status, reason, false as duplicate, false as other, false as wanted from fresh
union all
select $1, id, status, reason, true, other, wanted from held`

// insertInput omits the bodies ($18, $19), because each use of the common table expression copies its rows. The rows
// are inserted in the order of the arrays, which are sorted by key.
const insertInput = `
    select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::text[], $10::text[], $11::timestamptz[], $12::timestamptz[], $13::bytea[], $14::text[], $15::text[],
        $16::text[], $17::text[], $20::text[], $21::text[], $22::boolean[], $23::boolean[])
    as t(id, source, provider, account, mode, event_id, identity, type,
        object_id, api_version, occurred_at, received_at, body_hash, secret_label, correlation_id,
        status, reason, occurrence, hook, generic, relay_only)`

const insertedColumns = `id, source, provider, account, mode, event_id, identity, type, object_id, api_version,
        occurred_at, received_at, body_hash, secret_label, correlation_id, occurrence, hook, status, reason, replayed,
        dispatch_at`

// insertRest stores the bodies of new receipts and counts the deliveries of existing ones. body is the SQL of the body
// to store. held joins each input i with the existing receipt r. byID is the condition that r has the ID of i.
func insertRest(body, held, byID string) string {
	return `bodies as (
    insert into receipt_bodies (receipt_id, headers, body)
    select id, headers::json, ` + body + ` from unnest($1::uuid[], $18::text[], $19::bytea[]) as t(id, headers, body)
     where (id in (select id from fresh)) is true -- without "is true" it is a join, which compares all with all
), held as materialized (
    select i.id as asked, i.source, i.received_at, i.body_hash, i.secret_label, r.id, r.status, r.reason, r.duplicates,
           ` + collides + ` as other, ` + byID + ` and ` + wantsOver + ` as wanted
      from ` + held + `
     where i.id not in (select id from fresh)
       for no key update of r skip locked
), same as (
    select * from held where not other and not wanted
), logged as (
    insert into redeliveries (receipt_id, source, received_at, body_hash, secret_label)
    select id, source, received_at, body_hash, secret_label from same where ` + listed + `
), counted as (
    update receipts r set duplicates = r.duplicates + c.n, updated_at = now()
      from (select id, count(*) as n from same group by id) c where r.id = c.id
)
select id as asked, id, status, reason, false as duplicate, false as other, false as wanted from fresh
union all
select asked, id, status, reason, true, other, wanted from held`
}

// listed limits how many later deliveries of an event are stored one by one. All are counted. No provider retries more
// often than this limit.
const listed = `duplicates < 1000`

// lockHashesSQL takes its locks at the start of the transaction and in order, so that two flushes cannot deadlock. The
// locks end with the transaction, so there is no session state.
const lockHashesSQL = `
select pg_advisory_xact_lock(k) from (select distinct unnest($1::bigint[]) as k order by k) as keys`

func (s *Store) flushInserts(ctx context.Context, reqs []*insertion) ([][]Outcome, error) {
	rows, unsigned := distinct(reqs)
	entered, err := s.insertRows(ctx, rows, unsigned)
	if err != nil {
		return nil, err
	}
	if len(entered) < len(rows) {
		if err := s.outlast(ctx); err != nil {
			return nil, err
		}
	}
	results := make([][]Outcome, len(reqs))
	for i, req := range reqs {
		results[i] = make([]Outcome, len(req.rows))
		for j := range req.rows {
			// If an event is not in the result, it conflicted with a row that could not be counted at once, or with an
			// equal event of this flush.
			out, ok := entered[req.rows[j].id]
			if !ok {
				out = Outcome{Duplicate: !req.rows[j].crowded, crowded: req.rows[j].crowded,
					open: !req.rows[j].crowded}
			}
			results[i][j] = out
		}
	}
	return results, nil
}

const outlastSQL = `select pg_logical_emit_message(true, 'pawl', 'held')`

// outlast returns when all earlier commits are on the standbys that commits wait for.
//
// The caller of an event's first delivery may have given up while its commit waited for a standby. The provider got a
// failure, but the row is committed on this server, and would be lost together with it. A duplicate of such a row must
// not be answered with 2xx before a standby has the row. outlast writes a row, because a transaction that writes
// nothing does not wait for standbys.
func (s *Store) outlast(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, outlastSQL)
	return err
}

// insertRow is a row in one flush. If another row makes the flush fail, the flush is repeated without that other row.
type insertRow struct {
	*row
	in *insertion
}

// distinct returns one row per event, sorted by key. Because of the order, two flushes with the same events cannot
// deadlock. unsigned reports whether any row has an unsigned ID. If several events have the same bytes and different
// unsigned IDs, distinct returns only the row of the first event. It marks the other rows as crowded: they must be
// inserted after the first row is committed.
func distinct(reqs []*insertion) (rows []insertRow, unsigned bool) {
	seen := make(map[Key]bool, len(reqs))
	type body struct {
		provider, source string // source is set for a generic provider
		hash             [sha256.Size]byte
	}
	held := map[body]bool{}
	for _, req := range reqs {
		for i := range req.rows {
			r := &req.rows[i]
			r.crowded = false
			if seen[r.key] {
				continue
			}
			if r.unsigned() {
				b := body{provider: r.key.Provider, hash: r.hash}
				if req.Generic {
					b.source = req.Source
				}
				if r.crowded = held[b]; r.crowded {
					continue
				}
				held[b], unsigned = true, true
			}
			seen[r.key] = true
			rows = append(rows, insertRow{row: r, in: req})
		}
	}
	slices.SortFunc(rows, func(a, b insertRow) int { return compareKeys(a.key, b.key) })
	return rows, unsigned
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Account, b.Account),
		cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.EventID, b.EventID))
}

// insertRows inserts rows. It returns an outcome for each row that it inserted or counted as a duplicate, by the ID of
// the row.
func (s *Store) insertRows(ctx context.Context, rows []insertRow, unsigned bool) (map[uuid.UUID]Outcome, error) {
	switch {
	case failpoint.Enabled:
		// This transaction is only for kill tests. The other statements are single transactions, in which a kill test
		// cannot stop between insert and commit.
		var entered map[uuid.UUID]Outcome
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
			entered, err = sendInsert(ctx, tx, rows)
			failpoint.Hit("receipt-before-commit")
			return err
		})
		return entered, err
	case unsigned:
		return sendInsert(ctx, s.pool, rows)
	case len(rows) == 1:
		return collectEntered(s.pool.Query(ctx, insertOneSQL, insertColumns.Row(values(rows[0]))[:21]...))
	default:
		return collectEntered(s.pool.Query(ctx, insertSQL, insertColumns.Args(valuesOf(rows))...))
	}
}

// sendInsert sends the locks and the insert in one round trip and one transaction.
func sendInsert(ctx context.Context, db interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}, rows []insertRow) (entered map[uuid.UUID]Outcome, err error) {
	batch := &pgx.Batch{}
	batch.Queue(lockHashesSQL, hashKeys(rows))
	batch.Queue(insertUnsignedSQL, insertColumns.Args(valuesOf(rows))...).Query(func(rows pgx.Rows) (err error) {
		entered, err = collectEntered(rows, nil)
		return err
	})
	// The commit is certain only after Close has returned nil.
	err = db.SendBatch(ctx, batch).Close()
	return entered, err
}

func collectEntered(rows pgx.Rows, err error) (map[uuid.UUID]Outcome, error) {
	if err != nil {
		return nil, err
	}
	entered := map[uuid.UUID]Outcome{}
	var asked, id [16]byte
	var status, reason string
	var o Outcome
	_, err = pgx.ForEachRow(rows, []any{&asked, &id, &status, &reason, &o.Duplicate, &o.other, &o.wanted},
		func() error {
			o.ReceiptID, o.Status, o.Reason = uuid.UUID(id).String(), Status(status), reason
			entered[asked] = o
			return nil
		})
	return entered, err
}

// hashKeys returns the lock numbers of the unsigned rows, computed from their bytes. If different bytes get the same
// number, they only wait for each other.
func hashKeys(rows []insertRow) []int64 {
	var keys []int64
	for _, r := range rows {
		if r.unsigned() {
			var k int64
			for _, b := range r.hash[:8] {
				k = k<<8 | int64(b)
			}
			keys = append(keys, k)
		}
	}
	return keys
}

// insertValues are the parameters for one receipt. The fields are the columns of insertInput and of the bodies.
type insertValues struct {
	ID                                                 uuid.UUID
	Source, Provider, Account, Mode, EventID, Identity string
	Type, ObjectID, APIVersion                         string
	OccurredAt                                         *time.Time
	ReceivedAt                                         time.Time
	BodyHash                                           []byte
	SecretLabel, CorrelationID, Status, Reason         string
	Headers                                            string
	Body                                               []byte
	Occurrence, Hook                                   string
	Generic, RelayOnly                                 bool
}

// insertColumns converts rows to the parameters of insertSQL, insertUnsignedSQL and takeOverSQL, which have the same
// parameters.
var insertColumns = schema.ColumnsOf[insertValues](insertSQL)

func valuesOf(rows []insertRow) []insertValues {
	all := make([]insertValues, len(rows))
	for i, r := range rows {
		all[i] = values(r)
	}
	return all
}

// values returns the parameters for r. The event ID comes from r.key, because it may differ from the provider's ID.
func values(r insertRow) insertValues {
	return insertValues{
		ID: r.id, Source: r.in.Source, Provider: r.key.Provider, Account: r.key.Account, Mode: r.key.Mode,
		EventID: r.key.EventID, Identity: string(r.Identity), Type: r.Type, ObjectID: r.Object,
		APIVersion: r.APIVersion, OccurredAt: r.occurred(), ReceivedAt: r.in.ReceivedAt, BodyHash: r.hash[:],
		SecretLabel: r.in.Secret, CorrelationID: r.Correlation, Status: string(r.Status), Reason: r.Reason,
		Headers: r.in.header, Body: r.bytes(), Occurrence: r.Occurrence, Hook: r.Hook, Generic: r.in.Generic,
		RelayOnly: r.RelayOnly,
	}
}

// occurred returns the provider's time of the event, or nil if the provider does not send it.
func (r *row) occurred() *time.Time {
	if r.OccurredAt.IsZero() {
		return nil
	}
	return &r.OccurredAt
}

// bytes returns the body. It never returns nil, because an empty body is not null.
func (r *row) bytes() []byte {
	if r.Body == nil {
		return []byte{}
	}
	return r.Body
}
