package ledger

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// clean removes characters that a Postgres text cannot store. Errors and results may quote a response of another system
// that contains them.
func clean(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?")
}

// cleanArgs returns args with all strings cleaned.
func cleanArgs(args []any) []any {
	cleaned := slices.Clone(args)
	for i, arg := range cleaned {
		if s, ok := arg.(string); ok {
			cleaned[i] = clean(s)
		}
	}
	return cleaned
}

// cleanJSON returns a JSON text that jsonb accepts. jsonb rejects an escaped NUL and half a surrogate pair, which JSON
// allows. A text without such escapes is returned unchanged.
func cleanJSON(text json.RawMessage) json.RawMessage {
	if !unholdable.Match(text) {
		return text
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // keep numbers as written
	var value any
	if decoder.Decode(&value) != nil {
		return text // invalid JSON: Postgres reports the fault
	}
	cleaned, err := json.Marshal(cleanValue(value))
	if err != nil {
		return text
	}
	return cleaned
}

// unholdable matches escapes that jsonb may reject. It also matches some that jsonb accepts.
var unholdable = regexp.MustCompile(`\\u(0000|[dD][89a-fA-F])`)

func cleanValue(value any) any {
	switch v := value.(type) {
	case string:
		return clean(v)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i])
		}
	case map[string]any:
		cleaned := make(map[string]any, len(v))
		for key, member := range v {
			cleaned[clean(key)] = cleanValue(member)
		}
		return cleaned
	}
	return value
}
