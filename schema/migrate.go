// Package schema contains the migrations and the rights of the database, and one package below it per kind of row.
package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// versionTable has one row with the number of the last migration.
const versionTable = "public.schema_version"

// lockTimeout bounds how long a migration waits for a lock. All statements that queue behind a waiting ALTER TABLE wait
// with it. So a migration that does not get its lock soon gives up and tries again, rather than stop the ingress.
const lockTimeout = "2s"

// patience bounds how long Migrate retries to get a lock. The other migrator, or the long transaction that holds the
// lock, should have finished by then.
const patience = 2 * time.Minute

// connectWithin bounds connecting if the DSN does not: a suspended server accepts a connection and never answers.
const connectWithin = 10 * time.Second

// NewerError means that a newer pawl has migrated the database.
type NewerError struct{ Database, Binary int }

func (e *NewerError) Error() string {
	return fmt.Sprintf("the database is at version %d and this binary knows %d: use the newer pawl", e.Database,
		e.Binary)
}

// Migrate brings the database at dsn to the latest version. Many processes may call it at once, and it does nothing if
// the database is up to date. It only migrates forward. Each migration is one transaction together with its version
// number: after an error, the database has the version of the last completed migration, and Migrate can be called
// again.
//
// The DSN must lead to Postgres directly or through a session-mode pooler, because a migrator sets its session's name
// and timeouts.
func Migrate(ctx context.Context, dsn string, log *slog.Logger) error {
	options, err := pgxpool.ParseConfig(dsn) // separates the pool's parameters from the server's
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	config := migratorConfig(options.ConnConfig)
	deadline := time.Now().Add(patience)
	for {
		err := migrateOnce(ctx, config, log)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "55P03" || time.Now().After(deadline) { // lock_not_available
			return err
		}
		log.Warn("migration waits for a lock", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// migratorConfig returns config for a connection that migrates.
func migratorConfig(config *pgx.ConnConfig) *pgx.ConnConfig {
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectWithin
	}
	config.DialFunc = dialer.DialContext
	// A migrator that has died holds its locks no longer than any other connection.
	maps.Copy(config.RuntimeParams, Settings{"lock_timeout": lockTimeout, "statement_timeout": "0"})
	Bounds.addTo(config.RuntimeParams)
	return config
}

func migrateOnce(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("migrate: %w%s", err, advice(err, migrated))
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	list, err := load()
	if err != nil {
		return err
	}
	for more := true; more; {
		if more, err = step(ctx, conn, list, log); err != nil {
			return fmt.Errorf("migrate: %w%s", err, advice(err, migrated))
		}
	}
	return nil
}

// migrating is the advisory lock of a migrator during one migration, so that only one works at a time.
const migrating = 9_628_173_550_095_224

// step migrates the database to the next version, in one transaction with the version number. It returns false if the
// database is up to date.
func step(ctx context.Context, conn *pgx.Conn, list []migration, log *slog.Logger) (more bool, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(migrating)); err != nil {
			return err
		}
		fresh, err := One[bool](ctx, tx, "look for "+versionTable, `select to_regclass($1) is null`, versionTable)
		if err != nil {
			return err
		}
		if fresh { // checked first: a role that may not create tables may have nothing to do
			if _, err := tx.Exec(ctx, `create table `+versionTable+` (version int4 not null); insert into `+
				versionTable+` values (0)`); err != nil {
				return err
			}
		}
		version, err := One[int](ctx, tx, "read "+versionTable, `select version from `+versionTable)
		if err != nil {
			return err
		}
		switch {
		case version > len(list):
			return &NewerError{Database: version, Binary: len(list)}
		case version == len(list):
			return nil
		}
		next := list[version]
		log.Info("migration starts", "version", version+1, "name", next.name)
		if _, err := tx.Exec(ctx, next.sql); err != nil {
			return fmt.Errorf("%s: %w", next.name, err)
		}
		more = true
		_, err = tx.Exec(ctx, `update `+versionTable+` set version = $1`, version+1)
		return err
	})
	return more, err
}

// Advice for errors that the set-up of a database causes, by their codes: during a migration, and when the schema
// version is read.
var (
	migrated = map[string]string{
		// protocol_violation; from a pooler: "unsupported startup parameter"
		"08P01": "the URL leads to a pooler that passes no settings on; migrate over a URL that leads to PostgreSQL itself",
		// insufficient_privilege
		"42501": "grant the role that migrates CREATE on schema public, or make it the database's owner",
	}
	asked = map[string]string{
		// duplicate and missing prepared statements, of another client's connection
		"42P05": poolerUntold, "26000": poolerUntold,
	}
)

// advice returns the advice in list for err, after a colon, or "".
func advice(err error, list map[string]string) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && list[pgErr.Code] != "" {
		return ": " + list[pgErr.Code]
	}
	return ""
}

// migration is one file.
type migration struct{ name, sql string }

// load returns the migrations in order. Their numbers begin at 1 and have no gaps.
func load() ([]migration, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	var list []migration
	for i, name := range names {
		if prefix := fmt.Sprintf("migrations/%03d_", i+1); !strings.HasPrefix(name, prefix) {
			return nil, fmt.Errorf("migrate: found %s, expected %s", name, prefix)
		}
		sql, err := migrations.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("migrate: %w", err)
		}
		list = append(list, migration{strings.TrimPrefix(name, "migrations/"), string(sql)})
	}
	return list, nil
}

// Version returns the number of the database's last migration, or 0 if the database was never migrated. It takes no
// lock and works through any pooler.
func Version(ctx context.Context, db Querier) (int, error) {
	version, err := One[int](ctx, db, "read the schema version", "select version from "+versionTable)
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr) && pgErr.Code == "42P01", errors.Is(err, ErrNotFound): // undefined_table
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("%w%s", err, advice(err, asked))
	}
	return version, nil
}

// Latest returns the number of the newest migration in this binary.
func Latest() int {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		panic("schema: " + err.Error()) // a malformed pattern
	}
	return len(names) // their numbers begin at 1 and have no gaps
}
