// Package workflowid makes workflow IDs that Temporal accepts: printable ASCII of a bounded length.
package workflowid

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// longest is the size of the workflow ID column in Temporal's SQL schema.
const longest = 255

// Escape percent-encodes every byte of s that is not printable ASCII, is contained in escaped, or is a percent sign.
// Different strings have different results.
func Escape(s, escaped string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 0x21 || c > 0x7e || c == '%' || strings.IndexByte(escaped, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Bound returns an ID of at most 255 bytes: the ID itself, or its hash if the ID is longer.
func Bound(id string) string {
	if len(id) <= longest {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Keyed returns the part of a ledger key that identifies an object of a provider's account: [<account>:]<key>.
func Keyed(account, key string) string {
	object := Escape(key, "")
	if account != "" || strings.Contains(key, ":") {
		object = Escape(account, ":") + ":" + object
	}
	return Bound(object)
}
