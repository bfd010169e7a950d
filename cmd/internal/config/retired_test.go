package config_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// nested returns a file that sets the key at the given path.
func nested(path, value string) string {
	var file strings.Builder
	for depth, name := range strings.Split(path, ".") {
		file.WriteString("\n" + strings.Repeat("  ", depth) + name + ":")
	}
	return file.String() + " " + value + "\n"
}

func TestLoad_RetiredKey_NamesItsSuccessor(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	keys(reflect.TypeFor[config.Config](), "", known)
	for _, r := range config.Retired {
		named := strings.NewReplacer("NAME", "x")
		old, successor := named.Replace(r.Old), named.Replace(r.New)
		_, err := load(t, nested(old, "x"))
		var faults config.Faults
		if !errors.As(err, &faults) {
			t.Fatalf("%s: %v, want faults", r.Old, err)
		}
		problem := ""
		for _, f := range faults {
			if f.Key == old {
				problem = f.Problem
			}
		}
		if problem != "is now "+successor {
			t.Errorf("%s %q, want: is now %s", old, problem, successor)
		}
		if key := strings.Replace(successor, ".x.", ".NAME.", 1); !known[key] && !isSection(known, key) || known[old] {
			t.Errorf("%s is known: %t; %s is known: %t", r.Old, known[r.Old], r.New, known[r.New])
		}
	}
}

// isSection reports whether other keys exist below a path.
func isSection(known map[string]bool, path string) bool {
	for key := range known {
		if strings.HasPrefix(key, path+".") {
			return true
		}
	}
	return false
}

// The retired lists are errors in both forms that they had.
func TestLoad_RetiredLists_NameTheirSuccessor(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"sinks:\n  subscribers: [{name: crm}]\n", "sinks:\n  subscribers: {crm: {url: 'https://crm.test'}}\n"} {
		_, err := load(t, file)
		var faults config.Faults
		if !errors.As(err, &faults) || !slices.ContainsFunc(faults, func(f config.Fault) bool {
			return f.Key == "sinks.subscribers" && f.Problem == "is now destinations"
		}) {
			t.Errorf("%q: %v, want that sinks.subscribers is now destinations", file, err)
		}
	}
}
