package flow

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// decodeJSON decodes a JSON value for expressions. A number without fraction and exponent that fits 64 bits becomes an
// int64, so that long IDs keep all digits. Any other number becomes a float64.
func decodeJSON(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is not one JSON value")
	}
	return withNumbers(v)
}

func withNumbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("the number %.40s is out of range", v)
		}
		return f, nil
	case []any:
		for i := range v {
			if v[i], err = withNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = withNumbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// native returns a CEL value as decodeJSON returns it. It returns a value that JSON does not have unchanged. It does
// not copy a map or a list of the event, so the caller must not change the result.
func native(v ref.Val) any {
	switch v := v.(type) {
	case types.Null:
		return nil
	case types.Bool:
		return bool(v)
	case types.Int:
		return int64(v)
	case types.Double:
		return float64(v)
	case types.String:
		return string(v)
	case traits.Mapper:
		if part, ok := v.Value().(map[string]any); ok {
			return part
		}
		m := map[string]any{}
		for i := v.Iterator(); i.HasNext() == types.True; {
			key := i.Next()
			m[text(key)] = native(v.Get(key))
		}
		return m
	case traits.Lister:
		return natives(v)
	}
	return v
}

// natives is native for a list.
func natives(v traits.Lister) []any {
	if part, ok := v.Value().([]any); ok {
		return part
	}
	list := []any{}
	for i := v.Iterator(); i.HasNext() == types.True; {
		list = append(list, native(i.Next()))
	}
	return list
}

// adapter converts Go values to CEL values. Its maps iterate in the order of their keys, because a body must have the
// same bytes in every attempt.
type adapter struct {
	types.Adapter
	// exact rejects floating-point numbers, which do not keep all digits of an ID.
	exact bool
}

// NativeToValue implements [types.Adapter].
func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return sorted{types.NewStringInterfaceMap(a, v)}
	case map[ref.Val]ref.Val:
		return sorted{types.NewRefValMap(a, v)}
	case []any:
		return types.NewDynamicList(a, v)
	case float64:
		if a.exact {
			return types.NewErr("the value is a floating-point number, which does not keep all digits of an ID")
		}
	}
	return a.Adapter.NativeToValue(v)
}

// sorted is a map that iterates in the order of its keys.
type sorted struct{ traits.Mapper }

// sortLiterals is a decorator that makes the map literals of an expression iterate in the order of their keys.
func sortLiterals(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	if c, ok := i.(interpreter.InterpretableConstructor); ok && c.Type() == types.MapType {
		return literal{c}, nil
	}
	return i, nil
}

// literal is a map literal with sorted keys.
type literal struct{ interpreter.InterpretableV2 }

// Exec evaluates the literal.
func (l literal) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := l.InterpretableV2.Exec(frame)
	if m, ok := v.(traits.Mapper); ok {
		return sorted{m}
	}
	return v
}

// Iterator returns the keys in their order.
func (s sorted) Iterator() traits.Iterator {
	var keys []ref.Val
	for i := s.Mapper.Iterator(); i.HasNext() == types.True; {
		keys = append(keys, i.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int { return strings.Compare(text(a), text(b)) })
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

// text returns the value of a map key as text.
func text(v ref.Val) string { return fmt.Sprint(v.Value()) }

// encoder writes CEL values as JSON, at most limit bytes.
type encoder struct {
	bytes.Buffer
	limit int
}

// encodeJSON returns the JSON of a CEL value. The keys of objects are sorted.
func encodeJSON(v ref.Val, limit int) ([]byte, error) {
	e := encoder{limit: limit}
	if err := e.value(v, 0); err != nil {
		return nil, err
	}
	return e.Bytes(), nil
}

// maxDepth is the maximum nesting of a body.
const maxDepth = 64

func (e *encoder) value(v ref.Val, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested more than %d levels deep", maxDepth)
	}
	switch v := v.(type) {
	case types.Null:
		return e.put("null")
	case types.Bool, types.Int, types.Uint:
		return e.put(fmt.Sprint(v.Value()))
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return errors.New("it contains a number that JSON cannot represent")
		}
		return e.native(float64(v))
	case types.String:
		return e.native(string(v))
	case types.Bytes:
		return e.native(base64.StdEncoding.EncodeToString(v))
	case types.Timestamp:
		return e.native(v.UTC().Format(time.RFC3339Nano))
	case types.Duration:
		return e.native(v.Duration.String())
	case traits.Lister:
		return e.list(v, depth)
	case traits.Mapper:
		return e.object(v, depth)
	}
	return fmt.Errorf("it contains a value of type %s, which JSON cannot represent", v.Type().TypeName())
}

func (e *encoder) list(v traits.Lister, depth int) error {
	separator := "["
	for i := v.Iterator(); i.HasNext() == types.True; separator = "," {
		if err := e.put(separator); err != nil {
			return err
		}
		if err := e.value(i.Next(), depth+1); err != nil {
			return err
		}
	}
	if separator == "[" {
		return e.put("[]")
	}
	return e.put("]")
}

func (e *encoder) object(v traits.Mapper, depth int) error {
	separator := "{"
	for i := (sorted{v}).Iterator(); i.HasNext() == types.True; separator = "," {
		key := i.Next()
		if err := e.put(separator); err != nil {
			return err
		}
		if err := e.native(text(key)); err != nil {
			return err
		}
		if err := e.put(":"); err != nil {
			return err
		}
		if err := e.value(v.Get(key), depth+1); err != nil {
			return err
		}
	}
	if separator == "{" {
		return e.put("{}")
	}
	return e.put("}")
}

func (e *encoder) native(v any) error {
	encoded, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return e.put(string(encoded))
}

func (e *encoder) put(s string) error {
	if e.Len()+len(s) > e.limit {
		return fmt.Errorf("it is larger than %d bytes", e.limit)
	}
	_, err := e.WriteString(s)
	return err
}
