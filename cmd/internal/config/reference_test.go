package config_test

import (
	"bytes"
	"encoding"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// docs/configuration.md explains every key that the file may have, and no other key.
func TestReference_EveryKeyExplained(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z_.\\[\\]]+)` \\|").FindAllSubmatch(content, -1) {
		explained[string(m[1])] = true
	}
	known := map[string]bool{}
	keys(reflect.TypeFor[config.Config](), "", known)
	known["sources.NAME.accounts.table"] = true // a keyword among the account IDs
	if len(known) < 50 {
		t.Errorf("found only %d keys", len(known))
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		if !explained[key] {
			t.Errorf("docs/configuration.md does not explain %s", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(explained)) {
		if !known[key] {
			t.Errorf("docs/configuration.md explains %s, which is no key", key)
		}
	}
}

// keys collects the keys of a configuration struct: a.b, a.NAME for names that the user chooses, and a[] for lists.
func keys(t reflect.Type, at string, found map[string]bool) {
	fields := map[string]reflect.Type{}
	if t.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t) {
			if name := f.Tag.Get("yaml"); name != "" && name != "-" && name != ",inline" {
				fields[name] = f.Type
			}
		}
	}
	scalar := reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || t == reflect.TypeFor[time.Duration]()
	if scalar {
		found[at] = true
	}
	switch {
	case t == reflect.TypeFor[config.Accounts]():
		found[at+"[]"], found[at+".NAME"] = true, true
	case len(fields) > 0:
		for name, field := range fields {
			if at != "" {
				name = at + "." + name
			}
			keys(field, name, found)
		}
	case scalar:
	case t.Kind() == reflect.Pointer && strings.HasSuffix(t.Elem().PkgPath(), "activities/flow"):
		keys(t.Elem(), at, found)
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Pointer:
		keys(t.Elem().Elem(), at+".NAME", found)
	case t.Kind() == reflect.Map:
		keys(t.Elem(), at+".NAME", found)
	case t.Kind() == reflect.Slice:
		keys(t.Elem(), at+"[]", found)
	default:
		found[at] = true
	}
}

// The defaults in docs/configuration.md are the values that apply if a key is missing.
func TestReference_Defaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(file, []byte("sources: {s: {provider: github, mode: live, secrets: [{value: env:SECRET}]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, func(string) (string, bool) { return "postgres://localhost/any-name", true }, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.ReplaceAll(content, []byte("`sinks.NAME."), []byte("`sinks.finance."))
	told := regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (?:`([^`]+)`|–) \\|").FindAllSubmatch(content, -1)
	if len(told) < 25 {
		t.Fatalf("found only %d defaults", len(told))
	}
	for _, m := range told {
		key, want := string(m[1]), string(m[2])
		got := at(reflect.ValueOf(cfg).Elem(), key)
		if !got.IsValid() {
			t.Errorf("%s is no key", key)
			continue
		}
		if want == "" {
			if !got.IsZero() {
				t.Errorf("docs/configuration.md gives no default for %s, which is %v", key, got)
			}
			continue
		}
		if !same(got, want) {
			t.Errorf("docs/configuration.md says that %s is %s, and it is %v", key, want, got)
		}
	}
}

// at returns the value of a key.
func at(v reflect.Value, key string) reflect.Value {
	for name := range strings.SplitSeq(key, ".") {
		if v.Kind() == reflect.Map {
			v = v.MapIndex(reflect.ValueOf(name)).Elem()
			continue
		}
		field := reflect.Value{}
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.Tag.Get("yaml") == name {
				field = v.FieldByIndex(f.Index)
			}
		}
		if v = field; !v.IsValid() {
			break
		}
	}
	return v
}

// same compares a value with its text in the file.
func same(v reflect.Value, text string) bool {
	if d, ok := v.Interface().(time.Duration); ok {
		want, err := config.ParseDuration(text)
		return err == nil && d == want
	}
	want := reflect.New(v.Type())
	if u, ok := want.Interface().(encoding.TextUnmarshaler); ok && v.Type() != reflect.TypeFor[config.Ref]() {
		return u.UnmarshalText([]byte(text)) == nil && want.Elem().Interface() == v.Interface()
	}
	return fmt.Sprint(v.Interface()) == text
}
