// Package parameter decodes queries, forms, JSON objects, paths and flags. The API, the console and the command line
// use it, so that all of them reject the same parameters: malformed, empty, unknown or repeated ones, and text that
// Postgres cannot store. An error contains the name of the parameter.
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

// Rule describes the parameters that a route accepts.
type Rule struct {
	// Known lists all parameters.
	Known []string
	// Inputs lists the known parameters that a browser also sends if they are empty. An empty input is treated as
	// missing.
	Inputs []string
	// Foreign accepts unknown parameters. It is set for requests that another system sends.
	Foreign bool
}

// Text returns an error if Postgres cannot store text: if it is not UTF-8 or contains NUL.
func Text(name, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%s: write UTF-8 without NUL", name)
	}
	return nil
}

// Path returns an error if the decoded path is not UTF-8 or contains NUL.
func Path(of *url.URL) error {
	if err := Text("path", of.Path); err != nil {
		return errors.New("the path is not UTF-8 without NUL")
	}
	return nil
}

// Values decodes a query or the body of an HTML form.
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

// culprit returns the name of the parameter that cannot be decoded.
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
		return fmt.Errorf("there is no parameter %s: this request has no parameters", short)
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

// Object decodes a JSON object with string values. An empty body is an empty object.
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
