package hmac

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// template is a parsed template: a list of literal texts and fields. A field is in braces.
type template []string

// These are the fields of a template: the event's ID and the timestamp as sent, the raw body, the public URL as
// registered, and the HTTP method.
const (
	idField     = "{id}"
	stampField  = "{ts}"
	bodyField   = "{body}"
	urlField    = "{url}"
	methodField = "{method}"
)

var templatePart = regexp.MustCompile(`\{(?:id|ts|body|url|method)\}|[^{]+`)

// parseTemplate parses a text such as "v0:{ts}:{body}". It rejects a template under which an attacker could change a
// part of the request.
func parseTemplate(text string) (template, error) {
	t := template(templatePart.FindAllString(text, -1))
	if strings.Join(t, "") != text {
		return nil, fmt.Errorf("template %q: each {…} must be one of {id} {ts} {body} {url} {method}", text)
	}
	if !slices.Contains(t, bodyField) {
		return t, fmt.Errorf("template %q: {body} is missing, so the body would be unauthenticated", text)
	}
	for _, beside := range t.besideID() {
		if strings.HasPrefix(beside, "{") {
			return t, fmt.Errorf("template %q: put a separator beside {id}, or bytes can be moved from one field into the next", text)
		}
	}
	return t, nil
}

// besideID returns the parts before and after {id}. If the ID contains one of these parts, the signed text is
// ambiguous.
func (t template) besideID() []string {
	var beside []string
	for i, part := range t {
		if part == idField {
			beside = append(beside, t[max(i-1, 0):i]...)
			beside = append(beside, t[i+1:min(i+2, len(t))]...)
		}
	}
	return beside
}

// values holds the values of a template's fields, except {body}.
type values struct{ id, ts, url, method string }

// parts returns the signed bytes as a list of slices that the caller concatenates.
func (t template) parts(v values, body []byte) [][]byte {
	signed := make([][]byte, len(t))
	for i, part := range t {
		switch part {
		case bodyField:
			signed[i] = body
			continue
		case idField:
			part = v.id
		case stampField:
			part = v.ts
		case urlField:
			part = v.url
		case methodField:
			part = v.method
		}
		signed[i] = []byte(part)
	}
	return signed
}
