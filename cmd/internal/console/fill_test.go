package console_test

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed testdata/fill.sql
var fillSQL string

// secondary are the indexes without a constraint. Creating them after the rows is faster.
const secondary = `
select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) from pg_index i
  join pg_class c on c.oid = i.indrelid and c.relnamespace = 'public'::regnamespace
 where not exists (select from pg_constraint where conindid = i.indexrelid)
 order by 1`

// fill creates receipts in an empty database, distributed over the last year, with all dependent rows; see
// testdata/fill.sql. Ten million receipts take some minutes and 30 GB.
func fill(t testing.TB, pool *pgxpool.Pool, receipts int) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	begin := time.Now()
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%.200s: %v", sql, err)
		}
		if first, _, _ := strings.Cut(strings.TrimSpace(sql), "\n"); receipts >= 1_000_000 {
			t.Logf("%4.0f s: %.80s", time.Since(begin).Seconds(), first)
		}
	}
	rows, _ := conn.Query(t.Context(), secondary) // CollectRows returns its error
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Name, Definition string }])
	if err != nil {
		t.Fatal(err)
	}
	exec(`set statement_timeout = 0; set enable_seqscan = on; set enable_hashjoin = on; set session_replication_role = replica;
		set maintenance_work_mem = '1GB'; set work_mem = '256MB'`)
	for _, i := range indexes {
		exec("drop index " + i.Name)
	}
	_, statements, _ := strings.Cut(fillSQL, "end at an empty line; each gets $1.\n")
	for sql := range strings.SplitSeq(statements, "\n\n") {
		exec(strings.ReplaceAll(sql, "$1", fmt.Sprint(receipts)))
	}
	for _, i := range indexes {
		exec(i.Definition)
	}
	exec("vacuum analyze")
	exec("discard all")
}
