package ledger

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// clean drops what Postgres text cannot hold: an error text may quote what a peer answered, and so may
// a result.
func clean(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?")
}

// cleanArgs returns args with their strings clean.
func cleanArgs(args []any) []any {
	cleaned := slices.Clone(args)
	for i, arg := range cleaned {
		if s, ok := arg.(string); ok {
			cleaned[i] = clean(s)
		}
	}
	return cleaned
}

// cleanJSON returns a JSON text whose strings Postgres can hold: jsonb takes neither an escaped NUL nor half
// a surrogate pair, though JSON does. One without such escapes is returned as it is.
func cleanJSON(text json.RawMessage) json.RawMessage {
	if !unholdable.Match(text) {
		return text
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // numbers stay as they are written
	var value any
	if decoder.Decode(&value) != nil {
		return text // Postgres names the fault
	}
	cleaned, err := json.Marshal(cleanValue(value))
	if err != nil {
		return text
	}
	return cleaned
}

// unholdable finds the escapes that jsonb may refuse, and some that it takes.
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
