package hmac

import (
	"fmt"
	"slices"
	"strings"
)

// template is a parsed signed-string template: literals and fields in turn.
type template []part

type part struct {
	literal string
	field   string // "" for a literal
}

// fields are what a template can name: the event's ID and the timestamp as sent, the raw body,
// the public URL as registered, and the HTTP method.
var fields = []string{"id", "ts", "body", "url", "method"}

// parseTemplate reads text such as "v0:{ts}:{body}".
func parseTemplate(text string) (template, error) {
	var t template
	for rest := text; rest != ""; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			t = append(t, part{literal: rest})
			break
		}
		if open > 0 {
			t = append(t, part{literal: rest[:open]})
		}
		name, after, closed := strings.Cut(rest[open+1:], "}")
		if !closed || !slices.Contains(fields, name) {
			return nil, fmt.Errorf("template %q: each {…} must be one of {id} {ts} {body} {url} {method}", text)
		}
		t = append(t, part{field: name})
		rest = after
	}
	return t, t.check(text)
}

// check refuses templates whose signature would not hold the request together.
func (t template) check(text string) error {
	if !t.has("body") {
		return fmt.Errorf("template %q: {body} is missing, so nothing would authenticate the body", text)
	}
	for i := 1; i < len(t); i++ {
		if t[i].field != "" && t[i-1].field != "" && (t[i].field == "id" || t[i-1].field == "id") {
			return fmt.Errorf("template %q: put a separator beside {id}, or bytes can be moved from one field into the next", text)
		}
	}
	return nil
}

// has reports whether the field is in t.
func (t template) has(field string) bool {
	return slices.ContainsFunc(t, func(p part) bool { return p.field == field })
}

// separators returns the literals beside the field: a value that holds one could be read as two.
func (t template) separators(field string) []string {
	var literals []string
	for i, p := range t {
		if p.field != field {
			continue
		}
		if i > 0 {
			literals = append(literals, t[i-1].literal)
		}
		if i+1 < len(t) {
			literals = append(literals, t[i+1].literal)
		}
	}
	return literals
}

// values are those of a template's fields, except {body}.
type values struct{ id, ts, url, method string }

// parts returns the signed bytes, to be read one after the other.
func (t template) parts(v values, body []byte) [][]byte {
	signed := make([][]byte, len(t))
	for i, p := range t {
		switch p.field {
		case "":
			signed[i] = []byte(p.literal)
		case "body":
			signed[i] = body
		case "id":
			signed[i] = []byte(v.id)
		case "ts":
			signed[i] = []byte(v.ts)
		case "url":
			signed[i] = []byte(v.url)
		case "method":
			signed[i] = []byte(v.method)
		}
	}
	return signed
}
