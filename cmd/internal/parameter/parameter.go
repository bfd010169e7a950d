// Package parameter decodes queries, forms, JSON objects, paths and flags. API, console and command line refuse the
// same: a parameter that is malformed, empty, unknown or repeated, and text that Postgres cannot store. The error names
// the parameter.
package parameter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Rule lists the parameters of a route.
type Rule struct {
	// Known are all parameters.
	Known []string
	// Inputs are known parameters that a browser sends empty. An empty input counts as absent.
	Inputs []string
	// Foreign lets unknown parameters pass: another system sends the request.
	Foreign bool
}

// Text refuses text that is not UTF-8 or contains NUL: Postgres stores neither.
func Text(name, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%s: write UTF-8 without NUL", name)
	}
	return nil
}

// Path refuses a path that is not text once it is unescaped.
func Path(of *url.URL) error {
	if err := Text("path", of.Path); err != nil {
		return errors.New("the path is not UTF-8 without NUL")
	}
	return nil
}

// Values decodes a query or the body of a form.
func (r Rule) Values(encoded string) (url.Values, error) {
	values, err := url.ParseQuery(encoded)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", culprit(encoded), err)
	}
	for name, given := range values {
		if err := r.check(name, given); err != nil {
			return nil, err
		}
		if given[0] == "" {
			delete(values, name)
		}
	}
	return values, nil
}

// culprit names the parameter that does not parse.
func culprit(encoded string) string {
	for part := range strings.SplitSeq(encoded, "&") {
		if _, err := url.ParseQuery(part); err != nil {
			name, _, _ := strings.Cut(part, "=")
			return fmt.Sprintf("the parameter %.40q cannot be read", name)
		}
	}
	return "the parameters cannot be read"
}

func (r Rule) check(name string, given []string) error {
	short := fmt.Sprintf("%.40q", name)
	switch known := slices.Contains(r.Known, name); {
	case !known && !r.Foreign && len(r.Known) == 0:
		return fmt.Errorf("there is no parameter %s: this takes none", short)
	case !known && !r.Foreign:
		return fmt.Errorf("there is no parameter %s: use %s", short, strings.Join(r.Known, ", "))
	case len(given) > 1:
		return fmt.Errorf("%s is given %d times: give it once", short, len(given))
	case given[0] == "" && known && !slices.Contains(r.Inputs, name):
		return fmt.Errorf("%s is empty: leave it out, or give a value", short)
	}
	return checkText(name, given[0])
}

func checkText(name, value string) error {
	if err := Text("the name of a parameter", name); err != nil {
		return err
	}
	return Text(name, value)
}

// Object decodes a JSON object of strings. No body is an empty object.
func (r Rule) Object(body []byte) (map[string]string, error) {
	given := map[string]string{}
	if len(body) == 0 {
		return given, nil
	}
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8")
	}
	wrong := errors.New("the body is not a JSON object of strings")
	read := json.NewDecoder(bytes.NewReader(body))
	if start, err := read.Token(); err != nil || start != json.Delim('{') {
		return nil, wrong
	}
	for read.More() {
		name, err := read.Token()
		var value any
		if err == nil {
			value, err = read.Token()
		}
		text, is := value.(string)
		switch {
		case err != nil:
			return nil, wrong
		case !is:
			return nil, fmt.Errorf("%.40q: write a string", name)
		}
		values := []string{text}
		if known, repeated := given[name.(string)]; repeated {
			values = append(values, known)
		}
		if err := r.check(name.(string), values); err != nil {
			return nil, err
		}
		given[name.(string)] = text
	}
	if _, err := read.Token(); err != nil {
		return nil, wrong
	}
	if _, err := read.Token(); !errors.Is(err, io.EOF) {
		return nil, wrong
	}
	return given, nil
}
