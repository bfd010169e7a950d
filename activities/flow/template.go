package flow

import (
	"net/url"
	"strings"
)

// template is a text with expressions in braces: "/orders/{event.id}".
type template struct {
	path  string
	texts []string // one more than expressions
	holes []*expression
}

// parseTemplate compiles a template. A brace inside a string of an expression is not supported.
func parseTemplate(path, source string, variables scope) (*template, []Fault) {
	if len(source) > MaxExpression {
		return &template{path: path}, []Fault{{Path: path, Problem: "is too long", Fix: "write a shorter text"}}
	}
	t, faults := &template{path: path}, []Fault(nil)
	at := 0
	for {
		text, rest, found := strings.Cut(source[at:], "{")
		if strings.Contains(text, "}") {
			faults = append(faults, Fault{Path: path, Line: 1, Column: at + strings.Index(text, "}") + 1,
				Problem: "a closing brace has no opening brace", Fix: "write an expression as {event.id}"})
		}
		t.texts = append(t.texts, text)
		if !found {
			return t, faults
		}
		at += len(text) + 1
		inner, _, closed := strings.Cut(rest, "}")
		if !closed {
			return t, append(faults, Fault{Path: path, Line: 1, Column: at, Problem: "a brace is not closed",
				Fix: "write an expression as {event.id}"})
		}
		x, wrong := compile(path, inner, variables, false)
		for i := range wrong {
			if wrong[i].Line == 1 {
				wrong[i].Column += at
			}
		}
		faults = append(faults, wrong...)
		t.holes = append(t.holes, x)
		at += len(inner) + 1
	}
}

// fill returns the text with the values of the expressions. escape is set for a path: each value is then one segment or
// a part of one.
func (t *template) fill(in input, escape bool) (string, error) {
	var b strings.Builder
	for i, text := range t.texts {
		b.WriteString(text)
		if i == len(t.holes) {
			break
		}
		v, err := t.holes[i].evaluate(in)
		if err != nil {
			return "", err
		}
		s, err := scalar(v)
		if err != nil {
			return "", &Error{Field: t.path, Problem: err.Error()}
		}
		if escape {
			if strings.Trim(s, ".") == "" || len(s) > MaxScalar {
				return "", &Error{Field: t.path, Problem: "a value in the path is empty, too long, or consists of dots"}
			}
			s = url.PathEscape(s)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}
