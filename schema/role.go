package schema

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// rolesLock lets one migrator at a time change the settings of roles. Nothing else uses its number.
const rolesLock = `select pg_advisory_xact_lock(7261002)`

// BoundRoles has the server tell the settings to every session of these roles in the database at dsn, for
// connections that cannot tell them themselves: see [Bound]. The role that dsn names gets [Bounds], since people use it,
// too; roles, which are those of ingress and worker, get [Handling] besides. A connection's own settings go before
// these. It may be called again, and changes sessions that begin afterwards.
func BoundRoles(ctx context.Context, dsn string, roles ...string) error {
	options, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("bound roles: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, migratorConfig(options.ConnConfig))
	if err != nil {
		return fmt.Errorf("bound roles: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, rolesLock); err != nil {
			return err
		}
		var database string
		if err := tx.QueryRow(ctx, `select current_database()`).Scan(&database); err != nil {
			return err
		}
		if err := boundRole(ctx, tx, "current_user", database, Bounds); err != nil {
			return err
		}
		for _, role := range roles {
			if err := boundRole(ctx, tx, pgx.Identifier{role}.Sanitize(), database, Bounds.and(Handling)); err != nil {
				return fmt.Errorf("role %s: %w%s", role, err, advice(err, bounded))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("bound roles: %w", err)
	}
	return nil
}

// bounded is what to do where a role's settings cannot be set.
var bounded = map[string]string{
	"42501": "only the role itself, or one that may manage it, can set them: migrate as a superuser, or with ADMIN OPTION on the role",
}

func boundRole(ctx context.Context, tx pgx.Tx, role, database string, settings Settings) error {
	for _, name := range settings.names() {
		sql := fmt.Sprintf(`alter role %s in database %s set %s = '%s'`, role, pgx.Identifier{database}.Sanitize(), name, settings[name])
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
