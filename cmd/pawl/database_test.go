package main

import (
	"strings"
	"testing"
)

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
