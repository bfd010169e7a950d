package stripe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Unusable returns the reason why s cannot be stored or used in a key, or "". s may have at most most bytes. The reason
// does not contain s: histories contain the reason, and s may be an e-mail address. Postgres rejects NUL, and
// encoding/json replaces broken escapes by U+FFFD, so that two IDs could become equal.
func Unusable(s string, most int) string {
	if len(s) > most {
		return fmt.Sprintf("has %d bytes, at most %d can be stored", len(s), most)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return "has unprintable or broken characters"
	}
	return ""
}

// object is a JSON object with fields that are decoded one by one. Names match exactly, whereas encoding/json would
// accept "ID" for "id".
type object map[string]json.RawMessage

// parse decodes body as one JSON object.
func parse(body []byte) (object, error) {
	if !utf8.Valid(body) {
		return nil, review(Unreadable, "body", "invalid UTF-8")
	}
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, review(Unreadable, "body", "is "+shape(body)+", not a JSON object")
	}
	if o == nil {
		return nil, review(Unreadable, "body", "null")
	}
	return o, nil
}

// has reports whether the field is present, even if it is null.
func (o object) has(name string) bool {
	_, ok := o[name]
	return ok
}

// null reports whether the field is absent or null.
func (o object) null(name string) bool {
	raw, ok := o[name]
	return !ok || bytes.Equal(raw, []byte("null"))
}

// is reports whether the field is true.
func (o object) is(name string) bool { return string(o[name]) == "true" }

// object returns the nested object. It returns an empty object if the field is absent, null or not an object.
func (o object) object(path ...string) object {
	for _, name := range path {
		var inner object
		if json.Unmarshal(o[name], &inner) != nil {
			return nil
		}
		o = inner
	}
	return o
}

// objects returns an array of objects, and false if the field is not such an array.
func (o object) objects(name string) ([]object, bool) {
	var found []object
	ok := json.Unmarshal(o[name], &found) == nil && found != nil
	return found, ok
}

// text returns a string field, or "" if it is absent, null or not a string.
func (o object) text(name string) (s string) {
	_ = json.Unmarshal(o[name], &s) // s stays "" if decoding fails
	return s
}

// ref returns the ID of a reference, which is a string or an expanded object, or "".
func (o object) ref(name string) string {
	if id := o.text(name); id != "" {
		return id
	}
	return o.object(name).text("id")
}

// errAbsent means that a field is absent or null.
var errAbsent = errors.New("absent")

// mostInteger is the maximum of amounts, quantities and times. No real amount is so large, and the sum of thousands of
// such amounts fits into 64 bits.
const mostInteger = 1_000_000_000_000_000

// integer returns an exact integer, because money must not pass through a float. Its errors do not contain the value,
// which may be an e-mail address.
func (o object) integer(name string) (int64, error) {
	if o.null(name) {
		return 0, errAbsent
	}
	n, err := strconv.ParseInt(string(o[name]), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), n > mostInteger, n < -mostInteger:
		return 0, fmt.Errorf("is a number beyond %d", mostInteger)
	case err != nil:
		return 0, fmt.Errorf("is %s, not a whole number", shape(o[name]))
	}
	return n, nil
}

// shape describes a value without repeating it: its JSON type and its length.
func shape(raw []byte) string {
	is := "invalid JSON"
	if json.Valid(raw) {
		switch bytes.TrimSpace(raw)[0] {
		case '"':
			is = "a string"
		case '{':
			is = "an object"
		case '[':
			is = "an array"
		case 't', 'f':
			is = "a boolean"
		case 'n':
			is = "null"
		default:
			is = "a number"
		}
	}
	return fmt.Sprintf("%s of %d bytes", is, len(raw))
}

// latest is the end of the year 9999 in Unix seconds. encoding/json rejects later times, so an activity with such a
// result would be retried forever. A time in milliseconds after 1978 is also rejected.
const latest = 253402300799

// unix returns a time in Unix seconds.
func (o object) unix(name string) (time.Time, error) {
	n, err := o.integer(name)
	if err != nil {
		return time.Time{}, err
	}
	if n <= 0 || n > latest {
		return time.Time{}, errors.New("is not a time in seconds between 1970 and 9999")
	}
	return time.Unix(n, 0).UTC(), nil
}

// overlay returns the earlier state of o: its fields, replaced by the fields of an event's previous_attributes.
// Stripe sends only the changed fields of nested objects, but all elements of arrays.
func (o object) overlay(previous object) object {
	was := make(object, len(o))
	for name, raw := range o {
		was[name] = raw
	}
	for name, raw := range previous {
		now, then := o.object(name), previous.object(name)
		if now != nil && then != nil {
			if merged, err := json.Marshal(now.overlay(then)); err == nil {
				raw = merged
			}
		}
		was[name] = raw
	}
	return was
}
