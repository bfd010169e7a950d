package retention

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// keepSQL also records the size of the database and of its largest tables, with their indexes.
const keepSQL = `
with trimmed as (
    delete from retention_runs where started_at < now() - interval '90 days'
)
insert into retention_runs (started_at, ended_at, deleted, paused_seconds, complete, bytes, tables)
select $1, $2, $3, $4, $5, pg_database_size(current_database()), (
       select jsonb_object_agg(name, bytes) from (
              select c.relname::text as name, pg_total_relation_size(c.oid) as bytes
                from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
               order by 2 desc, 1 limit 12) largest)
on conflict (started_at) do nothing`

// Keep stores a run with the current sizes, and deletes runs that are older than 90 days.
func Keep(ctx context.Context, db schema.Execer, r Run) error {
	return schema.Exec(ctx, db, "store the run of retention", keepSQL, r.StartedAt, r.EndedAt, r.Deleted,
		r.PausedSeconds, r.Complete)
}

// State is the size of the database, how fast it grows, and the last run.
type State struct {
	// MeasuredAt is when the sizes were measured: at the end of the last run.
	MeasuredAt time.Time `json:"measured_at"`
	// Bytes is the size of the database, Tables the size of each of its largest tables, with their indexes.
	Bytes  int64            `json:"bytes"`
	Tables map[string]int64 `json:"tables"`
	// GrowthPerDay is the average growth of the last seven days in bytes. It is null until the sizes of a day are
	// known.
	GrowthPerDay *int64 `json:"growth_per_day"`
	// DiskFullAt is when the disk is full at this growth. It is null if the size of the disk is not configured, or if
	// the database does not grow.
	DiskFullAt *time.Time `json:"disk_full_at"`
	LastRun    Run        `json:"last_run"`
}

const stateSQL = `
with last as (
    select * from retention_runs order by started_at desc limit 1
), earlier as (
    select e.ended_at, e.bytes from retention_runs e cross join last l
     where e.ended_at >= l.ended_at - interval '7 days' and e.ended_at <= l.ended_at - interval '1 day' order by e.started_at limit 1
)
select l.started_at, l.ended_at, l.deleted, l.paused_seconds, l.complete, l.bytes, l.tables,
       ((l.bytes - e.bytes) / (extract(epoch from l.ended_at - e.ended_at) / 86400))::bigint as growth_per_day
  from last l left join earlier e on true`

// ReadState returns the state after the last run, or nil before the first one. disk is the size of the database's disk
// in bytes, or 0 if it is unknown.
func ReadState(ctx context.Context, db schema.Querier, disk int64) (*State, error) {
	row, err := schema.One[struct {
		Run
		Bytes        int64
		Tables       map[string]int64
		GrowthPerDay *int64
	}](ctx, db, "read the state of retention", stateSQL)
	if errors.Is(err, schema.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &State{MeasuredAt: row.EndedAt, Bytes: row.Bytes, Tables: row.Tables, GrowthPerDay: row.GrowthPerDay,
		LastRun: row.Run}
	if disk > 0 && s.GrowthPerDay != nil && *s.GrowthPerDay > 0 {
		days := float64(max(disk-s.Bytes, 0)) / float64(*s.GrowthPerDay)
		if full := time.Duration(days * float64(24*time.Hour)); days < 100*365 {
			at := s.MeasuredAt.Add(full)
			s.DiskFullAt = &at
		}
	}
	return s, nil
}
