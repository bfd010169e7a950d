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

// Unusable says why s, of at most the given number of bytes, cannot be stored or stand in a key, "" when it can. It
// does not repeat s: the words stand in histories and reasons, and s may be an address. Postgres refuses a NUL each
// time it is tried; and encoding/json puts U+FFFD where escapes are broken, so that two IDs would be one.
func Unusable(s string, most int) string {
	if len(s) > most {
		return fmt.Sprintf("has %d bytes, at most %d can be stored", len(s), most)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return "has unprintable or broken characters"
	}
	return ""
}

// object is a JSON object whose fields are read one by one. Names are matched exactly: encoding/json
// into a struct would take "ID" for "id".
type object map[string]json.RawMessage

// parse reads body as one JSON object.
func parse(body []byte) (object, error) {
	if !utf8.Valid(body) {
		return nil, review(Unreadable, "body", "invalid UTF-8")
	}
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, review(Unreadable, "body", "not a JSON object: "+err.Error())
	}
	if o == nil {
		return nil, review(Unreadable, "body", "null")
	}
	return o, nil
}

// has reports whether the field stands in o, be it null.
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

// object returns the nested object, empty where it is absent, null or something else.
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

// objects returns an array of objects, and false where the field is something else.
func (o object) objects(name string) ([]object, bool) {
	var found []object
	ok := json.Unmarshal(o[name], &found) == nil && found != nil
	return found, ok
}

// text returns a string field, "" where it is absent, null or no string.
func (o object) text(name string) (s string) {
	_ = json.Unmarshal(o[name], &s) // which leaves s as it is where it fails
	return s
}

// ref returns the ID of a reference, which is a string or an expanded object; "" for none.
func (o object) ref(name string) string {
	if id := o.text(name); id != "" {
		return id
	}
	return o.object(name).text("id")
}

// errAbsent says that a field is absent or null.
var errAbsent = errors.New("absent")

// integer returns a whole number exactly: money must not pass through a float.
func (o object) integer(name string) (int64, error) {
	if o.null(name) {
		return 0, errAbsent
	}
	n, err := strconv.ParseInt(string(o[name]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40s is no whole number of 64 bits", o[name])
	}
	return n, nil
}

// latest is the end of the year 9999: encoding/json refuses times behind it, in activities' results
// as anywhere, and the activity would be tried again for ever. Milliseconds of any year since 1978 are
// behind it.
const latest = 253402300799

// unix returns a time in Unix seconds.
func (o object) unix(name string) (time.Time, error) {
	n, err := o.integer(name)
	if err != nil {
		return time.Time{}, err
	}
	if n <= 0 || n > latest {
		return time.Time{}, fmt.Errorf("%d is no time in seconds between 1970 and 9999", n)
	}
	return time.Unix(n, 0).UTC(), nil
}

// overlay returns o with the fields of previous in place of its own: what o was before, if previous is an event's
// previous_attributes. Of nested objects Stripe tells only the fields that differ, of arrays all elements.
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
