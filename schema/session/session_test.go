package session_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/session"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{})
}

func TestSession_LivesAndEnds(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	s := session.New(db)
	ada := session.Session{Issuer: "local", Subject: "ada@acme", Name: "ada", Roles: []string{"viewer", "reveal"}, Via: "password", Credential: "f00d"}
	first, err := s.Begin(t.Context(), ada, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Begin(t.Context(), ada, time.Hour)
	if err != nil || first == second {
		t.Fatalf("a second sign-in: %v, the same secret: %t", err, first == second)
	}
	found, err := s.Find(t.Context(), first)
	if err != nil || found.Name != "ada" || found.Issuer != "local" || found.Subject != "ada@acme" || !slices.Equal(found.Roles, ada.Roles) ||
		found.Via != "password" || found.Credential != "f00d" {
		t.Fatalf("found %+v, %v", found, err)
	}
	for name, secret := range map[string]string{"of nobody": "x", "empty": ""} {
		if _, err := s.Find(t.Context(), secret); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("a secret %s: %v", name, err)
		}
	}
	if err := s.End(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(t.Context(), first); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("after its end: %v", err)
	}
	if _, err := s.Find(t.Context(), second); err != nil {
		t.Errorf("the other one: %v", err)
	}
	// the same name with another issuer, or another subject
	for _, of := range [][2]string{{"local", "ada"}, {"https://idp.example", "ada@acme"}} {
		if err := s.EndAll(t.Context(), of[0], of[1]); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Find(t.Context(), second); err != nil {
			t.Errorf("after the end of another person's: %v", err)
		}
	}
	if err := s.EndAll(t.Context(), "local", "ada@acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(t.Context(), second); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("after the end of all: %v", err)
	}
}

func TestSession_OverOrIdle_IsNone(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	s := session.New(db)
	for name, sql := range map[string]string{
		"over": `update sessions set ends_at = now() - interval '1 second'`,
		"idle": `update sessions set seen_at = now() - interval '3 hours'`,
	} {
		secret, err := s.Begin(t.Context(), session.Session{Issuer: "local", Subject: name, Name: name, Roles: []string{"viewer"}, Via: "oidc"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Find(t.Context(), secret); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Begin(t.Context(), session.Session{Name: "new", Via: "oidc", Roles: []string{}}, time.Hour); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := db.QueryRow(t.Context(), `select count(*) from sessions`).Scan(&left); err != nil || left != 1 {
		t.Errorf("%d sessions are left, %v; ended ones are deleted at the next sign-in", left, err)
	}
}
