package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// MaxDepth is the maximum nesting depth of a payload. The payloads of providers have fewer than 20 levels.
// encoding/json rejects more than 10,000 levels, and a recursive parser overflows its stack earlier.
const MaxDepth = 512

// MaxKeys is the maximum number of keys in an object that an [Envelope] reads. The envelopes of providers have fewer
// than 100 keys. An object with a million keys would take two seconds to read.
const MaxKeys = 1 << 16

// object holds the members of one JSON object by key.
type object map[string]member

type member struct {
	value string // in JSON
	twice bool
}

// ambiguous reports whether a key of o differs from key in case only. A parser that ignores case, such as
// encoding/json, may read the value of the wrong key.
func (o object) ambiguous(key string) bool {
	for other := range o {
		if other != key && strings.EqualFold(other, key) {
			return true
		}
	}
	return false
}

// readDocument parses body, which must be one JSON document (RFC 8259). readable is false if body is not one valid
// document. If readDocument returns a problem and readable is true, the caller can still read the fields of the
// document.
func readDocument(body []byte) (document gjson.Result, problem Problem, readable bool) {
	body, mark := bytes.CutPrefix(body, []byte("\uFEFF"))
	raw := bytes.Trim(body, " \t\r\n")
	if len(raw) == 0 {
		return document, EmptyBody, false
	}
	checked, deep := shallow(raw)
	if !gjson.ValidBytes(checked) {
		var first json.RawMessage
		if json.NewDecoder(bytes.NewReader(checked)).Decode(&first) == nil {
			return document, TrailingData, false
		}
		return document, NotJSON, false
	}
	switch {
	case mark:
		problem = ByteOrderMark
	case !utf8.Valid(raw):
		problem = InvalidUTF8
	case deep:
		problem = TooDeep
	default:
		problem = escapeProblem(raw)
	}
	return gjson.ParseBytes(raw), problem, true
}

// shallow returns raw without the parts that are nested deeper than MaxDepth, and reports whether it removed any. gjson
// is recursive: a million open brackets would overflow the stack and end the process. If raw does not close a deep
// list, the result is not a JSON document.
func shallow(raw []byte) (checked []byte, deep bool) {
	if bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("[")) <= MaxDepth {
		return raw, false
	}
	checked = bytes.Clone(raw)
	depth, text := 0, false
	for i := 0; i < len(raw); i++ {
		blank := depth > MaxDepth
		switch c := raw[i]; {
		case text && c == '\\' && i+1 < len(raw):
			if blank {
				checked[i] = ' '
			}
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{', c == '[':
			depth++
			deep = deep || depth > MaxDepth
		case c == '}', c == ']':
			depth--
			blank = depth > MaxDepth
		}
		if blank {
			checked[i] = ' '
		}
	}
	if depth > MaxDepth {
		return nil, true
	}
	return checked, deep
}

// escapeProblem returns the problem of an escape sequence in raw: a NUL character, or half a surrogate pair, which JSON
// parsers replace by U+FFFD. raw must be a valid document, so that every backslash is in a string.
func escapeProblem(raw []byte) (problem Problem) {
	unit := func(escape []byte) rune { // the UTF-16 code unit of \uXXXX, -1 for anything else
		if len(escape) < 6 || escape[0] != '\\' || escape[1] != 'u' {
			return -1
		}
		n, _ := strconv.ParseUint(string(escape[2:6]), 16, 16) // valid, because the document is
		return rune(n)
	}
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return problem
		}
		raw = raw[i:]
		switch first := unit(raw); {
		case first < 0:
			raw = raw[2:]
		case first == 0:
			return NulCharacter
		case !utf16.IsSurrogate(first):
			raw = raw[6:]
		case utf16.DecodeRune(first, unit(raw[6:])) != utf8.RuneError:
			raw = raw[12:]
		default:
			problem = InvalidUnicode
			raw = raw[6:]
		}
	}
}

// parseObject returns the members of a valid JSON object. It also returns a problem if there are too many keys or two
// keys are equal.
func parseObject(raw gjson.Result) (o object, problem Problem) {
	o = object{}
	raw.ForEach(func(key, value gjson.Result) bool {
		m, seen := o[key.Str]
		switch {
		case seen:
			m.twice = true
			problem = cmp.Or(problem, DuplicateKey)
		case len(o) == MaxKeys:
			problem = TooManyKeys // the more precise problem
			return false
		default:
			m.value = value.Raw
		}
		o[key.Str] = m
		return true
	})
	return o, problem
}

// Elements returns the elements of the JSON array in body. If body has a problem, Elements returns it; the slice is nil
// if body cannot be read as an array. Elements does not check the elements: the caller reads each element as an
// [Envelope].
func Elements(body []byte) ([]json.RawMessage, Problem) {
	document, problem, readable := readDocument(body)
	switch {
	case !readable:
		return nil, problem
	case !document.IsArray():
		return nil, NotAnArray
	}
	elements := []json.RawMessage{}
	document.ForEach(func(_, value gjson.Result) bool {
		elements = append(elements, json.RawMessage(value.Raw))
		return true
	})
	return elements, ""
}
