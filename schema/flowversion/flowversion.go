// Package flowversion stores the versions of the flows in the configuration. Versions are never changed or deleted,
// because parked runs keep the version with which they began.
package flowversion

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

// Version is one version of a flow.
type Version struct {
	// Hash identifies the version.
	Hash string
	Name string
	// Body is the version as JSON.
	Body []byte
}

// Store stores versions in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

const saveSQL = `insert into flow_versions (hash, name, body) values ($1, $2, $3) on conflict do nothing`

// Save stores a version. A known version stays as it is.
func (s *Store) Save(ctx context.Context, v Version) error {
	return schema.Exec(ctx, s.pool, "store the version of flow "+v.Name, saveSQL, v.Hash, v.Name, v.Body)
}

const getSQL = `select hash, name, body from flow_versions where hash = $1`

// Get returns a version. The error is [schema.ErrNotFound] if no process has stored it.
func (s *Store) Get(ctx context.Context, hash string) (Version, error) {
	return schema.One[Version](ctx, s.pool, "read flow version "+hash, getSQL, hash)
}
