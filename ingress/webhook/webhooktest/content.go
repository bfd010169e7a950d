package webhooktest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/ingress/webhook"
)

// defaultBodyLimit is the largest body that a server reads if the provider's contract sets no limit.
const defaultBodyLimit = 1 << 20

// testContent signs content that no provider should send. An authentic delivery must never be rejected for its content,
// because many providers block or disable an endpoint that rejects one: Verify must admit it, and Events must return an
// event to store. A body that the provider's scheme cannot sign may be rejected.
func (s Suite) testContent(t *testing.T) {
	t.Parallel()
	v := s.verifier(t, s.secret(0))
	for name, body := range s.contents() {
		t.Run(name, func(t *testing.T) {
			in := s.input(0, now)
			in.Body = body
			out, err := s.Sign(in)
			if err == nil {
				CheckAuthentic(t, v, request(out))
				return
			}
			if out, err = s.Sign(s.input(0, now)); err != nil {
				t.Fatalf("Sign: %v", err)
			}
			r := request(out)
			r.Body = body
			if _, err := v.Verify(r); err != nil {
				if _, ok := webhook.ClassOf(err); !ok {
					t.Errorf("Verify: got %T, want a *webhook.Error", err)
				}
			}
			CheckEvents(t, v.Events(r))
		})
	}
}

// contents returns odd bodies, a body of the largest size, and the typical body with each of its values removed or
// replaced.
func (s Suite) contents() map[string][]byte {
	contents := OddBodies()
	limit := int(cmp.Or(s.Provider.Contract.BodyLimit, defaultBodyLimit))
	const begin, end = `{"id":"evt_1","type":"x","a":"`, `"}`
	contents["huge"] = slices.Concat([]byte(begin), bytes.Repeat([]byte("x"), limit-len(begin)-len(end)), []byte(end))
	var typical any
	if json.Unmarshal(s.Input.Body, &typical) != nil {
		return contents
	}
	for _, path := range paths(typical, nil, 0) {
		for _, value := range oddValues {
			if body, err := json.Marshal(replaced(typical, path, value)); err == nil {
				contents[fmt.Sprintf("%s is %s", strings.Join(path, "."), name(value))] = body
			}
		}
	}
	return contents
}

// removed marks a value to remove.
type removed struct{}

// oddValues are the values that replace each field of the typical body.
var oddValues = []any{removed{}, nil, "", "a:b", "\x00", 1, true, []any{}, map[string]any{"x": 1}, json.Number("1e400")}

func name(value any) string {
	if value == (any(removed{})) {
		return "left out"
	}
	text, _ := json.Marshal(value) //nolint:errchkjson // the values above
	return string(text)
}

// maxFields bounds how many fields of a body are replaced, and maxNesting their depth.
const (
	maxFields  = 24
	maxNesting = 5
)

// paths returns the paths of the first fields of a JSON value, as keys and indexes.
func paths(value any, at []string, depth int) (found [][]string) {
	if depth > maxNesting {
		return nil
	}
	add := func(key string, child any) {
		path := append(slices.Clone(at), key)
		found = append(found, path)
		found = append(found, paths(child, path, depth+1)...)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			add(key, value[key])
		}
	case []any:
		for i, child := range value[:min(1, len(value))] {
			add(fmt.Sprint(i), child)
		}
	}
	return found[:min(maxFields, len(found))]
}

// replaced returns a copy of a JSON value with another value at path.
func replaced(value any, path []string, with any) any {
	if len(path) == 0 {
		return with
	}
	switch value := value.(type) {
	case map[string]any:
		changed := maps.Clone(value)
		if changed[path[0]] = replaced(value[path[0]], path[1:], with); changed[path[0]] == (any(removed{})) {
			delete(changed, path[0])
		}
		return changed
	case []any:
		changed := slices.Clone(value)
		if changed[0] = replaced(value[0], path[1:], with); changed[0] == (any(removed{})) {
			return changed[1:]
		}
		return changed
	}
	return value
}

// CheckAuthentic checks that an authentic delivery is admitted and contains an event, unless the provider requires a
// special answer or the body contains an empty list.
func CheckAuthentic(t *testing.T, v webhook.Verifier, r *webhook.Request) {
	t.Helper()
	if _, err := v.Verify(r); err != nil {
		t.Errorf("Verify: got %v for a correctly signed body, want it admitted", err)
	}
	events := v.Events(r)
	CheckEvents(t, events)
	if len(events) > 0 || bytes.Contains(r.Body, []byte("[]")) {
		return
	}
	if answerer, ok := v.(webhook.Answerer); ok {
		if _, handshake := answerer.Answer(r); handshake {
			return
		}
	}
	t.Error("Events: got no event, so the delivery would be lost")
}
