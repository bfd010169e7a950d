package parameter

import (
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"
)

// PathID returns the ID that a router found in the path of a URL. net/http has unescaped the path, unless the URL has a
// RawPath: the router then uses the parts of RawPath, which are still escaped.
func PathID(of *url.URL, found string) (id string, err error) {
	if id = found; of.RawPath != "" {
		id, err = url.PathUnescape(found)
	}
	if err != nil || id == "" || len(id) > 500 || strings.ContainsRune(id, 0) || !utf8.ValidString(id) {
		return "", errors.New("an ID in a path has 1 to 500 bytes of UTF-8, none of them NUL, and is escaped")
	}
	return id, nil
}
