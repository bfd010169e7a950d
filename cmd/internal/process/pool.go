package process

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema"
)

// The maximum number of connections of each process, unless the URL of the database limits them. Each part has its own
// pool, even if several parts share one process, so that waiting effects never block a webhook. Group commit needs few
// connections. `pawl doctor` compares the sum with the server's max_connections.
const (
	IngressConns = 8
	// EffectConns are for the effects of a worker, RequestConns for the requests of consoles that it executes.
	EffectConns  = 16
	RequestConns = 8
	// WorkerConns is the sum for a worker.
	WorkerConns = EffectConns + RequestConns
	// PageConns are for the pages of a console, AccessConns for the tokens and lookups of the API, since pages may take
	// long.
	PageConns   = 8
	AccessConns = 4
	// ConsoleConns is the sum for a console.
	ConsoleConns = PageConns + AccessConns
	// CommandConns are for one call of the command line.
	CommandConns = 4
)

// OpenPool returns a pool on the configured database with up to conns connections, unless the URL sets the number.
func OpenPool(ctx context.Context, cfg *config.Config, use schema.Use, conns int32) (*pgxpool.Pool, error) {
	options, err := poolOptions(cfg.Database.String(), cfg.Database.Value(), use, conns)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return pool, nil
}

func poolOptions(name, dsn string, use schema.Use, conns int32) (*pgxpool.Config, error) {
	options, err := ParseDSN(name, dsn)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(dsn, "pool_max_conns") {
		options.MaxConns = conns
	}
	schema.Bound(options, use)
	return options, nil
}

// ParseDSN reads the DSN that name refers to. Its error contains no part of the DSN. The errors of pgx do, and
// reveal a part of a password that is not encoded.
func ParseDSN(name, dsn string) (*pgxpool.Config, error) {
	options, err := pgxpool.ParseConfig(dsn)
	// After a password with "@" and "/", the rest of the password would be parsed as the database's name and be shown.
	if err != nil || strings.Contains(options.ConnConfig.Database, "@") {
		return nil, fmt.Errorf("database: %s is no Postgres DSN: write postgres://user:password@host:5432/database, with %%40 for @ and %%2F for / in the password", name)
	}
	return options, nil
}

// CheckSchemaVersion returns an error for a schema that lacks migrations.
func CheckSchemaVersion(version int) error {
	if latest := schema.Latest(); version < latest {
		return fmt.Errorf("the database's schema is at version %d and this pawl needs %d: run `pawl migrate`", version, latest)
	}
	return nil
}
