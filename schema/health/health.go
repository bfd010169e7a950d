// Package health reads how the database server stands, for who wants to know whether pawl can rely on it. It only
// reads, and asks for nothing that pawl's own roles may not see.
package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Server is how a server stands.
type Server struct {
	// Version is the server's, as "16.10"; Role is whom the connection is.
	Version, Role string
	// Superuser and Owner say that the role is one, or owns pawl's tables.
	Superuser, Owner bool
	ReadOnly         bool
	// Off are the settings that are off, without which a commit that was acknowledged could be lost.
	Off []string
	// Size is that of the database, Bodies that of the payloads in it, in bytes.
	Size, Bodies int64
	// Connections is the number of open ones, of all databases; Most bounds those of roles that are no superuser.
	Connections, Most int
	// Oldest is the age of the oldest transaction, zero without any, and OldestBy its role.
	Oldest   time.Duration
	OldestBy string
	// StandbyLag is how long the slowest standby takes to replay, nil without any, or where the role may not see it.
	StandbyLag *time.Duration
	// SeesAll says that the role may see the transactions of all roles, and not its own only.
	SeesAll bool
	// Now is the server's clock.
	Now time.Time
}

// offSQL lists the settings that are off, without which a commit that was acknowledged could be lost.
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

// Read returns how the server stands.
func Read(ctx context.Context, db schema.Querier) (Server, error) {
	return schema.One[Server](ctx, db, "read how the database stands", serverSQL)
}

// CheckDurability reports every setting of the server under which a commit that was acknowledged could be lost. A
// process that answers providers calls it before it starts.
func CheckDurability(ctx context.Context, db schema.Querier) error {
	off, err := schema.List[string](ctx, db, "check durability", offSQL)
	faults := []error{err}
	for _, name := range off {
		faults = append(faults,
			fmt.Errorf("the database has %s = off: an acknowledged event could be lost; turn it on", name))
	}
	return errors.Join(faults...)
}

// rightsSQL asks for what a worker and an operator need: see schema.SetRoles. The audit trail only grows; nobody but
// a migration writes the schema's version.
const rightsSQL = `
select format('%s on %s', lower(needs.privilege), c.relname) as lacks
  from pg_class c
 cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) as needs (privilege)
 where c.relnamespace = to_regnamespace('public') and c.relkind in ('r', 'p')
   and not (c.relname = 'operator_actions' and needs.privilege in ('UPDATE', 'DELETE'))
   and not (c.relname = 'schema_version' and needs.privilege <> 'SELECT')
   and not has_table_privilege(c.oid, needs.privilege)
 order by c.relname, needs.privilege`

// Lacks lists the rights that the connection's role lacks to do what a worker and an operator do, as "insert on runs".
func Lacks(ctx context.Context, db schema.Querier) ([]string, error) {
	return schema.List[string](ctx, db, "read what the role may do", rightsSQL)
}
