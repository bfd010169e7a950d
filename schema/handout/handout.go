// Package handout keeps what providers hand out and may change at any time (PayPal's certificates), by the URL where it
// was: what one process has fetched is there for all, and after a restart.
package handout

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store keeps handouts in Postgres. It is safe for concurrent use.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{"load": loadSQL, "save": saveSQL}

// A provider changes such a thing once a year: all there are is a handful.
const loadSQL = `select url, content from handouts`

// Load returns the newest content of each URL.
func (s *Store) Load(ctx context.Context) (map[string][]byte, error) {
	all := map[string][]byte{}
	var url string
	var content []byte
	rows, err := s.pool.Query(ctx, loadSQL)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&url, &content}, func() error {
			all[url], content = content, nil
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("load handouts: %w", err)
	}
	return all, nil
}

const saveSQL = `
insert into handouts (url, content) values ($1, $2)
on conflict (url) do update set content = excluded.content, fetched_at = now()`

// Save keeps content in the place of what was at the URL.
func (s *Store) Save(ctx context.Context, url string, content []byte) error {
	if _, err := s.pool.Exec(ctx, saveSQL, url, content); err != nil {
		return fmt.Errorf("save handout of %s: %w", url, err)
	}
	return nil
}
