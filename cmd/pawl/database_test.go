package main

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/schematest"
)

// asking are the commands that ask the database.
var asking = [][]string{
	{"events", "list"}, {"events", "show", "evt_1"}, {"events", "retry", "evt_1", "--why", "x"}, {"events", "run", "evt_1", "--why", "x"},
	{"rejections", "list"}, {"rejections", "show", "x"}, {"rejections", "admit", "x", "--why", "x"}, {"sources"},
}

func TestDatabase_NeverMigrated_SaysMigrate(t *testing.T) {
	t.Parallel()
	if err := schematest.Server(t).EnsureDatabase(t.Context(), "never_migrated"); err != nil {
		t.Fatal(err)
	}
	s := setup(t, schematest.Server(t).DSN("never_migrated"), map[string]string{"stripe": "stripe"})
	for _, args := range asking {
		if r := s.pawl(t, args...); r.code != 1 || !strings.Contains(r.err, "run `pawl migrate`") || strings.Count(r.err, "\n") != 1 {
			t.Errorf("pawl %v: exit %d, stderr %q; want 1 and what to run", args, r.code, r.err)
		}
	}
}

// A server that takes connections and says nothing, as one that is stopped: nobody waits for it for ever.
func TestDatabase_Silent_GivenUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	s := setup(t, "postgres://pawl:hush@"+l.Addr().String()+"/pawl?sslmode=disable", map[string]string{"stripe": "stripe"})
	begin := time.Now()
	r := s.pawl(t, "events", "list")
	if took := time.Since(begin); r.code != 1 || took > connectWithin+5*time.Second || !strings.Contains(r.err, "the database (env:DSN)") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("exit %d after %s, stderr %q; want 1 within %s and a sentence about the database", r.code, took, r.err, connectWithin)
	}
}

// A query that waits behind a lock ends, too.
func TestDatabase_Locked_QueryGivenUp(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `begin; lock table receipts`); err != nil {
		t.Fatal(err)
	}
	a := &app{env: s.variable, configFile: s.file, queryWithin: 500 * time.Millisecond}
	err := a.withDatabase(t.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) error {
		_, err := db.Exec(ctx, `select from receipts`)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "did not answer within 500ms") {
		t.Errorf("withDatabase() = %v; want the deadline", err)
	}
}

// Whatever is wrong with a DSN, no piece of its password is printed.
func TestDatabase_DSNUnreadable_PasswordNotShown(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://pawl:hush@/hush@localhost:5432/pawl", "postgres://pawl:%hush@localhost/pawl",
		"postgres://pawl:hush@localhost:hush/pawl", "host=localhost password='hush", "postgres://pawl:hush@localhost/pawl?sslmode=hush",
	} {
		s := setup(t, dsn, map[string]string{"stripe": "stripe"})
		for _, args := range [][]string{
			{"config", "check"}, {"migrate"}, {"events", "list"}, {"events", "retry", "evt_1", "--why", "x"}, {"events", "run", "evt_1", "--why", "x"},
			{"rejections", "list"}, {"rejections", "admit", "x", "--why", "x"}, {"sources"},
		} {
			r := s.pawl(t, args...)
			if said := r.out + r.err; r.code != 1 || strings.Contains(said, "hush") || !strings.Contains(said, "env:DSN is no Postgres DSN") {
				t.Errorf("pawl %v with %s: exit %d, %s", args, dsn, r.code, said)
			}
		}
	}
}
