package twilio

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// bodyHashParam is the query parameter that carries the hash of a body that is no form.
const bodyHashParam = "bodySHA256"

// signedURLs returns the forms of the public URL that Twilio may have signed: as registered, escaped
// as a client escapes it, and with every value of the query escaped anew; each with its port taken
// away or the scheme's standard port put in. Twilio says that "signature generation on the back end is
// inconsistent" about ports, and that it may sign It's where it calls It%27s, or the reverse; its SDKs
// try these forms (twilio-node, webhooks.ts).
//
// It works on the text, as the fragment is the only part that never reaches the wire: Twilio keeps its
// connection overrides (#rc=2) there.
func signedURLs(registered string) []string {
	registered = withoutFragment(registered)
	scheme, authority, path, found := split(registered)
	if !found {
		return []string{registered}
	}
	authorities := []string{authority, otherPort(scheme, authority)}
	var forms []string
	for _, p := range []string{path, escaped(path), reescaped(escaped(path))} {
		for _, a := range authorities {
			if form := scheme + "://" + a + p; !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// spelling returns one form for all spellings that [signedURLs] takes for one URL. It leaves the port as it is.
func spelling(registered string) string {
	registered = withoutFragment(registered)
	scheme, authority, path, found := split(registered)
	if !found {
		return registered
	}
	return scheme + "://" + authority + reescaped(escaped(path))
}

// signedText returns the query of the URL and the parameters behind it, decoded once. Nothing stands between the two
// where they are signed, so somebody who holds a delivery can move the end of one into the other. The text stays the
// same in each form of [signedURLs], except for equals signs.
func signedText(called string, params []byte) string {
	_, query, queried := strings.Cut(withoutFragment(called), "?")
	if queried {
		query = "?" + query
	}
	text := query + string(params)
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '+':
			b.WriteByte(' ')
		case c == '%' && i+2 < len(text):
			if decoded, err := hex.DecodeString(text[i+1 : i+3]); err == nil {
				b.WriteByte(decoded[0])
				i += 2
				continue
			}
			fallthrough
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// split takes a URL without fragment apart; path has the query.
func split(url string) (scheme, authority, path string, found bool) {
	scheme, rest, found := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		return scheme, rest[:i], rest[i:], found
	}
	return scheme, rest, "", found
}

func withoutFragment(url string) string {
	url, _, _ = strings.Cut(url, "#")
	return url
}

// otherPort returns the authority without its port, or with the scheme's standard one.
func otherPort(scheme, authority string) string {
	// The port stands after the last "@" (a password may hold a colon) and the last "]" (so does
	// an IPv6 address).
	host := max(strings.LastIndexByte(authority, '@'), strings.LastIndexByte(authority, ']')) + 1
	if colon := strings.IndexByte(authority[host:], ':'); colon >= 0 {
		return authority[:host+colon]
	}
	if strings.EqualFold(scheme, "https") {
		return authority + ":443"
	}
	return authority + ":80"
}

// escaped returns a path and its query as a client sends them (WHATWG URL): a path that begins with a
// slash, and percent signs for what may not stand there.
func escaped(path string) string {
	path, query, queried := strings.Cut(path, "?")
	if path == "" {
		path = "/"
	}
	path = escape(path, " \"<>`{}")
	if queried {
		path += "?" + escape(query, " \"<>'")
	}
	return path
}

// escape percent-encodes the bytes of set, control characters and all other characters than ASCII.
func escape(text, set string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(set, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// reescaped returns path with each name and value of its query decoded and escaped anew, as Node's
// querystring does. One that cannot be decoded stays as it is.
func reescaped(path string) string {
	path, query, queried := strings.Cut(path, "?")
	if !queried {
		return path
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		if pair == "" || nameErr != nil || valueErr != nil {
			continue
		}
		pairs[i] = component.Replace(url.QueryEscape(name)) + "=" + component.Replace(url.QueryEscape(value))
	}
	return path + "?" + strings.Join(pairs, "&")
}

// component turns what [url.QueryEscape] makes into what encodeURIComponent does.
var component = strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")

// account finds the parameter that every form of Twilio's has, as it is signed: without an equals sign. In a URL of
// Twilio's it does not stand so.
var account = regexp.MustCompile("AccountSidAC[0-9a-f]{32}")

// bodyHashes returns the values of bodySHA256 in the URL's query. The whole URL is under the
// signature, so each value that is found there is Twilio's. The name counts in any spelling that
// [signedURLs] takes for this one: else a hash could be hidden from here, with the body it names.
func bodyHashes(registered string) []string {
	_, query, _ := strings.Cut(withoutFragment(registered), "?")
	var hashes []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if name != bodyHashParam {
			continue
		}
		if decoded, err := url.QueryUnescape(value); err == nil {
			value = decoded
		}
		hashes = append(hashes, value)
	}
	return hashes
}

// maxParams bounds the parameters of a form. Callbacks have some 30. A megabyte of short ones that nobody has signed
// would cost 160 ms to read and sort.
const maxParams = 1000

var errTooManyParams = fmt.Errorf("a form has at most %d parameters", maxParams)

// parseForm reads an application/x-www-form-urlencoded body. Unlike [url.ParseQuery] it takes a
// semicolon as a character of a value, as the signer does.
func parseForm(body []byte) (url.Values, error) {
	if bytes.Count(body, []byte("&")) >= maxParams {
		return nil, errTooManyParams
	}
	return url.ParseQuery(strings.ReplaceAll(string(body), ";", "%3B"))
}
