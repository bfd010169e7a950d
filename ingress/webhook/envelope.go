package webhook

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Envelope reads the few fields of a JSON object that identify and route an event.
//
// It parses the raw bytes and is stricter than encoding/json. Keys are case-sensitive. It reports a problem for invalid
// UTF-8, lone surrogates, \u0000, deep nesting, trailing data, and a duplicate key in an object that it reads. Numbers
// stay text. No method returns an error: a lookup without a result returns a zero value, and [Envelope.Problem] returns
// the first problem of the document. The time is linear in the size of the body.
//
// An Envelope is not safe for concurrent use.
type Envelope struct {
	body    []byte
	problem string
	// shared is set if objects contain keys of the sender beside the provider's keys.
	shared bool
	// objects caches each object that was read, by its path. The path of the root is "". objects is nil if the body
	// cannot be read.
	objects map[string]object
}

// ReadEnvelope parses body. The Envelope refers to body and does not change it.
func ReadEnvelope(body []byte) *Envelope {
	e := &Envelope{body: body}
	e.read()
	return e
}

// ReadSharedEnvelope is [ReadEnvelope] for objects with keys of the sender beside the provider's keys. A duplicate key
// is a problem only if it is looked up. Keys that differ in case are different keys.
func ReadSharedEnvelope(body []byte) *Envelope {
	e := &Envelope{body: body, shared: true}
	e.read()
	return e
}

// read is a separate function so that the compiler can inline its callers. An envelope that does not escape then stays
// on the stack.
func (e *Envelope) read() {
	document, problem, readable := readDocument(e.body)
	if problem != "" {
		e.Note(problem, "")
	}
	switch {
	case !readable:
	case !document.IsObject():
		e.Note(NotAnObject, "")
	default:
		root, problem := parseObject(document)
		e.noteKeys(problem, "")
		e.objects = map[string]object{"": root}
	}
}

// noteKeys records the problem p of an object's keys. It does nothing if p is "".
func (e *Envelope) noteKeys(p Problem, detail string) {
	if p != "" && !(e.shared && p == DuplicateKey) {
		e.Note(p, detail)
	}
}

// Note records a problem unless one is recorded already: the first problem is closest to the cause.
func (e *Envelope) Note(p Problem, detail string) {
	if e.problem != "" {
		return
	}
	e.problem = string(p)
	if detail != "" {
		e.problem += ": " + detail
	}
}

// Problem returns the first problem, or "".
func (e *Envelope) Problem() string { return e.problem }

// Readable reports whether the body is one JSON object. If Readable returns false, every lookup returns a zero value.
func (e *Envelope) Readable() bool { return e.objects != nil }

// Raw returns the JSON value at path, a list of keys joined by dots ("data.object.id"). It returns false if the value
// is missing, or if a key of the path occurs twice, so that the intended value is unknown.
func (e *Envelope) Raw(path string) (json.RawMessage, bool) {
	value := e.at(path)
	return json.RawMessage(value.Raw), value.Exists()
}

// at is [Envelope.Raw] with a parsed value. Result.Exists is false if the path is missing.
func (e *Envelope) at(path string) gjson.Result {
	if e.objects == nil {
		return gjson.Result{}
	}
	parent, key := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, key = path[:i], path[i+1:]
	}
	o := e.object(parent)
	m, ok := o[key]
	switch {
	case e.shared && m.twice:
		e.Note(DuplicateKey, strconv.Quote(key))
	case !e.shared && ok && o.ambiguous(key):
		e.Note(AmbiguousKey, strconv.Quote(key))
	}
	if m.twice {
		return gjson.Result{}
	}
	return gjson.Parse(m.value)
}

// object returns the object at path, or nil.
func (e *Envelope) object(path string) object {
	if o, ok := e.objects[path]; ok {
		return o
	}
	var o object
	if value := e.at(path); value.IsObject() {
		var problem Problem
		o, problem = parseObject(value)
		e.noteKeys(problem, "in "+path)
	}
	e.objects[path] = o
	return o
}

// Has reports whether there is a value other than null at path.
func (e *Envelope) Has(path string) bool {
	return e.at(path).Type != gjson.Null
}

// String returns the string at path, or "" for any other value.
func (e *Envelope) String(path string) string { return e.at(path).Str }

// Number returns the text of the number at path, or "".
func (e *Envelope) Number(path string) json.Number {
	if value := e.at(path); value.Type == gjson.Number {
		return json.Number(value.Raw)
	}
	return ""
}

// Text returns the string or number at path as text, because the IDs of some providers are numbers.
func (e *Envelope) Text(path string) string {
	if n := e.Number(path); n != "" {
		return n.String()
	}
	return e.String(path)
}

// Mode reads a boolean livemode at path. It returns "" if the payload does not contain one.
func (e *Envelope) Mode(path string) Mode {
	switch e.at(path).Type {
	case gjson.True:
		return Live
	case gjson.False:
		return Test
	}
	return ""
}

// UnixTime returns the time at path in whole seconds since 1970, or the zero time. It notes any other value as a
// problem.
func (e *Envelope) UnixTime(path string) time.Time {
	if !e.Has(path) {
		return time.Time{}
	}
	t, err := ParseUnix(path, e.Number(path).String())
	if err != nil {
		e.Note(InvalidOccurredAt, path)
		return time.Time{}
	}
	return t.UTC()
}

// RFC3339 returns the time at path, or the zero time. It notes any other value as a problem.
func (e *Envelope) RFC3339(path string) time.Time {
	if !e.Has(path) {
		return time.Time{}
	}
	t := e.Moment(path)
	if t.IsZero() {
		e.Note(InvalidOccurredAt, path)
	}
	return t
}

// Moment is [Envelope.RFC3339] for times of the object rather than of the envelope. A value that cannot be parsed is
// the zero time and not a problem.
func (e *Envelope) Moment(path string) time.Time {
	return ParseMoment(e.String(path), time.RFC3339Nano)
}

// EventID returns the event's ID at path, for providers that always send an ID. If the ID is unusable, EventID returns
// its hash; if the ID is missing, it returns the hash of the body. In both cases it notes a problem.
func (e *Envelope) EventID(path string) (string, IDOrigin) {
	value := e.at(path)
	switch {
	case value.Str != "":
		return e.UsableID(value.Str, FromBody)
	case !e.Readable():
	case value.Type == gjson.Null, value.Type == gjson.String:
		e.Note(MissingEventID, path)
	default:
		e.Note(InvalidEventID, "not a string")
	}
	return HashID(e.body), FromHash
}

// UsableID calls the function [UsableID] and notes its problem.
func (e *Envelope) UsableID(id string, origin IDOrigin) (string, IDOrigin) {
	id, origin, problem := UsableID(id, origin)
	if problem != "" {
		e.Note(InvalidEventID, problem)
	}
	return id, origin
}

// EventType returns the event's type at path. It notes a problem if the type is missing or unusable.
func (e *Envelope) EventType(path string) string {
	t := e.String(path)
	if t == "" {
		if e.Readable() {
			e.Note(MissingEventType, path)
		}
		return ""
	}
	if why := unroutable(t); why != "" {
		e.Note(InvalidEventType, why)
		return ""
	}
	return t
}

// Tag returns the ID at path: a string, a number, or the id of an expanded object. It returns "" if the ID cannot be
// stored and shown as a routing field (account, object, API version).
func (e *Envelope) Tag(path string) string {
	if s := e.Text(path); s != "" {
		return Tag(s)
	}
	return Tag(e.Text(path + ".id"))
}

// FirstTag returns the [Envelope.Tag] of the first path that has one, or "".
func (e *Envelope) FirstTag(paths ...string) string {
	for _, path := range paths {
		if tag := e.Tag(path); tag != "" {
			return tag
		}
	}
	return ""
}
