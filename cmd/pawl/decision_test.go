package main

import (
	"strings"
	"testing"
)

// All users of a container share one account without a name, so a decision requires the person's name.
func TestActor_AccountWithoutName_NeedsPerson(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ id, name, person, want, fault string }{
		{"1000", "ada", "", "uid:1000(ada)", ""},
		{"1000", "ada", "on call", "uid:1000(ada) on call", ""},
		{"65532", "", "ada", "uid:65532 ada", ""},
		{"65532", "", "", "", "add --as NAME or set PAWL_AS"},
	} {
		got, err := actor(tt.id, tt.name, tt.person)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("actor(%q, %q, %q) = %q, %v; want an error with %q", tt.id, tt.name, tt.person, got, err, tt.fault)
			}
		} else if err != nil || got != tt.want {
			t.Errorf("actor(%q, %q, %q) = %q, %v; want %q", tt.id, tt.name, tt.person, got, err, tt.want)
		}
	}
}

// PAWL_AS sets the person, and --as overrides it.
func TestWho_VariableAndFlag(t *testing.T) {
	t.Parallel()
	a := &app{env: func(key string) (string, bool) { return map[string]string{"PAWL_AS": "ada"}[key], key == "PAWL_AS" }}
	for flag, want := range map[string]string{"": " ada", "bob": " bob", " ": " ada"} {
		if got, err := a.who(flag); err != nil || !strings.HasSuffix(got, want) {
			t.Errorf("who(%q) = %q, %v; want …%q", flag, got, err, want)
		}
	}
}
