package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxEventID is the longest event ID, in bytes, that is used as it is: what receipts.event_id holds.
// Longer ones would not fit a Temporal workflow ID beside provider and account.
const MaxEventID = 200

// HashID returns the event ID that stands for b: "sha256:" and the hash in hex.
func HashID(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// UsableID returns id and origin when id can be used as it is; else the hash of id, [FromHash]
// and why. Two deliveries of one unusable ID still meet at one event.
func UsableID(id string, origin IDOrigin) (string, IDOrigin, string) {
	if why := unusable(id); why != "" {
		return HashID([]byte(id)), FromHash, why
	}
	return id, origin, ""
}

// unusable says why s cannot be an ID, or "".
func unusable(s string) string {
	switch {
	case len(s) > MaxEventID:
		return "longer than " + strconv.Itoa(MaxEventID) + " bytes"
	case !utf8.ValidString(s):
		return "not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "control characters"
	case strings.ContainsRune(s, utf8.RuneError):
		// encoding/json puts U+FFFD where bytes or escapes were broken: two broken IDs would be one.
		return "broken characters"
	}
	return ""
}

// Tag returns s where it can be stored and shown as a routing field, else "": the bytes are in
// the body, and a field of ten kilobytes or with control characters routes nothing.
func Tag(s string) string {
	if unusable(s) != "" {
		return ""
	}
	return s
}
