package process

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema"
)

// The maximum number of connections of each process. The URL of the database can set another limit. Each part has a
// pool of its own, even if one process has several parts, so that effects that wait never block a webhook. Group
// commits need few connections. `pawl doctor` compares the sum with max_connections of the server.
const (
	IngressConns = 8
	// EffectConns is for the effects of a worker, RequestConns for the console requests that a worker executes.
	EffectConns  = 16
	RequestConns = 8
	// WorkerConns is the sum for a worker.
	WorkerConns = EffectConns + RequestConns
	// PageConns is for the pages of a console. AccessConns is for tokens and access lookups of the API, so that they do
	// not wait for slow pages.
	PageConns   = 8
	AccessConns = 4
	// ConsoleConns is the sum for a console.
	ConsoleConns = PageConns + AccessConns
	// CommandConns is for one command on the command line.
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

// ParseDSN parses the DSN that name refers to. The error contains no part of the DSN. An error of pgx contains parts of
// the DSN, and could reveal a part of a password that is not percent-encoded.
func ParseDSN(name, dsn string) (*pgxpool.Config, error) {
	options, err := pgxpool.ParseConfig(dsn)
	// If the password contains "@" and "/", pgx parses the rest of the password as the name of the database, which is
	// shown in messages.
	if err != nil || strings.Contains(options.ConnConfig.Database, "@") {
		return nil, fmt.Errorf("database: %s is not a Postgres DSN: write postgres://user:password@host:5432/database, with %%40 for @ and %%2F for / in the password", name)
	}
	return options, nil
}

// CheckSchemaVersion returns an error if the schema lacks migrations that this binary needs.
func CheckSchemaVersion(version int) error {
	if latest := schema.Latest(); version < latest {
		return fmt.Errorf("the database's schema has version %d, but this version of pawl needs %d: run `pawl migrate`", version, latest)
	}
	return nil
}
