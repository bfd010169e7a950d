// Package change compares configurations.
package change

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// Between lists the keys of the settings that differ between two configurations, in order. It contains no value.
func Between(before, after *config.Config) (keys []string) {
	a, b := map[string]any{}, map[string]any{}
	collect(reflect.ValueOf(before), "", a)
	collect(reflect.ValueOf(after), "", b)
	for key, value := range a {
		if other, found := b[key]; !found || !reflect.DeepEqual(value, other) {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, found := a[key]; !found {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// collect adds the values below v by their keys.
func collect(v reflect.Value, key string, into map[string]any) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			collect(v.Elem(), key, into)
		}
	case reflect.Slice:
		for i := range v.Len() {
			collect(v.Index(i), fmt.Sprintf("%s[%d]", key, i), into)
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			collect(entries.Value(), key+"."+entries.Key().String(), into)
		}
	case reflect.Struct:
		settings := 0
		for _, field := range reflect.VisibleFields(v.Type()) {
			if name := field.Tag.Get("yaml"); name != "" && name != "-" && name != ",inline" {
				collect(v.FieldByIndex(field.Index), strings.TrimPrefix(key+"."+name, "."), into)
				settings++
			}
		}
		if settings == 0 { // a time or a reference
			into[key] = v.Interface()
		}
	default:
		into[key] = v.Interface()
	}
}

// NeedsRestart reports whether a process can use a change of the setting only after a restart. The database, Temporal
// and the ops listeners belong to a process as long as it runs.
func NeedsRestart(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	return slices.Contains([]string{"database", "temporal", "ops", "dev"}, section)
}
