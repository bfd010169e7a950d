package main

import (
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/schema/schematest"
)

// asking lists the commands that only read the database.
var asking = [][]string{
	{"events", "list"}, {"events", "show", "evt_1"}, {"events", "retry", "evt_1", "--reason", "x"}, {"events", "start", "evt_1", "--reason", "x"},
	{"rejections", "list"}, {"rejections", "show", "x"}, {"rejections", "admit", "x", "--reason", "x"}, {"sources"},
}

func TestDatabase_NeverMigrated_SaysMigrate(t *testing.T) {
	t.Parallel()
	if err := schematest.Server(t).EnsureDatabase(t.Context(), "never_migrated"); err != nil {
		t.Fatal(err)
	}
	s := setup(t, schematest.Server(t).DSN("never_migrated"), map[string]string{"stripe": "stripe"})
	for _, args := range asking {
		if r := s.Pawl(t, args...); r.Code != 1 || !strings.Contains(r.Err, "run `pawl migrate`") || strings.Count(r.Err, "\n") != 1 {
			t.Errorf("pawl %v: exit %d, stderr %q; want 1 and what to run", args, r.Code, r.Err)
		}
	}
}

// A server that accepts connections and does not respond does not block a command.
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
	for _, args := range [][]string{{"events", "list"}, {"migrate"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			r := s.Pawl(t, args...)
			if took := time.Since(begin); r.Code != 1 || took > command.ConnectWithin+5*time.Second || !strings.Contains(r.Err, "the database (env:DSN)") || strings.Count(r.Err, "\n") != 1 {
				t.Errorf("exit %d after %s, stderr %q; want 1 within %s and a sentence about the database", r.Code, took, r.Err, command.ConnectWithin)
			}
		})
	}
}

// If a server is down, pgx returns a line per address and TLS mode, but pawl prints one sentence.
func TestDatabase_Away_OneSentence(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://pawl:hush@127.0.0.1:1/pawl", map[string]string{"stripe": "stripe"})
	for _, args := range append(asking, []string{"migrate"}) {
		if r := s.Pawl(t, args...); r.Code != 1 || !strings.Contains(r.Err, "the database (env:DSN) cannot be reached") || strings.Count(r.Err, "\n") != 1 {
			t.Errorf("pawl %v: exit %d, stderr %q; want 1 and a sentence about the database", args, r.Code, r.Err)
		}
	}
}

// The error about an invalid DSN contains no part of its password.
func TestDatabase_DSNUnreadable_PasswordNotShown(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://pawl:hush@/hush@localhost:5432/pawl", "postgres://pawl:%hush@localhost/pawl",
		"postgres://pawl:hush@localhost:hush/pawl", "host=localhost password='hush", "postgres://pawl:hush@localhost/pawl?sslmode=hush",
	} {
		s := setup(t, dsn, map[string]string{"stripe": "stripe"})
		for _, args := range [][]string{
			{"config", "check"}, {"migrate"}, {"events", "list"}, {"events", "retry", "evt_1", "--reason", "x"}, {"events", "start", "evt_1", "--reason", "x"},
			{"rejections", "list"}, {"rejections", "admit", "x", "--reason", "x"}, {"sources"},
		} {
			r := s.Pawl(t, args...)
			if said := r.Out + r.Err; r.Code != 1 || strings.Contains(said, "hush") || !strings.Contains(said, "env:DSN is not a Postgres DSN") {
				t.Errorf("pawl %v with %s: exit %d, %s", args, dsn, r.Code, said)
			}
		}
	}
}

// A command that only reads requires only the secret of the database, and warns about other missing secrets. A
// command that decides requires all secrets.
func TestSession_SecretsMissing_AsksAllTheSame(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"})
	delete(s.Env, "SECRET")
	for _, args := range [][]string{{"status"}, {"sinks"}, {"sources"}, {"events", "list"}, {"tasks", "list"}, {"audit", "list"}} {
		if r := s.Pawl(t, args...); r.Code != 0 || !strings.Contains(r.Err, "the variable SECRET is not set") {
			t.Errorf("pawl %v: exit %d, %s; want the answer and a warning", args, r.Code, r.Err)
		}
	}
	if r := s.Pawl(t, "sources", "pause", "stripe", "--reason", "x"); r.Code != 1 || !strings.Contains(r.Err, "the variable SECRET is not set") {
		t.Errorf("pause: exit %d, %s; want it refused", r.Code, r.Err)
	}
}

// Every command prints names, types and errors from other systems as plain text on a terminal, in tables, messages,
// JSON, errors and logs.
func TestCommands_WhatComesFromOutside_IsText(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	schematest.Plant(t, pool)
	s := setup(t, pool.Config().ConnString(), map[string]string{"stripe": "stripe"}).At(t, commandtest.Away)
	const x, id = schematest.Planted, schematest.PlantedID
	commands := [][]string{
		{"status"}, {"events", "list"}, {"events", "list", "--status", "dead"}, {"events", "show", id}, {"events", "show", x}, {"events", "payload", id},
		{"events", "retry", id, "--dry-run"}, {"events", "retry", "x" + x, "--reason", x}, {"events", "resend", id, "--confirm", x, "--reason", x},
		{"events", "retry", "--status", "dead", "--dry-run"}, {"approvals", "list"}, {"jobs", "list"}, {"jobs", "show", "job-1"}, {"jobs", "show", x},
		{"accounts", "list"}, {"accounts", "show", x}, {"accounts", "show", "x" + x}, {"accounts", "hold", x, "--dry-run"}, {"accounts", "links"},
		{"rebuild", "--check"}, {"emails", "preview", "--event", id}, {"rules", "show"}, {"payments", "unassigned"}, {"payments", "assign", x, "--account", x, "--dry-run"},
		{"tasks", "list"}, {"tasks", "show", x}, {"tasks", "close", x, "--reason", x, "--dry-run"}, {"rejections", "list"},
		{"rejections", "show", "01890000-0000-7000-8000-000000000002"}, {"rejections", "show", x}, {"rejections", "admit", "01890000-0000-7000-8000-000000000002", "--reason", x},
		{"audit", "list"}, {"audit", "verify"}, {"sources"}, {"sinks"}, {"tokens", "list"}, {"export", x, "--reason", x}, {"forget", x, "--dry-run"},
		{"sinks", "pause", x, "--reason", x}, {x}, {"events", x}, {"events", "list", "--" + x}, {"--config", x, "status"}, {"status", "--log-level", x},
	}
	seen := 0
	for _, args := range commands {
		for _, more := range [][]string{nil, {"--json"}, {"--log-format", "json", "--log-level", "debug"}} {
			args := slices.Concat(args, more)
			r := s.Pawl(t, args...)
			for _, said := range []string{r.Out, r.Err} {
				if at := strings.IndexAny(said, schematest.HiddenIn); at >= 0 {
					t.Errorf("%q writes a hidden character: %q", args, said[max(0, at-80):at+10])
				}
			}
			if strings.Contains(r.Out, "alert(1)") {
				seen++
			}
			if len(more) == 1 && r.Out != "" && !json.Valid([]byte(r.Out)) {
				t.Errorf("%q writes invalid JSON: %.200s", args, r.Out)
			}
		}
	}
	if seen < 40 {
		t.Errorf("%d commands show the planted text: the test does not reach the others", seen)
	}
}
