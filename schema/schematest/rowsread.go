package schematest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// rowsReadSQL counts the rows that were read, or the index entries if they are more.
const rowsReadSQL = `
select t.relname::text, greatest(t.seq_tup_read + coalesce(t.idx_tup_fetch, 0), coalesce(sum(i.idx_tup_read), 0))::bigint
  from pg_stat_user_tables t left join pg_stat_user_indexes i using (relid)
 where t.relname = any($1)
 group by t.relid, t.relname, t.seq_tup_read, t.idx_tup_fetch`

// RowsRead returns the number of rows that the pool has read since the last call, for each table that grows forever.
// All connections must be idle, and no other code may use the database.
func RowsRead(t testing.TB, pool *pgxpool.Pool) map[string]int64 {
	t.Helper()
	for _, conn := range pool.AcquireAllIdle(t.Context()) {
		_, err := conn.Exec(t.Context(), `select pg_stat_force_next_flush()`)
		conn.Release()
		if err != nil {
			t.Fatal(err)
		}
	}
	rows, _ := pool.Query(t.Context(), rowsReadSQL, grows) // ForEachRow returns its error
	read := map[string]int64{}
	var table string
	var count int64
	_, err := pgx.ForEachRow(rows, []any{&table, &count}, func() error { read[table] = count; return nil })
	if err == nil {
		_, err = pool.Exec(t.Context(), `select pg_stat_reset()`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}
