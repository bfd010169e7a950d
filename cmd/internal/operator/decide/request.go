package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// RequestID is the ID of the request in the audit trail and in the run. It contains a hash of the person, so that two
// people may use the same ID.
func (d *Decision) RequestID() string {
	by := d.Identity()
	if by == (Identity{}) {
		return d.Request
	}
	sum := sha256.Sum256([]byte(by.Issuer + "\x00" + by.Subject))
	return d.Request + "@" + hex.EncodeToString(sum[:6])
}

// arguments is a hash of all values that the request contains about its target.
func (d *Decision) arguments() ([]byte, error) {
	text, err := json.Marshal([]any{d.Verb, d.Reason, d.Confirms, argsOf(d)})
	if err != nil {
		return nil, fmt.Errorf("encode the arguments of %s: %w", d.Verb, err)
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}

// Reused returns the fault for a request ID that belongs to another decision.
func (d *Decision) Reused(of string) error {
	return Faultf(Reused, "the request ID %s belongs to %s: use another ID for another decision, and repeat a request "+
		"with the same arguments only", d.Request, of)
}

// checkText refuses a target or arguments that Postgres cannot store.
func (d *Decision) checkText(v *Verb) error {
	texts := map[string]string{"target": d.Target, "pending": d.Confirms}
	for _, f := range v.Flags {
		texts[f.Name] = *f.Value(&d.Args)
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if !isText(texts[name]) {
			return Invalidf("%s: write UTF-8 without NUL", name)
		}
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
