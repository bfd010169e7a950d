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

// Roles are those that processes connect as, and readers from outside. One may be the role that migrates; it has every
// right then.
type Roles struct {
	Ingress, Worker, Console, Reader []string
}

// rolesLock lets one migrator at a time change the settings of roles. Nothing else uses its number.
const rolesLock = `select pg_advisory_xact_lock(7261002)`

// SetRoles gives roles, in the database at dsn, the rights that their processes need and takes any other that they had
// there: see [grantIngress], [grantWorker], [grantConsole] and [grantReader]. None of them changes the schema. It is
// for after each [Migrate], as a new table is nobody's, and may be called again.
//
// It also has the server tell the settings to every session of theirs that begins afterwards, for connections that
// cannot tell them themselves: see [Bound]. The role that dsn names gets [Bounds], since people use it, too; roles get
// [Handling] besides, and a console's what is for people who ask. A connection's own settings go before these. If dsn's role may not set another's, nothing is set
// and log has it: connections through a pooler then lack the settings, and [CheckSession] says so.
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
		if err := boundRole(ctx, tx, migrator, database, Bounds); err != nil {
			return err
		}
		for _, of := range []struct {
			roles []string
			told  Settings
			grant func(context.Context, pgx.Tx, string) error
		}{{roles.Ingress, Handling, grantIngress}, {roles.Worker, Handling, grantWorker},
			{roles.Console, patient, grantConsole}, {roles.Reader, Handling, grantReader}} {
			for _, role := range of.roles {
				if role != migrator {
					if err := of.grant(ctx, tx, role); err != nil {
						return fmt.Errorf("role %s: %w", role, err)
					}
				}
				err := boundRole(ctx, tx, role, database, Bounds.and(of.told))
				// insufficient_privilege
				if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
					log.InfoContext(ctx, "the role's time-outs cannot be set, which it needs behind a pooler only: "+
						"migrate as a superuser, or with ADMIN OPTION on the role", "role", role)
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

// boundRole has the server tell settings to the role's sessions. It sets all or none.
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
