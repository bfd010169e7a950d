// Package imports stores the progress of imports, so that an interrupted import resumes.
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

// Store stores the progress of imports in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Import is one import of all objects of a source from its provider.
type Import struct {
	// ID is the ID of the import. The imported facts contain this ID instead of a receipt ID.
	ID string
	// Resumed is set if an earlier process began the import.
	Resumed bool
	Progress
}

// Progress is the progress of an import.
type Progress struct {
	// Cursor maps each list of the provider that is partly read to the start of its next page. Done contains the lists
	// that are read completely.
	Cursor map[string]string
	Done   map[string]bool
	// Read counts the objects by kind. LeftOut contains the reason for each object that could not be read.
	Read    map[string]int
	LeftOut map[string]string
}

const beginSQL = `
insert into imports (source, provider) values ($1, $2) on conflict (source) where finished_at is null do nothing`

const underWaySQL = `select id::text, cursor, read <> '{}' from imports where source = $1 and finished_at is null`

const advanceSQL = `update imports set cursor = $2, read = $3 where id = $1::uuid`

const finishSQL = `update imports set finished_at = now() where id = $1::uuid`

// receiptSQL inserts a receipt for an imported object. Scheduled actions need a receipt: the actions of an event refer
// to the receipt of the event, and the actions of an imported object refer to the receipt that receiptSQL inserts.
const receiptSQL = `
insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, occurred_at, received_at, body_hash, status)
values ($1, $2, $3, $4, $5, $6, 'id', 'import', $7, $8, now(), sha256($9::bytea), 'processed')
    on conflict (event_id, provider, account, mode) do update set duplicates = receipts.duplicates
returning id::text`

// Object is an imported object.
type Object struct {
	Source, Provider, Account, Mode string
	// EventID is made from the import and the object. The facts of the object have it as their event ID.
	EventID string
	ID      string
	// At is when the provider returned the object. Body is the object as JSON. It is not stored, because it contains
	// personal data.
	At   time.Time
	Body []byte
}

// Receipt inserts the receipt of an object and returns its ID. tx must also apply the facts of the object. If one
// import reads an object twice, the object has one receipt.
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

// Begin starts an import of the objects of a source, or resumes an import that was interrupted.
func (s *Store) Begin(ctx context.Context, source, provider string) (i Import, err error) {
	i.Progress = Progress{Cursor: map[string]string{}, Done: map[string]bool{}, Read: map[string]int{},
		LeftOut: map[string]string{}}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, beginSQL, source, provider); err != nil {
			return err
		}
		var progress []byte
		if err := tx.QueryRow(ctx, underWaySQL, source).Scan(&i.ID, &progress, &i.Resumed); err != nil {
			return err
		}
		return json.Unmarshal(progress, &i.Progress) // decoding keeps the empty maps
	})
	if err != nil {
		return i, fmt.Errorf("begin import of %s: %w", source, err)
	}
	return i, nil
}

// Advance stores the progress of the import.
func (s *Store) Advance(ctx context.Context, i Import) error {
	return schema.Exec(ctx, s.pool, "store the progress of the import", advanceSQL, i.ID, i.Progress, i.Read)
}

// Finish ends the import. The next import reads all objects again.
func (s *Store) Finish(ctx context.Context, i Import) error {
	return schema.Exec(ctx, s.pool, "finish import", finishSQL, i.ID)
}
