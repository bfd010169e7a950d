package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The statements in docs/sinks.md execute each key once, also if two requests with a key arrive at the same time, and
// never replace a workspace with an older version.
func TestDocs_Sinks_StatementsExecuteOnce(t *testing.T) {
	t.Parallel()
	s := documentedSink(t)
	first, second, third := s.connect(t), s.connect(t), s.connect(t)
	together := make(chan string)
	if got := s.execute(t, first, "a", "body", 2, func() {
		go func() { together <- s.execute(t, second, "a", "body", 2, func() {}) }()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for waiting := 0; waiting == 0; <-tick.C {
			if err := third.QueryRow(t.Context(), `select count(*) from pg_stat_activity
				where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
				t.Error(err)
				return
			}
		}
	}); got != "changed, answer a" {
		t.Errorf("the first request: %s", got)
	}
	if got := <-together; got != "repeat, answer a" {
		t.Errorf("the request at the same time: %s", got)
	}
	for _, step := range []struct {
		key, body string
		version   int
		want      string
	}{
		{"a", "another body", 2, "conflict"},
		{"b", "body", 1, "unchanged, answer b"},
		{"b", "body", 1, "repeat, answer b"},
		{"c", "body", 3, "changed, answer c"},
	} {
		if got := s.execute(t, first, step.key, step.body, step.version, func() {}); got != step.want {
			t.Errorf("%+v: %s", step, got)
		}
	}
	if tag, err := first.Exec(t.Context(), s.remove); err != nil || tag.RowsAffected() != 0 {
		t.Errorf("deleted %d keys of today: %v", tag.RowsAffected(), err)
	}
}

// sinkStatements are the statements of docs/sinks.md.
type sinkStatements struct {
	insert, read, change, answer, remove string
	connect                              func(*testing.T) *pgx.Conn
}

// documentedSink reads the statements, and creates the tables in a schema of their own.
func documentedSink(t *testing.T) sinkStatements {
	t.Helper()
	var sql []string
	page := commandtest.Read(t, filepath.Join(repository, "docs", "sinks.md"))
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(page, -1) {
		sql = append(sql, block[1])
	}
	if len(sql) != 6 {
		t.Fatalf("found %d statements, want tables, insert, read, change, answer and delete", len(sql))
	}
	dsn := schematest.NewDSN(t)
	connect := func(t *testing.T) *pgx.Conn {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		config.RuntimeParams["search_path"] = "sink"
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		return conn
	}
	conn := connect(t)
	for _, create := range append([]string{"create schema sink"}, strings.Split(strings.TrimSpace(sql[0]), ";")...) {
		if _, err := conn.Exec(t.Context(), create); err != nil {
			t.Fatalf("%s: %v", create, err)
		}
	}
	return sinkStatements{sql[1], sql[2], sql[3], sql[4], sql[5], connect}
}

// execute runs the steps of the page for a request, and describes its answer. before runs before the commit.
func (s sinkStatements) execute(t *testing.T, conn *pgx.Conn, key, body string, version int, before func()) (got string) {
	ctx := t.Context()
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		inserted, err := tx.Exec(ctx, s.insert, key, []byte(body))
		if err != nil {
			return err
		}
		if inserted.RowsAffected() == 0 {
			var hash []byte
			var status *int
			var answer *string
			if err := tx.QueryRow(ctx, s.read, key).Scan(&hash, &status, &answer); err != nil {
				return err
			}
			if got = "conflict"; string(hash) == body {
				got = "repeat, " + *answer
			}
			return nil
		}
		changed, err := tx.Exec(ctx, s.change, "test", "acme", "active", version)
		if err != nil {
			return err
		}
		if got = "unchanged, answer " + key; changed.RowsAffected() == 1 {
			got = "changed, answer " + key
		}
		_, err = tx.Exec(ctx, s.answer, key, 200, "answer "+key)
		before()
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return got
}
