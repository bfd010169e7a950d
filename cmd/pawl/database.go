package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema"
)

// What a person waits for at most: connectWithin for a connection, however many addresses there are to try,
// and queryWithin for the whole of what a command asks.
const (
	connectWithin = 10 * time.Second
	queryWithin   = 30 * time.Second
)

// askingConns is as many connections as a command uses at once.
const askingConns = 4

// withDatabase calls f with the configured database, under a deadline. Where the database cannot be reached,
// or does not fit this binary, f is not called and the error says so.
func (a *app) withDatabase(ctx context.Context, f func(context.Context, *config.Config, *pgxpool.Pool) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	pool, err := process.OpenPool(ctx, cfg, schema.Asking, askingConns)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.queryWithin)
	defer cancel()
	if err = checkDatabase(ctx, cfg, pool); err == nil {
		err = f(ctx, cfg, pool)
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// Closing the pool waits for connections that a stopped server never answers; the process ends now.
		return silent(cfg, a.queryWithin)
	}
	pool.Close()
	return err
}

func silent(cfg *config.Config, within time.Duration) error {
	return fmt.Errorf("the database (%s) did not answer within %s: it is stopped, overloaded or locked", cfg.Database, within)
}

// checkDatabase refuses a database that cannot be reached, and one that is older than this binary.
func checkDatabase(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	version, err := schema.Version(ctx, pool)
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect):
		return unreachable(cfg, connect)
	case errors.Is(err, context.DeadlineExceeded):
		return silent(cfg, connectWithin)
	case err != nil:
		return err
	}
	return process.CheckSchemaVersion(version)
}

// causeOf is why a connection failed, in one line: there is one for each address and TLS mode that was tried,
// and the first is enough.
func causeOf(err *pgconn.ConnectError) string {
	cause, _, _ := strings.Cut(err.Unwrap().Error(), "\n")
	return cause
}

func unreachable(cfg *config.Config, err *pgconn.ConnectError) error {
	return fmt.Errorf("the database (%s) cannot be reached: %s%s", cfg.Database, causeOf(err), schema.PoolerAdvice(err))
}
