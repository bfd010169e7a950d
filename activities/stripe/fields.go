package stripe

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// These are the maximum sizes of stored values, in bytes or elements. The key of an effect contains two IDs and an
// account, and the ledger accepts keys of 500 bytes. The history of a workflow contains the facts and is limited to 2
// MB.
const (
	mostID       = 100
	mostAccount  = 200
	mostPrice    = 255 // the ID of a price that was created as a plan is free text
	mostElements = 500
)

// fields reads the fields of one object. It stores the first error and ignores later ones.
type fields struct {
	object
	// name is the name of the object and the prefix of its field names, e.g. "invoice.".
	name string
	// err is shared with nested objects.
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

// in returns the fields of a nested object. They are empty if the nested object is absent, null or not an object.
func (f *fields) in(path ...string) *fields {
	return &fields{f.object.object(path...), f.name + strings.Join(path, ".") + ".", f.err}
}

// usable returns s if it can be stored.
func (f *fields) usable(field, s string, most int) string {
	if why := Unusable(s, most); why != "" {
		f.fail(field, why)
		return ""
	}
	return s
}

// word returns a value from a list in Stripe's documentation, such as a status or a reason, or "" if it is absent. It
// accepts a word that the documentation does not contain. It rejects free text, because histories and lists would show
// it.
func (f *fields) word(name string) string {
	s := f.usable(name, f.text(name), mostID)
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		f.fail(name, "is "+shape(f.object[name])+", not a word of lower-case letters, digits and underscores")
		return ""
	}
	return s
}

// link returns the ID of a reference or of the object itself, or "" if it is absent.
func (f *fields) link(name string) string { return f.id(name, f.ref(name)) }

// id returns s if it can be an ID. IDs of Stripe have no space and no @, unlike an e-mail address.
func (f *fields) id(field, s string) string {
	if s = f.usable(field, s, mostID); strings.ContainsAny(s, " @") {
		f.fail(field, fmt.Sprintf("is a string of %d bytes that has a space or an @, not an ID", len(s)))
		return ""
	}
	return s
}

// needed returns s and fails if it is empty.
func (f *fields) needed(field, s string) string {
	if s == "" {
		f.fail(field, "absent")
	}
	return s
}

// whole returns an integer, or 0 if it is absent.
func (f *fields) whole(name string) int64 {
	n, err := f.integer(name)
	if err != nil && !errors.Is(err, errAbsent) {
		f.fail(name, err.Error())
	}
	return n
}

// count returns a non-negative integer, or 0 if it is absent.
func (f *fields) count(name string) int64 {
	n := f.whole(name)
	if n < 0 {
		f.fail(name, "is negative")
	}
	return n
}

// none reports whether the quantity is present and 0.
func (f *fields) none() bool { return !f.null("quantity") && f.count("quantity") == 0 }

// amount is like count but fails if the field is absent.
func (f *fields) amount(name string) int64 {
	if f.null(name) {
		f.fail(name, "absent")
	}
	return f.count(name)
}

// time returns a time, or the zero time if it is absent.
func (f *fields) time(name string) time.Time {
	at, err := f.unix(name)
	if err != nil && !errors.Is(err, errAbsent) {
		f.fail(name, err.Error())
	}
	return at
}

// currency returns the currency and fails if it is absent. It accepts an unknown currency, which opens a task.
func (f *fields) currency(name string) string {
	code := f.needed(name, f.text(name))
	if code != "" && (len(code) != 3 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz") != "") {
		f.fail(name, "is not a code of three lower-case letters")
	}
	return code
}

// elements returns an array of objects and fails if it is absent.
func (f *fields) elements(name string) (elements []*fields) {
	found, ok := f.objects(name)
	switch {
	case !ok:
		f.fail(name, "absent, or not a list of objects")
	case len(found) > mostElements:
		f.fail(name, fmt.Sprintf("has %d elements, at most %d are read", len(found), mostElements))
		return nil
	}
	for _, o := range found {
		elements = append(elements, &fields{o, f.name + name + "[].", f.err})
	}
	return elements
}

// account returns an account ID of the adopting company, trimmed. Keys and paths of the workspace API contain it.
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
