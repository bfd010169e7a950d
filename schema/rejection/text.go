package rejection

import "strings"

// holdable returns s as Postgres' text can hold it. Queries are compared with nothing and verified
// only where they can be held as they are: net/http refuses control characters in a request line.
func holdable(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
}
