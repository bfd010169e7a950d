package config

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decoder fills a configuration by walking the YAML tree, because a standard decoder stops at the first error and
// does not keep the lines of the settings.
type decoder struct {
	faults Faults
	// lines contains the line of every key in the file. places contains the position of every text in the file.
	lines  map[string]int
	places map[string]place
	// written contains every key with a scalar value in the file, even a zero value.
	written map[string]bool
}

// place is a position in the file, from 1.
type place struct{ line, column int }

// placeOf returns the position of the first character of a text.
func placeOf(n ast.Node) place {
	at := n.GetToken().Position
	switch n := n.(type) {
	case *ast.LiteralNode:
		text := n.Value.GetToken()
		indent := len(text.Origin) - len(strings.TrimLeft(strings.TrimLeft(text.Origin, "\n"), " "))
		return place{at.Line + 1, indent + 1}
	case *ast.StringNode:
		if t := n.GetToken().Type; t == token.SingleQuoteType || t == token.DoubleQuoteType {
			return place{at.Line, at.Column + 1}
		}
	}
	return place{at.Line, at.Column}
}

func (d *decoder) fault(key string, line int, problem, fix string) {
	d.faults = append(d.faults, Fault{Key: key, Line: line, Problem: problem, Fix: fix})
}

func (d *decoder) decode(n ast.Node, v reflect.Value, key string) {
	if tag, ok := n.(*ast.TagNode); ok {
		n = tag.Value
	}
	if _, ok := n.(*ast.NullNode); n == nil || ok {
		return // a key without a value counts as unset
	}
	line := n.GetToken().Position.Line
	if _, ok := d.lines[key]; !ok {
		d.lines[key] = line
	}
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		d.fault(key, line, "anchors and aliases are not supported", "write the value again instead")
		return
	}
	if a, ok := v.Addr().Interface().(*Accounts); ok {
		d.accounts(n, a, key)
		return
	}
	_, single := scalarText(n)
	_, fromText := v.Addr().Interface().(encoding.TextUnmarshaler)
	// A struct that can be written as a single text can also be written as a mapping.
	if fromText && (single || v.Kind() != reflect.Struct || len(fieldNames(v.Type())) == 0) ||
		v.Type() == reflect.TypeFor[time.Duration]() {
		d.scalar(n, v, key, line)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), key)
	case reflect.Struct:
		d.object(n, v, key, line)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		d.pairs(n, key, line, func(name, sub string, value ast.Node) {
			elem := reflect.New(v.Type().Elem()).Elem()
			d.decode(value, elem, sub)
			v.SetMapIndex(reflect.ValueOf(name), elem)
		})
	case reflect.Slice:
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			d.fault(key, line, "is not a list", "write a YAML list: [a, b] or one \"- item\" per line")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
		for i, item := range seq.Values {
			d.decode(item, v.Index(i), fmt.Sprintf("%s[%d]", key, i))
		}
	default:
		d.scalar(n, v, key, line)
	}
}

// object decodes a struct. An unknown key is a fault.
func (d *decoder) object(n ast.Node, v reflect.Value, key string, line int) {
	names := fieldNames(v.Type())
	d.pairs(n, key, line, func(name, sub string, value ast.Node) {
		i, ok := names[name]
		if problem, fix, found := retired(sub); !ok && found {
			d.fault(sub, d.lines[sub], problem, fix)
			return
		}
		if !ok {
			d.fault(sub, d.lines[sub], "is not a known key", suggest(name, names))
			return
		}
		d.decode(value, v.FieldByIndex(i), sub)
	})
}

func (d *decoder) pairs(n ast.Node, key string, line int, each func(name, sub string, value ast.Node)) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		if problem, fix, found := retired(key); found {
			d.fault(key, line, problem, fix)
			return
		}
		d.fault(key, line, "is not a mapping", "write \"name: value\" pairs, indented below it")
		return
	}
	lineOf := map[string]int{}
	for _, pair := range values {
		name := pair.Key.GetToken()
		sub := name.Value
		if key != "" {
			sub = key + "." + sub
		}
		if first, ok := lineOf[name.Value]; ok {
			d.fault(sub, name.Position.Line, fmt.Sprintf("is already set on line %d", first), "keep one of the two")
			continue
		}
		lineOf[name.Value] = name.Position.Line
		d.lines[sub] = name.Position.Line
		each(name.Value, sub, pair.Value)
	}
}

func (d *decoder) scalar(n ast.Node, v reflect.Value, key string, line int) {
	text, ok := scalarText(n)
	if !ok {
		d.fault(key, line, "is not a single value", "write one value after the colon")
		return
	}
	d.written[key], d.places[key] = true, placeOf(n)
	if problem, fix, err := parse(v, text); err != nil {
		d.fault(key, line, problem, fix)
	}
}

// parse sets v to the value of text. If it fails, it returns the problem and its fix.
func parse(v reflect.Value, text string) (problem, fix string, err error) {
	problem = fmt.Sprintf("%q is not valid", text)
	u, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case ok:
		if err = u.UnmarshalText([]byte(text)); err == nil {
			return "", "", nil
		}
		problem, fix = "is not valid", err.Error()
		if p, f, ok := strings.Cut(fix, ": "); ok && v.Type() == reflect.TypeFor[Ref]() {
			problem, fix = p, f
		} else if v.Type() == reflect.TypeFor[time.Time]() {
			fix = "write a time such as 2026-01-31T00:00:00Z"
		}
	case v.Type() == reflect.TypeFor[time.Duration]():
		var dur time.Duration
		dur, err = ParseDuration(text)
		fix = "write a duration with its unit, such as 30s, 5m, 24h or 21d"
		v.SetInt(int64(dur))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		fix = "write true or false"
		v.SetBool(b)
	case v.Kind() == reflect.Int:
		var i int64
		i, err = strconv.ParseInt(text, 10, 32)
		fix = "write a whole number"
		v.SetInt(i)
	case v.Kind() == reflect.Float64:
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		fix = "write a number such as 0.01"
		v.SetFloat(f)
	default:
		panic("config: cannot parse a field of type " + v.Type().String())
	}
	return problem, fix, err
}

// scalarText returns the text of a scalar without quotes.
func scalarText(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// ParseDuration parses a duration, which may contain days: "30s", "21d", "1d12h". A day has 24 hours.
func ParseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseInt(days, 10, 16) // at most 89 years
	if err != nil || rest == "" {
		return time.Duration(n) * day, err
	}
	more, err := time.ParseDuration(rest)
	return time.Duration(n)*day + more, err
}

// fieldNames maps the YAML names of a struct to its fields, including the fields of inline structs.
func fieldNames(t reflect.Type) map[string][]int {
	names := make(map[string][]int, t.NumField())
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); name != "" && name != "-" && name != ",inline" {
			names[name] = f.Index
		}
	}
	return names
}

// suggest returns the most similar known key, or a list of all known keys.
func suggest[V any](name string, known map[string]V) string {
	best, at := "", 3 // with three edits or more, it is a different word
	all := slices.Sorted(maps.Keys(known))
	for _, k := range all {
		if n := distance(name, k); n < at {
			best, at = k, n
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "known here: " + strings.Join(all, ", ")
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, cost)
		}
	}
	return row[len(b)]
}

// Bytes is a size, written as a plain number of bytes or with a unit: 512KiB, 1MiB.
type Bytes int64

var units = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}}

// UnmarshalText parses "1MiB", "512KiB" or "1048576".
func (b *Bytes) UnmarshalText(text []byte) error {
	s, size := strings.TrimSpace(string(text)), int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.suffix); ok {
			s, size = strings.TrimSpace(n), u.size
			break
		}
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil || n < 0 || n > (1<<62)/size {
		return errors.New("write a size such as 1MiB, 512KiB or 1048576")
	}
	*b = Bytes(n * size)
	return nil
}
