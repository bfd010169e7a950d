// Package withheld stores, per mode, when effects start, and the effects that are withheld. An event that is older than
// this start changes state but runs no effects. Its effects are recorded until a person releases them.
package withheld

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Never is later than every event. It is the start of effects in a mode with effects switched off.
var Never = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)

// NeverText is [Never] in SQL.
const NeverText = `timestamptz '9999-01-01T00:00:00Z'`

// Before is an SQL condition: the event of receipt r is older than the start of effects in its mode. If a mode has no
// row, effects were always on.
const Before = `coalesce((select coalesce(r.occurred_at, r.received_at) < coalesce(b.at, ` + NeverText + `)
          from effects_from b where b.mode = r.mode), false)`

// Kinds of a [Record] other than effects of the ledger: a published event, and a task that a fold opens.
const (
	Event = "internal-event"
	Task  = "task"
)

// From is when effects start in a mode.
type From struct {
	Mode string `json:"mode"`
	// At is nil if effects are off.
	At        *time.Time `json:"starts_at"`
	ChangedAt time.Time  `json:"changed_at"`
	ChangedBy string     `json:"changed_by"`
}

const beginSQL = `
insert into effects_from (mode, at, changed_by)
select mode, case $2 when 'off' then null when 'now' then date_trunc('second', now()) else $2::timestamptz end, $3
  from unnest($1::text[]) as mode
    on conflict (mode) do nothing`

// Begin stores when effects start, for each mode without a stored start. at is "now", "off", or an RFC 3339 time. Begin
// never changes a stored start. "now" is rounded to a full second, like the times of events.
func Begin(ctx context.Context, db schema.Execer, modes []string, at, by string) error {
	return schema.Exec(ctx, db, "store when effects begin", beginSQL, modes, at, by)
}

const allSQL = `select mode, at, changed_at, changed_by from effects_from order by mode`

// All returns the start of effects of each mode.
func All(ctx context.Context, db schema.Querier) ([]From, error) {
	return schema.List[From](ctx, db, "read when effects begin", allSQL)
}

const setSQL = `
insert into effects_from (mode, at, changed_by) values ($1, $2, $3)
    on conflict (mode) do update set at = excluded.at, changed_at = now(), changed_by = excluded.changed_by`

// Set changes the start of effects in a mode. A nil time switches effects off.
func Set(ctx context.Context, db schema.Execer, mode string, at *time.Time, by string) error {
	return schema.Exec(ctx, db, "change when effects begin", setSQL, mode, at, by)
}

// Record is an effect, a published event or a task that is withheld.
type Record struct {
	// Key is the effect's ledger key. The other kinds have keys that pawl creates for them.
	Key, Kind, Account string
	// Amount is the amount of a finance entry. It is nil for any other kind.
	Amount   *int64
	Currency string
	// Detail is the published event or the task as it will be written on release.
	Detail json.RawMessage
}

const writeSQL = `
insert into withheld (mode, receipt_id, key, kind, account, amount, currency, detail)
select $1, $2::uuid, w.key, w.kind, w.account, w.amount, w.currency, w.detail
  from unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::jsonb[]) as w(key, kind, account, amount, currency, detail)
    on conflict (key) do nothing`

var writeColumns = schema.ColumnsOf[Record](writeSQL)

// Write queues a statement in b that records the withheld effects of a receipt's event. It does not change a key that
// is already recorded.
func Write(b *pgx.Batch, mode, receiptID string, records []Record) {
	if len(records) > 0 {
		b.Queue(writeSQL, arguments(mode, receiptID, records)...)
	}
}

// Add is like [Write], but executes the statement at once.
func Add(ctx context.Context, db schema.Execer, mode, receiptID string, records []Record) error {
	return schema.Exec(ctx, db, "record withheld effects", writeSQL, arguments(mode, receiptID, records)...)
}

func arguments(mode, receiptID string, records []Record) []any {
	return append([]any{mode, receiptID}, writeColumns.Args(records)...)
}

// stillOpen selects the records that are neither released nor done. An effect may have been done since by another event
// with the same key.
const stillOpen = `
withheld w where w.released_at is null
   and not exists (select from effects e where e.key = w.key and e.state in ('done', 'skipped', 'compensated'))`

var sumsSQL = `
with open as materialized (select w.mode, w.kind, w.amount, w.currency, w.receipt_id from ` + stillOpen + `),
money as (select mode, kind, currency, ` + schema.Total("amount") + ` as amount from open where amount is not null group by mode, kind, currency)
select o.mode, o.kind, count(*)::int as effects, count(distinct o.receipt_id)::int as events,
       (select coalesce(jsonb_object_agg(m.currency, m.amount), '{}') from money m where (m.mode, m.kind) = (o.mode, o.kind)) as money
  from open o group by o.mode, o.kind order by o.mode, o.kind`

// Sum is the number of withheld effects of one mode and kind.
type Sum struct {
	Mode    string `json:"mode"`
	Kind    string `json:"kind"`
	Effects int    `json:"effects"`
	// Events is the number of events that these effects belong to.
	Events int `json:"events"`
	// Money is the sum of the finance entries in minor units, by currency.
	Money map[string]int64 `json:"money"`
}

// Sums counts the withheld effects.
func Sums(ctx context.Context, db schema.Querier) ([]Sum, error) {
	return schema.List[Sum](ctx, db, "count withheld effects", sumsSQL)
}

const ofReceiptSQL = `select count(*)::int from ` + stillOpen + ` and w.receipt_id = $1::uuid`

// Count counts the withheld effects of a receipt's event.
func Count(ctx context.Context, db schema.Querier, receiptID string) (int, error) {
	return schema.One[int](ctx, db, "count the withheld effects of "+receiptID, ofReceiptSQL, receiptID)
}

const releaseSQL = `
with released as (
    update withheld set released_at = now() where receipt_id = $1::uuid and released_at is null
    returning key, kind, account, amount, currency, detail)
select key, kind, account, amount, currency, detail from released order by key`

// Release marks the withheld effects of a receipt's event as released, and returns them. The caller must write the
// published events and the tasks in the same transaction. A run of the event does the effects.
func Release(ctx context.Context, tx schema.Querier, receiptID string) ([]Record, error) {
	return schema.List[Record](ctx, tx, "release the withheld effects of "+receiptID, releaseSQL, receiptID)
}

const startedSQL = `
select least((select min(hour) from source_hours where source = $1), (select min(started_at) from imports where source = $1)) as at`

// SourceStarted returns when a source got its first delivery, to the hour, or started its first import. It returns nil
// if neither has happened.
func SourceStarted(ctx context.Context, db schema.Querier, source string) (*time.Time, error) {
	return schema.One[*time.Time](ctx, db, "read when source "+source+" started", startedSQL, source)
}
