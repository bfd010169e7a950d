package schema_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
)

type word string

type place struct {
	RunID string
	Kind  word
}

type step struct {
	place
	Key     string `db:"step_key"`
	Count   int64
	At      *time.Time
	Body    []byte
	Ignored func()
}

const stepsSQL = `
select s.run_id, s.kind, s.step_key, s.count, s.at, s.body, s.n, b.body = s.body as same
  from unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::timestamptz[], $7::bytea[]) with ordinality
       as s(step_key, run_id, kind, count, at, body, n)
  join unnest($2::text[], $7::bytea[]) as b (step_key, body) using (step_key)
 where s.kind <> $1 order by s.n`

func TestColumns_ArriveByName(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	steps := []step{
		{place: place{"r1", "old"}, Key: "a", Count: 1},
		{place: place{"r2", "new"}, Key: "b", Count: 2, At: &at, Body: []byte{0, 1}},
		{place: place{"r3", "new"}, Key: "c", Count: 3, Body: []byte{}},
	}
	args := append([]any{"old"}, schema.ColumnsOf[step](stepsSQL).Args(steps)...)
	type row struct {
		RunID, Kind, StepKey string
		Count, N             int64
		At                   *time.Time
		Body                 []byte
		Same                 bool
	}
	rows, _ := pool.Query(t.Context(), stepsSQL, args...)
	got, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Fatalf("%d rows, want the two of kind new: %+v", len(got), got)
	}
	for i, want := range steps[1:] {
		r := got[i]
		if r.RunID != want.RunID || r.Kind != "new" || r.StepKey != want.Key || r.Count != want.Count || !r.Same ||
			r.N != int64(i+2) || (r.At == nil) != (want.At == nil) || r.At != nil && !r.At.Equal(at) ||
			string(r.Body) != string(want.Body) {
			t.Errorf("row %d is %+v, want %+v", i, r, want)
		}
	}
}

func TestColumns_Mistakes_Panic(t *testing.T) {
	t.Parallel()
	for want, sql := range map[string]string{
		"has no field for column colour":          `select * from unnest($1::text[], $2::text[]) as s(run_id, colour)`,
		"have a gap at $2":                        `select * from unnest($1::text[], $3::text[]) as s(run_id, kind)`,
		"is not an array parameter":               `select * from unnest($1::text[], $2) as s(run_id, kind)`,
		"no unnest of parameters":                 `select 1`,
		"belongs to two columns, run_id and kind": `select * from unnest($1::text[]) a(run_id), unnest($1::text[]) b(kind)`,
		"parameter with a column":                 `select * from unnest($1::text[], $2::text[]) as s(run_id)`,
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, want) {
					t.Errorf("%s\n  panics with %q, want %q", sql, got, want)
				}
			}()
			schema.ColumnsOf[step](sql)
		}()
	}
}
