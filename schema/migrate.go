// Package schema is the database: its migrations, and below it one package per kind of row.
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

// versionTable holds one row with the number of the last migration.
const versionTable = "public.schema_version"

// lockTimeout bounds how long a migration waits for a lock. All statements that queue behind a waiting ALTER TABLE
// wait with it, so a migration that does not get its lock soon steps back and tries again rather than stop the
// ingress.
const lockTimeout = "2s"

// patience bounds how long Migrate tries again for a lock; the other migrator, or the long
// transaction in the way, should be done by then.
const patience = 2 * time.Minute

// connectWithin bounds a connection where the DSN does not: a stopped server takes one and never answers.
const connectWithin = 10 * time.Second

// NewerError says that the database was migrated by a newer pawl.
type NewerError struct{ Database, Binary int }

func (e *NewerError) Error() string {
	return fmt.Sprintf("the database is at version %d and this binary knows %d: use the newer pawl", e.Database,
		e.Binary)
}

// Migrate brings the database at dsn to the latest version. It is safe to call by many
// processes at once and when there is nothing to do; it only goes forward. Each migration is one
// transaction together with its version number: after an error the database stands at the last
// migration that was finished, and Migrate can be called again.
//
// The DSN must lead to Postgres directly or through a session-mode pooler: a migrator sets its session's name and
// time-outs.
func Migrate(ctx context.Context, dsn string, log *slog.Logger) error {
	options, err := pgxpool.ParseConfig(dsn) // knows a pool's parameters from the server's
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

// migratorConfig is config for a connection that migrates.
func migratorConfig(config *pgx.ConnConfig) *pgx.ConnConfig {
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectWithin
	}
	config.DialFunc = dialer.DialContext
	// A migrator that is gone holds the locks of its tables no longer than anybody else.
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

// migrating is the lock that a migrator holds for one migration: of several, one is at work.
const migrating = 9_628_173_550_095_224

// step brings the database one migration further, in one transaction with the number of that. It returns false where
// none was missing.
func step(ctx context.Context, conn *pgx.Conn, list []migration, log *slog.Logger) (more bool, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(migrating)); err != nil {
			return err
		}
		fresh, err := One[bool](ctx, tx, "look for "+versionTable, `select to_regclass($1) is null`, versionTable)
		if err != nil {
			return err
		}
		if fresh { // asked first: who may not create tables may find that nothing is to be done
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

// These tell how to mend errors that a database's own set-up causes, by their codes: at a migration, and when the
// schema's version is read.
var (
	migrated = map[string]string{
		// protocol_violation; from a pooler: "unsupported startup parameter"
		"08P01": "the URL leads to a pooler that passes no settings on; migrate over a URL that leads to PostgreSQL itself",
		// insufficient_privilege
		"42501": "grant the role that migrates CREATE on schema public, or make it the database's owner",
	}
	asked = map[string]string{
		// duplicate and missing prepared statements: another connection's
		"42P05": poolerUntold, "26000": poolerUntold,
	}
)

// advice is that of the list for err, behind a colon, "" where it has none.
func advice(err error, list map[string]string) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && list[pgErr.Code] != "" {
		return ": " + list[pgErr.Code]
	}
	return ""
}

// migration is one file.
type migration struct{ name, sql string }

// load returns the migrations in their order. Their numbers begin at 1 and have no gaps.
func load() ([]migration, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	var list []migration
	for i, name := range names {
		if prefix := fmt.Sprintf("migrations/%03d_", i+1); !strings.HasPrefix(name, prefix) {
			return nil, fmt.Errorf("migrate: %s stands where %s is expected", name, prefix)
		}
		sql, err := migrations.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("migrate: %w", err)
		}
		list = append(list, migration{strings.TrimPrefix(name, "migrations/"), string(sql)})
	}
	return list, nil
}

// Version returns the number of the last migration that the database has; 0 for one that was
// never migrated. It takes no lock, so it can be asked through any pooler.
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

// Latest returns the number of the last migration that this binary knows.
func Latest() int {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		panic("schema: " + err.Error()) // a malformed pattern
	}
	return len(names) // their numbers begin at 1 and have no gaps
}
