// Package schema contains the migrations and the privileges of the database. Each kind of row has its own package below
// package schema.
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

// versionTable contains one row with the number of the last migration.
const versionTable = "public.schema_version"

// lockTimeout bounds how long a migration waits for a lock. While an ALTER TABLE waits for a lock, all later statements
// on the table wait behind it. To keep the ingress working, a migration gives up soon and tries again.
const lockTimeout = "2s"

// patience bounds how long Migrate retries to get a lock. Within this time, another migrator or a long transaction
// should have released the lock.
const patience = 2 * time.Minute

// connectWithin is the connect timeout if the DSN sets none. A suspended server would accept the connection and never
// respond.
const connectWithin = 10 * time.Second

// NewerError means that a newer pawl has migrated the database.
type NewerError struct{ Database, Binary int }

func (e *NewerError) Error() string {
	return fmt.Sprintf("the database has version %d, but this pawl supports only version %d: use the newer pawl", e.Database,
		e.Binary)
}

// Migrate brings the database at dsn to the latest version. Several processes may call it at the same time. It does
// nothing if the database is up to date. Each migration is one transaction that also stores the version number. If a
// migration fails, the database has the version of the last completed one, and Migrate can be called again.
//
// The DSN must lead to Postgres directly or through a session-mode pooler, because a migration sets the name and the
// timeouts of its session.
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

// migratorConfig returns config with the session settings of a migration.
func migratorConfig(config *pgx.ConnConfig) *pgx.ConnConfig {
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectWithin
	}
	config.DialFunc = dialer.DialContext
	// These timeouts release the locks of a migrator that died as fast as the locks of other connections.
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

// migrating is the advisory lock that a migrator holds during one migration, so that migrators work one after the
// other.
const migrating = 9_628_173_550_095_224

// step executes the next migration and stores the version number in the same transaction. It returns false if the
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
		if fresh { // check first: a role that may not create tables can still find the database up to date
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

// Advice by SQLSTATE, for errors that a wrong set-up of the database causes: during a migration, and while the version
// is read.
var (
	migrated = map[string]string{
		// protocol_violation: a pooler reports this code with the message "unsupported startup parameter"
		"08P01": "the URL leads to a pooler that does not pass on session settings; migrate over a URL that leads to PostgreSQL itself",
		// insufficient_privilege
		"42501": "grant the role that migrates CREATE on schema public, or make it the database's owner",
	}
	asked = map[string]string{
		// a prepared statement exists twice or is missing, because a pooler shares connections between clients
		"42P05": poolerUnnamed, "26000": poolerUnnamed,
	}
)

// advice returns the advice for err from list, after a colon, or "".
func advice(err error, list map[string]string) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && list[pgErr.Code] != "" {
		return ": " + list[pgErr.Code]
	}
	return ""
}

// migration is one file in the directory migrations.
type migration struct{ name, sql string }

// load returns the migrations in order. Their numbers must begin at 1 and have no gaps.
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
		panic("schema: " + err.Error()) // only for a malformed pattern
	}
	return len(names) // their numbers begin at 1 and have no gaps
}
