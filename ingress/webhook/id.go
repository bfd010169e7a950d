package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxEventID is the length of the longest event ID, in bytes, that pawl uses unchanged. The column receipts.event_id
// has the same limit. A Temporal workflow ID contains the event ID, the provider and the account, and has no room for a
// longer event ID.
const MaxEventID = 200

// HashID returns an event ID for bytes that contain no ID: "sha256:" and the hash of the bytes in hex.
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
		// encoding/json decodes each invalid byte or escape as U+FFFD, so two different IDs could become equal.
		return "broken characters"
	}
	return ""
}

// Tag returns s if s can be stored as a type, an account or an object. Temporal, lists and logs show these routing
// fields. Otherwise Tag returns "", and the value is only in the body.
func Tag(s string) string {
	if unroutable(s) != "" {
		return ""
	}
	return s
}

// unroutable returns why s cannot be a routing field, or "". Routing fields must not contain e-mail addresses.
func unroutable(s string) string {
	if strings.Contains(s, "@") {
		return "may be an e-mail address"
	}
	return unusable(s)
}
