package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxEventID is the longest event ID, in bytes, that is used unchanged: the limit of receipts.event_id. A longer one
// would not fit into a Temporal workflow ID beside provider and account.
const MaxEventID = 200

// HashID returns the event ID of bytes without an ID: "sha256:" and the hash in hex.
func HashID(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// UsableID returns id and origin if id can be used unchanged. Otherwise it returns the hash of id, [FromHash] and the
// reason. Deliveries with the same unusable ID still get the same event ID.
func UsableID(id string, origin IDOrigin) (string, IDOrigin, string) {
	if why := unusable(id); why != "" {
		return HashID([]byte(id)), FromHash, why
	}
	return id, origin, ""
}

// unusable returns why s cannot be an ID, or "".
func unusable(s string) string {
	switch {
	case len(s) > MaxEventID:
		return "longer than " + strconv.Itoa(MaxEventID) + " bytes"
	case !utf8.ValidString(s):
		return "not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "control characters"
	case strings.ContainsRune(s, utf8.RuneError):
		// encoding/json decodes invalid bytes and escapes as U+FFFD, so that two different IDs would become equal.
		return "broken characters"
	}
	return ""
}

// Tag returns s if it can be a routing field: a type, an account or an object, which Temporal, lists and logs show.
// Otherwise it returns "": the bytes are in the body.
func Tag(s string) string {
	if unroutable(s) != "" {
		return ""
	}
	return s
}

// unroutable returns why s cannot be a routing field, or "". Routing fields never hold an address.
func unroutable(s string) string {
	if strings.Contains(s, "@") {
		return "may be an e-mail address"
	}
	return unusable(s)
}
