// Package health reads the state of the database server. It needs no rights beyond the rights of pawl's own roles.
package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Server is the state of a server.
type Server struct {
	// Version is the server's version, such as "16.10". Role is the role of the connection.
	Version, Role string
	// Superuser reports whether the role is a superuser, Owner whether it owns pawl's tables.
	Superuser, Owner bool
	ReadOnly         bool
	// Off lists settings that are disabled although a crash could then lose an acknowledged commit.
	Off []string
	// Size is the size of the database, Bodies the size of the payloads in it, in bytes.
	Size, Bodies int64
	// Connections is the number of open connections of all databases. Most is the limit for roles that are not
	// superusers.
	Connections, Most int
	// Oldest is the age of the oldest open transaction, or zero. OldestBy is the role of that transaction.
	Oldest   time.Duration
	OldestBy string
	// StandbyLag is the replay lag of the slowest standby. It is nil if there is no standby, or if the role may not
	// read the lag.
	StandbyLag *time.Duration
	// SeesAll reports whether the role may see the transactions of all roles, and not only its own.
	SeesAll bool
	// Now is the server's time.
	Now time.Time
}

// offSQL reads Server.Off.
const offSQL = `select name from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off' order by name`

const serverSQL = `
select split_part(current_setting('server_version'), ' ', 1) as version, current_user::text as role,
       (select rolsuper from pg_roles where rolname = current_user) as superuser,
       coalesce(pg_has_role((select relowner from pg_class where oid = to_regclass('receipts')), 'member'), false) as owner,
       pg_is_in_recovery() or current_setting('default_transaction_read_only')::boolean as read_only,
       array(` + offSQL + `)::text[] as off,
       pg_database_size(current_database()) as size,
       coalesce(pg_total_relation_size(to_regclass('receipt_bodies')), 0) as bodies,
       (select count(*) from pg_stat_activity where backend_type = 'client backend' or datname is not null and backend_type is null)::int as connections,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as most,
       coalesce(oldest.lasts, interval '0') as oldest, coalesce(oldest.who, '') as oldest_by,
       (select max(coalesce(replay_lag, interval '0')) from pg_stat_replication where state is not null) as standby_lag,
       pg_has_role('pg_read_all_stats', 'member') as sees_all,
       clock_timestamp() as now
  from (select 1) as one
  left join lateral (
       select now() - xact_start as lasts,
              'pid ' || pid || ' of ' || coalesce(usename, 'nobody') || coalesce(' (' || nullif(application_name, '') || ')', '') as who
         from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid() and backend_type = 'client backend'
        order by xact_start limit 1) oldest on true`

// Read returns the state of the server.
func Read(ctx context.Context, db schema.Querier) (Server, error) {
	return schema.One[Server](ctx, db, "read the state of the database", serverSQL)
}

// CheckDurability returns an error if a setting of the server could lose an acknowledged commit. A process that answers
// providers calls it before it starts.
func CheckDurability(ctx context.Context, db schema.Querier) error {
	off, err := schema.List[string](ctx, db, "check durability", offSQL)
	faults := []error{err}
	for _, name := range off {
		faults = append(faults,
			fmt.Errorf("the database has %s = off: an acknowledged event could be lost; turn it on", name))
	}
	return errors.Join(faults...)
}
