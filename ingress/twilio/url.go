package twilio

import (
	"net/url"
	"strings"
)

// bodyHashParam is the query parameter with which Twilio signs a body that is no form.
const bodyHashParam = "bodySHA256"

// signedURLs returns the forms of the public URL that Twilio may have signed: as registered, and
// with its port taken away or the scheme's standard port put in. Twilio says that "signature
// generation on the back end is inconsistent" about ports; its SDKs try both.
//
// It works on the text. Parsing and printing a URL again would change escapes that were signed
// (%27 and '), and the fragment is the only part that never reaches the wire: Twilio keeps its
// connection overrides (#rc=2) there.
func signedURLs(registered string) []string {
	registered, _, _ = strings.Cut(registered, "#")
	scheme, rest, found := strings.Cut(registered, "://")
	if !found {
		return []string{registered}
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	// The port stands after the last "@" (a password may hold a colon) and the last "]" (so does
	// an IPv6 address).
	host := max(strings.LastIndexByte(authority, '@'), strings.LastIndexByte(authority, ']')) + 1
	if colon := strings.IndexByte(authority[host:], ':'); colon >= 0 {
		return []string{registered, scheme + "://" + authority[:host+colon] + path}
	}
	port := ":80"
	if strings.EqualFold(scheme, "https") {
		port = ":443"
	}
	return []string{registered, scheme + "://" + authority + port + path}
}

// bodyHashes returns the values of bodySHA256 in the URL's query. The whole URL is under the
// signature, so each value that is found there is Twilio's.
func bodyHashes(registered string) []string {
	registered, _, _ = strings.Cut(registered, "#")
	_, query, _ := strings.Cut(registered, "?")
	var hashes []string
	for pair := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(pair, "="); name == bodyHashParam {
			hashes = append(hashes, value)
		}
	}
	return hashes
}

// parseForm reads an application/x-www-form-urlencoded body. Unlike [url.ParseQuery] it takes a
// semicolon as a character of a value, as the signer does.
func parseForm(body []byte) (url.Values, error) {
	form := url.Values{}
	for pair := range strings.SplitSeq(string(body), "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return nil, err
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return nil, err
		}
		form.Add(name, value)
	}
	return form, nil
}
