// Package imports keeps the progress of imports, so that one that was broken off goes on from there.
package imports

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

// Store keeps imports in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Import is one reading of all objects that a provider holds for a source.
type Import struct {
	// ID stands for the receipt of the import's facts.
	ID string
	// Resumed is set for one that was begun before.
	Resumed bool
	// EffectsFrom is when effects began, by mode.
	EffectsFrom map[string]time.Time
	Progress
}

// Progress is how far an import has come.
type Progress struct {
	// Cursor is where the next page begins, for each list that has been begun; Done lists those that have been read.
	Cursor map[string]string
	Done   map[string]bool
	// Read counts the objects by kind, LeftOut says of those that could not be read why not.
	Read    map[string]int
	LeftOut map[string]string
}

// beginSQL takes a full second, as the times of events are.
const beginSQL = `
insert into imports (source, provider, effects_from)
select $1, $2, jsonb_object_agg(mode, date_trunc('second', now())) from unnest($3::text[]) as mode
    on conflict (source) where finished_at is null do nothing`

const underWaySQL = `select id::text, cursor, read <> '{}' from imports where source = $1 and finished_at is null`

const advanceSQL = `update imports set cursor = $2, read = $3 where id = $1::uuid`

const finishSQL = `update imports set finished_at = now() where id = $1::uuid`

// effectsFromSQL takes the time of the first import: a later one must not silence events that came since.
const effectsFromSQL = `
select mode, min(at::timestamptz) from imports, jsonb_each_text(effects_from) as began(mode, at) where provider = $1 group by mode`

// receiptSQL keeps the one receipt of an object that an import has read. Due rows that follow from its facts name
// this receipt, as those of an event name theirs.
const receiptSQL = `
insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, occurred_at, received_at, body_hash, status)
values ($1, $2, $3, $4, $5, $6, 'id', 'import', $7, $8, now(), sha256($9::bytea), 'processed')
    on conflict (event_id, provider, account, mode) do update set duplicates = receipts.duplicates
returning id::text`

// Object is an object that an import has read.
type Object struct {
	Source, Provider, Account, Mode string
	// EventID stands for the import and the object: it is that of the object's facts.
	EventID string
	ID      string
	// At is when the object was as Body says. The body is not kept: it holds personal data.
	At   time.Time
	Body []byte
}

// Receipt files an object, in the transaction that applies its facts, and returns the ID of its receipt. An object that
// is read twice in one import has one.
func Receipt(ctx context.Context, tx pgx.Tx, o Object) (id string, err error) {
	made, err := uuid.NewV7()
	if err == nil {
		err = tx.QueryRow(ctx, receiptSQL, [16]byte(made), o.Source, o.Provider, o.Account, o.Mode, o.EventID, o.ID,
			o.At, o.Body).Scan(&id)
	}
	if err != nil {
		return "", fmt.Errorf("file %s: %w", o.ID, err)
	}
	return id, nil
}

// Begin begins the import of a source's objects, or finds the one that was broken off. From the first one of a mode on,
// nothing follows from what occurred before it.
func (s *Store) Begin(ctx context.Context, source, provider string, modes []string) (i Import, err error) {
	i.Progress = Progress{Cursor: map[string]string{}, Done: map[string]bool{}, Read: map[string]int{},
		LeftOut: map[string]string{}}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, beginSQL, source, provider, modes); err != nil {
			return err
		}
		var progress []byte
		if err := tx.QueryRow(ctx, underWaySQL, source).Scan(&i.ID, &progress, &i.Resumed); err != nil {
			return err
		}
		if err := json.Unmarshal(progress, &i.Progress); err != nil { // it keeps the empty maps
			return err
		}
		i.EffectsFrom, err = schema.Map[string, time.Time](ctx, tx, "read when effects began", effectsFromSQL, provider)
		return err
	})
	for mode, at := range i.EffectsFrom {
		i.EffectsFrom[mode] = at.UTC()
	}
	if err != nil {
		return i, fmt.Errorf("begin import of %s: %w", source, err)
	}
	return i, nil
}

// Advance keeps how far the import has come.
func (s *Store) Advance(ctx context.Context, i Import) error {
	return schema.Exec(ctx, s.pool, "keep how far the import has come", advanceSQL, i.ID, i.Progress, i.Read)
}

// Finish ends the import: the next one begins anew.
func (s *Store) Finish(ctx context.Context, i Import) error {
	return schema.Exec(ctx, s.pool, "finish import", finishSQL, i.ID)
}
