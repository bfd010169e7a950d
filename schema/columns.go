package schema

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// Columns converts rows of type T to the parameters of a statement that reads them with unnest, one array per column.
// Make one with [ColumnsOf].
type Columns[T any] struct {
	// fields contains, for each array parameter in order, the index of the field in T.
	fields [][]int
}

var (
	// unnested matches "unnest($1::text[], $2::int[]) as t(key, round)". The list may name more columns than there are
	// arrays, such as the ordinality; such a column has no parameter.
	unnested  = regexp.MustCompile(`unnest\((\$[^)]*)\)\s+(?:with ordinality\s+)?(?:as\s+)?\w+\s*\(([^)]*)\)`)
	parameter = regexp.MustCompile(`^\$(\d+)::[\w ]+\[\]$`)
)

// ColumnsOf finds the field of T for each column of each unnest in sql, by name. The column run_id belongs to the field
// RunID, or to the field with the tag `db:"run_id"`. Fields of embedded structs are included. Fields without a column
// are ignored.
//
// It panics if a column has no field, or if the numbers of the array parameters have a gap. sql is a constant, so the
// panic happens at program start.
func ColumnsOf[T any](sql string) Columns[T] {
	names := map[int]string{}
	first := 0
	for _, found := range unnested.FindAllStringSubmatch(sql, -1) {
		columns := strings.Split(found[2], ",")
		for i, p := range strings.Split(found[1], ",") {
			number := parameter.FindStringSubmatch(strings.TrimSpace(p))
			if number == nil || i >= len(columns) {
				panic(fmt.Sprintf("unnest of %q: %q is not an array parameter with a column", found[0], p))
			}
			n, _ := strconv.Atoi(number[1]) // cannot fail: the pattern matches only digits
			name := strings.TrimSpace(columns[i])
			if before, ok := names[n]; ok && before != name {
				panic(fmt.Sprintf("parameter $%d belongs to two columns, %s and %s", n, before, name))
			}
			if names[n] = name; first == 0 || n < first {
				first = n
			}
		}
	}
	if len(names) == 0 {
		panic("the statement has no unnest of parameters: " + sql)
	}
	byName := fieldsByName(structOf[T]())
	c := Columns[T]{fields: make([][]int, len(names))}
	for i := range c.fields {
		name, ok := names[first+i]
		if !ok {
			panic(fmt.Sprintf("the array parameters have a gap at $%d", first+i))
		}
		if c.fields[i], ok = byName[plain(name)]; !ok {
			panic(fmt.Sprintf("%s has no field for column %s", reflect.TypeFor[T](), name))
		}
	}
	return c
}

// structOf returns T, or the type that T points to.
func structOf[T any]() reflect.Type {
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// fieldsByName returns the index of each exported field of t. A field hides fields of the same name in embedded
// structs.
func fieldsByName(t reflect.Type) map[string][]int {
	byName := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		name := f.Name
		if tag, ok := f.Tag.Lookup("db"); ok {
			name = tag
		}
		if known, ok := byName[plain(name)]; f.IsExported() && (!ok || len(f.Index) < len(known)) {
			byName[plain(name)] = f.Index
		}
	}
	return byName
}

// plain makes the names of fields and columns comparable.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// Args returns one array per column in the order of the parameters.
func (c Columns[T]) Args(rows []T) []any {
	all := make([]reflect.Value, len(rows))
	for i := range rows {
		all[i] = reflect.Indirect(reflect.ValueOf(&rows[i]).Elem())
	}
	t := structOf[T]()
	args := make([]any, len(c.fields))
	for i, index := range c.fields {
		of := t.FieldByIndex(index).Type
		if of.Kind() == reflect.String { // pgx encodes a []string faster than a slice of a named type
			texts := make([]string, len(rows))
			for r, row := range all {
				texts[r] = row.FieldByIndex(index).String()
			}
			args[i] = texts
			continue
		}
		values := reflect.MakeSlice(reflect.SliceOf(of), len(rows), len(rows))
		for r, row := range all {
			values.Index(r).Set(row.FieldByIndex(index))
		}
		args[i] = values.Interface()
	}
	return args
}

// Row returns the values of one row in the order of the parameters, for a statement that takes single values.
func (c Columns[T]) Row(row T) []any {
	v := reflect.Indirect(reflect.ValueOf(&row).Elem())
	args := make([]any, len(c.fields))
	for i, index := range c.fields {
		args[i] = v.FieldByIndex(index).Interface()
	}
	return args
}
