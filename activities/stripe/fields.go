package stripe

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The bounds of stored values, in bytes and in elements. An effect's key holds two IDs beside an account, and the
// ledger takes keys of 500 bytes. A fact stands in a workflow's history, which takes 2 MB.
const (
	mostID       = 100
	mostAccount  = 200
	mostPrice    = 255 // the ID of a price that was made as a plan is free text
	mostElements = 500
)

// fields reads the fields of one object. It keeps the first error; later reads do not count.
type fields struct {
	object
	// name is the object's, and begins the names of its fields: "invoice.".
	name string
	// err is shared with the objects that are nested in this one.
	err *error
}

func fieldsOf(o object, name string) *fields { return &fields{object: o, name: name, err: new(error)} }

func (f *fields) fail(field, reason string) {
	f.failAs(Unreadable, field, reason)
}

func (f *fields) failAs(code, field, reason string) {
	if *f.err == nil {
		*f.err = review(code, f.name+field, reason)
	}
}

// in returns the fields of a nested object, empty where it is absent, null or something else.
func (f *fields) in(path ...string) *fields {
	return &fields{f.object.object(path...), f.name + strings.Join(path, ".") + ".", f.err}
}

// usable returns s where it can be stored.
func (f *fields) usable(field, s string, most int) string {
	if why := Unusable(s, most); why != "" {
		f.fail(field, why)
		return ""
	}
	return s
}

// word returns a text that may be absent, link the ID of a reference that may be absent.
func (f *fields) word(name string) string { return f.usable(name, f.text(name), mostID) }
func (f *fields) link(name string) string { return f.usable(name, f.ref(name), mostID) }

// needed returns s, which must not be empty.
func (f *fields) needed(field, s string) string {
	if s == "" {
		f.fail(field, "absent")
	}
	return s
}

// whole returns a whole number, 0 where it is absent.
func (f *fields) whole(name string) int64 {
	n, err := f.integer(name)
	if err != nil && !errors.Is(err, errAbsent) {
		f.fail(name, err.Error())
	}
	return n
}

// count returns a whole number that is not negative, 0 where it is absent.
func (f *fields) count(name string) int64 {
	n := f.whole(name)
	if n < 0 {
		f.fail(name, fmt.Sprintf("%d is negative", n))
	}
	return n
}

// none reports whether the quantity is said to be 0, which an absent one does not say.
func (f *fields) none() bool { return !f.null("quantity") && f.count("quantity") == 0 }

// amount is like count, and must not be absent.
func (f *fields) amount(name string) int64 {
	if f.null(name) {
		f.fail(name, "absent")
	}
	return f.count(name)
}

// time returns a time, zero where it is absent.
func (f *fields) time(name string) time.Time {
	at, err := f.unix(name)
	if err != nil && !errors.Is(err, errAbsent) {
		f.fail(name, err.Error())
	}
	return at
}

// currency returns the currency, which must not be absent. It may be one that is not known: a person is asked then.
func (f *fields) currency(name string) string {
	code := f.needed(name, f.text(name))
	if code != "" && (len(code) != 3 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz") != "") {
		f.fail(name, "is no code of three letters in lower case")
	}
	return code
}

// elements returns an array of objects, which must not be absent.
func (f *fields) elements(name string) (elements []*fields) {
	found, ok := f.objects(name)
	switch {
	case !ok:
		f.fail(name, "absent, or no list of objects")
	case len(found) > mostElements:
		f.fail(name, fmt.Sprintf("has %d elements, at most %d are read", len(found), mostElements))
		return nil
	}
	for _, o := range found {
		elements = append(elements, &fields{o, f.name + name + "[].", f.err})
	}
	return elements
}

// account returns an ID of ours, without the spaces around it; it stands in keys and in the paths of the workspace API.
func (f *fields) account(field, id string) string {
	id = strings.TrimSpace(id)
	why := Unusable(id, mostAccount)
	if id == "." || id == ".." {
		why = "is a directory in a URL"
	}
	if why != "" {
		f.failAs(AccountUnusable, field, why)
		return ""
	}
	return id
}
