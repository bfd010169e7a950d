package twilio

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// bodyHashParam is the query parameter with the hash of a body that is not a form.
const bodyHashParam = "bodySHA256"

// signedURLs returns the spellings of the public URL that Twilio may have signed. There are three: as registered,
// escaped as a client escapes it, and with every value of the query decoded and escaped again. Each also occurs without
// its port, or with the standard port. Twilio documents that "signature generation on the back end is inconsistent"
// about ports. It may also sign It's but call It%27s, or the reverse. Twilio's SDKs try the same spellings
// (twilio-node, webhooks.ts).
//
// signedURLs removes the fragment, which clients do not send: Twilio reads connection overrides (#rc=2) from it.
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

// spelling returns the same text for all spellings that [signedURLs] treats as one URL. It does not change the port.
func spelling(registered string) string {
	registered = withoutFragment(registered)
	scheme, authority, path, found := split(registered)
	if !found {
		return registered
	}
	return scheme + "://" + authority + reescaped(escaped(path))
}

// signedText returns the query of the URL followed by the parameters, decoded once. Twilio signs no separator between
// the two, so an attacker with a captured delivery can move the boundary. All spellings of [signedURLs] have the same
// text, except for equals signs.
func signedText(called string, params []byte) string {
	_, query, queried := strings.Cut(withoutFragment(called), "?")
	if queried {
		query = "?" + query
	}
	return unescape(query + string(params))
}

// split splits a URL without a fragment. path includes the query.
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

// otherPort returns the authority without its port, or with the scheme's standard port if it is missing.
func otherPort(scheme, authority string) string {
	// The port is after the last "@" and the last "]", because a password or an IPv6 address may contain colons.
	host := max(strings.LastIndexByte(authority, '@'), strings.LastIndexByte(authority, ']')) + 1
	if colon := strings.IndexByte(authority[host:], ':'); colon >= 0 {
		return authority[:host+colon]
	}
	if strings.EqualFold(scheme, "https") {
		return authority + ":443"
	}
	return authority + ":80"
}

// escaped returns a path and its query as a client sends them (WHATWG URL): the path begins with a slash, and
// disallowed characters are percent-encoded.
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

// escape percent-encodes the bytes of set, control characters and all characters outside of ASCII.
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

// reescaped returns path with each name and value of its query decoded and escaped again, as Node's querystring does.
// An undecodable name or value is unchanged.
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

// component converts the result of [url.QueryEscape] to the result of encodeURIComponent.
var component = strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")

// account matches the parameter AccountSid of a form as Twilio signs it: name and value without an equals sign. Every
// form from Twilio contains it. A URL contains it only if an attacker moved the parameters of a form into the URL.
var account = regexp.MustCompile("AccountSidAC[0-9a-f]{32}")

// bodyHashes returns the values of bodySHA256 in the query of the URL. It finds the name in every spelling of
// [signedURLs]: otherwise an attacker could hide the hash and replace the body.
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

// maxParams is the maximum number of parameters in a form. Callbacks have about 30. Parsing and sorting a megabyte of
// short parameters would take 160 ms, before the signature is checked.
const maxParams = 1000

var errTooManyParams = fmt.Errorf("a form has at most %d parameters", maxParams)

// parseForm parses an application/x-www-form-urlencoded body or query. Unlike [url.ParseQuery], it accepts semicolons
// in values and does not change an invalid escape. Twilio does the same when it signs.
func parseForm(text string) (url.Values, error) {
	if strings.Count(text, "&") >= maxParams {
		return nil, errTooManyParams
	}
	form := url.Values{}
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, value = unescape(name), unescape(value)
		form[name] = append(form[name], value)
	}
	return form, nil
}

// unescape decodes plus signs and escapes once. It does not change an invalid escape.
func unescape(text string) string {
	if !strings.ContainsAny(text, "%+") {
		return text
	}
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
