package parameter

import (
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"
)

// PathID returns the ID that a router found in the path of a URL. Go has unescaped the path, unless it has a RawPath:
// the router then takes its parts from that.
func PathID(of *url.URL, found string) (id string, err error) {
	if id = found; of.RawPath != "" {
		id, err = url.PathUnescape(found)
	}
	if err != nil || id == "" || len(id) > 500 || strings.ContainsRune(id, 0) || !utf8.ValidString(id) {
		return "", errors.New("an ID in a path has 1 to 500 bytes of UTF-8, none of them NUL, and is escaped")
	}
	return id, nil
}
