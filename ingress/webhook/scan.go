package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep a payload may be nested. Providers' payloads stay below 20; encoding/json
// refuses at 10,000 and a reader that recurses dies earlier.
const MaxDepth = 512

// MaxKeys is how many keys an object on a looked-up path may have. No envelope has a hundred; a
// million of them would cost two seconds.
const MaxKeys = 1 << 16

// object is the members of one JSON object, by key.
type object map[string]member

type member struct {
	value json.RawMessage
	twice bool
}

// ambiguous reports whether a key of o differs from key in case only. Readers that ignore the
// case, as encoding/json does, may take the one for the other.
func (o object) ambiguous(key string) bool {
	for other := range o {
		if other != key && strings.EqualFold(other, key) {
			return true
		}
	}
	return false
}

// scanDocument checks that body is one JSON document and returns it without the white space and
// byte order mark around it. readable is false when it cannot be used at all; a problem beside
// readable leaves the structure sound.
func scanDocument(body []byte) (raw json.RawMessage, problem Problem, readable bool) {
	body, mark := bytes.CutPrefix(body, []byte("\uFEFF"))
	s := scanner{b: body}
	s.space()
	if s.i == len(body) {
		return nil, EmptyBody, false
	}
	start := s.i
	if !s.value(0) {
		return nil, NotJSON, false
	}
	raw = body[start:s.i]
	if s.space(); s.i != len(body) {
		return nil, TrailingData, false
	}
	switch {
	case mark:
		problem = ByteOrderMark
	case !utf8.Valid(raw):
		problem = InvalidUTF8
	case s.deep:
		problem = TooDeep
	case s.nul:
		problem = NulCharacter
	case s.surrogate:
		problem = InvalidUnicode
	}
	return raw, problem, true
}

// parseObject returns the members of raw, a checked JSON object, and the problem that its keys
// have.
func parseObject(raw json.RawMessage) (o object, problem Problem) {
	o = object{}
	s := scanner{b: raw, checked: true, each: func(quoted, value []byte) {
		key, _ := unquote(quoted)
		m, seen := o[key]
		switch {
		case seen:
			m.twice = true
			problem = cmp.Or(problem, DuplicateKey) // less than too many
		case len(o) == MaxKeys:
			problem = TooManyKeys
			return
		default:
			m.value = value
		}
		o[key] = m
	}}
	s.value(0)
	return o, problem
}

// Elements returns the elements of body, a JSON array, and the problem that it has, with a nil
// slice when it cannot be read as an array. Problems inside the elements are not told here: each
// element is read as an [Envelope] of its own.
func Elements(body []byte) ([]json.RawMessage, Problem) {
	raw, problem, readable := scanDocument(body)
	if !readable {
		return nil, problem
	}
	if raw[0] != '[' {
		return nil, NotAnArray
	}
	elements := []json.RawMessage{}
	s := scanner{b: raw, each: func(_, value []byte) { elements = append(elements, value) }}
	s.value(0)
	return elements, ""
}

// scanner walks one JSON value (RFC 8259). It recurses to MaxDepth and no deeper: what lies
// below is skipped unchecked, and noted. It is there for its speed: the same fields and checks by encoding/json take
// about six times as long for an event of Stripe's, and accepting an event would cost an eighth more.
type scanner struct {
	b    []byte
	i    int
	each func(key, value []byte) // called for each member or element of the outermost value
	// checked says that b has been walked before: what its members hold is passed over.
	checked bool
	// Set when any string holds U+0000, or a lone surrogate.
	nul, surrogate bool
	deep           bool
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// accept consumes c, and the white space before it, when it is next.
func (s *scanner) accept(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) value(depth int) bool {
	if depth > MaxDepth {
		s.deep = true
		return s.skip()
	}
	s.space()
	if s.i == len(s.b) {
		return false
	}
	switch c := s.b[s.i]; {
	case c == '{':
		return s.list(depth, '}', true)
	case c == '[':
		return s.list(depth, ']', false)
	case c == '"':
		return s.text()
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	return s.literal("true") || s.literal("false") || s.literal("null")
}

// skip passes over what lies too deep, up to the bracket that closes the list around it.
func (s *scanner) skip() bool {
	for open := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '"':
			if !s.text() {
				return false
			}
			continue
		case '{', '[':
			open++
		case '}', ']':
			if open == 0 {
				return true
			}
			open--
		}
		s.i++
	}
	return false
}

// list walks an object or array.
func (s *scanner) list(depth int, end byte, keyed bool) bool {
	s.i++
	if s.accept(end) {
		return true
	}
	for {
		s.space()
		keyStart := s.i
		if keyed && !(s.i < len(s.b) && s.b[s.i] == '"' && s.text()) {
			return false
		}
		keyEnd := s.i
		if keyed && !s.accept(':') {
			return false
		}
		s.space()
		start := s.i
		if s.checked {
			s.pass()
		} else if !s.value(depth + 1) {
			return false
		}
		if depth == 0 && s.each != nil {
			s.each(s.b[keyStart:keyEnd], s.b[start:s.i])
		}
		if s.accept(end) {
			return true
		}
		if !s.accept(',') {
			return false
		}
	}
}

// pass goes to the end of the value that begins here, which is known to be sound: only brackets and
// quotes matter.
func (s *scanner) pass() {
	for open := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '"':
			s.passText()
			if open == 0 {
				return
			}
			continue
		case '{', '[':
			open++
		case '}', ']':
			if open == 0 {
				return // behind a number or a word that was the last member
			}
			if open--; open == 0 {
				s.i++
				return
			}
		case ',', ' ', '\t', '\n', '\r':
			if open == 0 {
				return
			}
		}
		s.i++
	}
}

// passText goes behind the end of the sound string that begins here: the first quote with an even
// number of backslashes before it.
func (s *scanner) passText() {
	for s.i++; ; {
		quote := bytes.IndexByte(s.b[s.i:], '"')
		if quote < 0 {
			s.i = len(s.b) // not in a sound document
			return
		}
		text := s.b[s.i : s.i+quote]
		s.i += quote + 1
		if (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 0 {
			return
		}
	}
}

func (s *scanner) literal(word string) bool {
	if !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
		return false
	}
	s.i += len(word)
	return true
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

func (s *scanner) number() bool {
	s.literal("-")
	if !s.literal("0") && !s.digits() {
		return false
	}
	if s.literal(".") && !s.digits() {
		return false
	}
	if s.literal("e") || s.literal("E") {
		_ = s.literal("+") || s.literal("-")
		return s.digits()
	}
	return true
}

// text walks a string. Go's own decoder replaces lone surrogates; text remembers them.
func (s *scanner) text() bool {
	high := false // the last escape was the first half of a surrogate pair
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '\\':
			unit, ok := s.escape()
			if !ok {
				return false
			}
			low := unit >= 0xDC00 && unit <= 0xDFFF
			s.nul = s.nul || unit == 0
			s.surrogate = s.surrogate || low != high
			high = unit >= 0xD800 && unit <= 0xDBFF
			continue
		case high:
			s.surrogate, high = true, false
			fallthrough
		default:
			if c == '"' {
				s.i++
				return true
			}
			if c < ' ' {
				return false
			}
		}
	}
	return false
}

// escape reads one escape sequence and stands on its last byte afterwards. unit is the UTF-16
// code unit of \uXXXX, and 1 for the short forms, which name nothing of interest.
func (s *scanner) escape() (unit uint32, ok bool) {
	if s.i++; s.i >= len(s.b) {
		return 0, false
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1, true
	case 'u':
	default:
		return 0, false
	}
	if s.i+4 >= len(s.b) {
		return 0, false
	}
	for range 4 {
		s.i++
		digit := strings.IndexByte("0123456789abcdef", s.b[s.i]|0x20)
		if c := s.b[s.i]; digit < 0 || digit < 10 && c != "0123456789"[digit] {
			return 0, false
		}
		unit = unit<<4 | uint32(digit)
	}
	return unit, true
}
