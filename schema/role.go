package schema

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Roles are the database roles of the processes and of external readers. One of these roles may be the role that
// migrates, which has all rights.
type Roles struct {
	Ingress, Worker, Console, Reader []string
}

// rolesLock is an advisory lock. Only the migrator that holds the lock changes the settings of roles. No other code
// uses the number of this lock.
const rolesLock = `select pg_advisory_xact_lock(7261002)`

// SetRoles gives each role exactly the privileges that its process needs, and revokes any others; privilege.go lists
// them. dsn leads to the database. No role may change the schema. Call SetRoles after each [Migrate], because roles
// have no privilege on a new table. It may be called repeatedly.
//
// SetRoles also stores session settings with each role, for connections through a pooler, which cannot set them; see
// [Bound]. The role in dsn gets [Bounds]. The other roles also get [Handling], or the limits of interactive queries for
// the console. Settings of a connection override them.
//
// The role in dsn may lack the right to change another role. SetRoles then logs a message. Connections through a pooler
// then lack the settings, and [CheckSession] returns an error for them.
func SetRoles(ctx context.Context, dsn string, roles Roles, log *slog.Logger) error {
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("set roles: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, migratorConfig(options.ConnConfig))
	if err != nil {
		return fmt.Errorf("set roles: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, rolesLock); err != nil {
			return err
		}
		var database, migrator string
		if err := tx.QueryRow(ctx, `select current_database(), current_user`).Scan(&database, &migrator); err != nil {
			return err
		}
		if err := closePublic(ctx, tx, database, log); err != nil {
			return err
		}
		if err := boundRole(ctx, tx, migrator, database, Bounds); err != nil {
			return err
		}
		for _, of := range []struct {
			roles []string
			told  Settings
			as    process
		}{{roles.Ingress, Handling, ingressProcess}, {roles.Worker, Handling, workerProcess},
			{roles.Console, patient, consoleProcess}, {roles.Reader, Handling, readerProcess}} {
			for _, role := range of.roles {
				if role != migrator {
					if err := grant(ctx, tx, database, role, of.as); err != nil {
						return fmt.Errorf("role %s: %w", role, err)
					}
				}
				err := boundRole(ctx, tx, role, database, Bounds.and(of.told))
				// insufficient_privilege
				if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
					log.InfoContext(ctx, "the timeouts of the role cannot be set; they are needed only behind a pooler: "+
						"grant the role that migrates ADMIN OPTION on the role", "role", role)
				} else if err != nil {
					return fmt.Errorf("role %s: %w", role, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("set roles: %w", err)
	}
	return nil
}

// closePublic revokes all rights on pawl's tables from PUBLIC, which every role of the server belongs to. Otherwise, a
// role that may create temporary tables could create temporary tables with the names of pawl's tables.
//
// Only the owner of the database can revoke rights on the database and on schema public. If another role migrates,
// closePublic logs the statement that the owner has to run.
func closePublic(ctx context.Context, tx pgx.Tx, database string, log *slog.Logger) error {
	quoted := pgx.Identifier{database}.Sanitize()
	for _, sql := range []string{
		`revoke all on all tables in schema public from public`,
		`revoke all on all sequences in schema public from public`,
		`revoke all on all functions in schema public from public`,
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	for _, of := range []struct{ sql, left string }{
		{`revoke temporary on database ` + quoted + ` from public`,
			`select has_database_privilege('public', current_database(), 'temporary')`},
		{`revoke create on schema public from public`,
			`select has_schema_privilege('public', 'public', 'create')`},
	} {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, of.sql)
			return err
		})
		if refused, ok := errors.AsType[*pgconn.PgError](err); err != nil && !(ok && refused.Code == "42501") {
			return err
		}
		left, err := One[bool](ctx, tx, "read the rights of PUBLIC", of.left)
		if err != nil {
			return err
		}
		if left {
			log.WarnContext(ctx, "every role of the server may create objects in the database: "+
				"ask its owner to run the statement", "statement", of.sql)
		}
	}
	return nil
}

// boundRole stores settings for the sessions of a role in the database. It stores all of them or none.
func boundRole(ctx context.Context, tx pgx.Tx, role, database string, settings Settings) error {
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		for _, name := range settings.names() {
			sql := fmt.Sprintf(`alter role %s in database %s set %s = '%s'`,
				pgx.Identifier{role}.Sanitize(), pgx.Identifier{database}.Sanitize(), name, settings[name])
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}
