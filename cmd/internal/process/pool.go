package process

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema"
)

// The connections of a process: those that take webhooks and start their workflows, and those that run effects. Each
// part has its own, also where both are one process, so that nothing that effects wait for stops a webhook. Group
// commit needs few.
const (
	intakeConns = 8
	effectConns = 16
)

// OpenPool returns a pool of up to conns connections on the configured database, unless the URL says how many.
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

// ParseDSN reads the DSN that name refers to. Its error holds no part of the DSN, as pgx's own do: where a
// password is not encoded, what they leave visible is a piece of it.
func ParseDSN(name, dsn string) (*pgxpool.Config, error) {
	options, err := pgxpool.ParseConfig(dsn)
	// After a password with "@" and "/" in it, the rest of it would be told as the database's name.
	if err != nil || strings.Contains(options.ConnConfig.Database, "@") {
		return nil, fmt.Errorf("database: %s is no Postgres DSN: write postgres://user:password@host:5432/database, with %%40 for @ and %%2F for / in the password", name)
	}
	return options, nil
}

// CheckSchemaVersion refuses a schema that lacks migrations.
func CheckSchemaVersion(version int) error {
	if latest := schema.Latest(); version < latest {
		return fmt.Errorf("the database's schema is at version %d and this pawl needs %d: run `pawl migrate`", version, latest)
	}
	return nil
}
