package webhook

import (
	"net/http"
	"slices"
)

// credentials are the headers that are themselves secrets: whoever reads one can be its sender. A
// signature is none.
var credentials = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Gitlab-Token"}

// KeptHeader returns what is stored of a request's headers: all, with the values of credentials replaced.
// Those in needed keep theirs; it is for requests that are verified again later. h stays as it is.
func KeptHeader(h http.Header, needed ...string) http.Header {
	kept := make(http.Header, len(h))
	for name, values := range h {
		if slices.Contains(credentials, name) && !slices.Contains(needed, name) {
			values = []string{"(not kept)"}
		}
		kept[name] = values
	}
	return kept
}
