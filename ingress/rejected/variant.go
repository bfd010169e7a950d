package rejected

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/url"
	"strings"
)

// variant is the body that the sender may have signed, before a proxy changed it.
type variant struct {
	how  string
	body []byte
}

// maxGrown is the maximum size of a variant in bytes: a few kilobytes of gzip or of brackets can expand to gigabytes.
const maxGrown = 1 << 20

var byteOrderMark = []byte("\uFEFF")

// variants returns body without the typical changes that proxies and frameworks make.
func variants(body []byte) []variant {
	if len(body) == 0 {
		return nil
	}
	var all []variant
	add := func(how string, b []byte) {
		if b != nil && !bytes.Equal(b, body) {
			all = append(all, variant{how, b})
		}
	}
	bare := bytes.TrimRight(body, "\r\n")
	// Try one newline less before no newline: SendGrid's bodies end with a signed CR LF.
	add("without its trailing newline", bytes.TrimSuffix(bytes.TrimSuffix(body, []byte("\n")), []byte("\r")))
	add("without its trailing newlines", bare)
	add("with CR LF as its trailing newline", append(bytes.Clone(bare), '\r', '\n'))
	add("with a trailing newline", append(bytes.Clone(body), '\n'))
	add("without its byte order mark", bytes.TrimPrefix(body, byteOrderMark))
	add("with LF for CR LF", bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")))
	add("with CR LF for LF", bytes.ReplaceAll(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")), []byte("\n"),
		[]byte("\r\n")))
	add("decompressed", inflated(body))
	if json.Valid(body) {
		var compacted bytes.Buffer
		_ = json.Compact(&compacted, body) // body is valid
		add("compacted", compacted.Bytes())
		for _, in := range []struct{ how, indent string }{{"indented by two spaces", "  "},
			{"indented by four spaces", "    "}, {"indented by tabs", "\t"}} {
			pretty := indented(body, in.indent)
			if pretty == nil {
				continue
			}
			add(in.how, pretty)
			// Some pretty printers write a newline at the end.
			add(in.how+" and with a trailing newline", append(bytes.Clone(pretty), '\n'))
		}
	}
	return all
}

// indented returns the JSON in body with a line for each value. It returns nil if the result could be larger than
// maxGrown. The result has a line for each bracket and comma, and its indentation grows with the open brackets.
func indented(body []byte, indent string) []byte {
	open := bytes.Count(body, []byte("{")) + bytes.Count(body, []byte("["))
	lines := 2*open + bytes.Count(body, []byte(","))
	if len(body)+lines*(2+open*len(indent)) > maxGrown {
		return nil
	}
	var b bytes.Buffer
	_ = json.Indent(&b, bytes.TrimSpace(body), "", indent) // body is valid
	return b.Bytes()
}

// inflated returns the content of a gzip stream, or nil if body is not gzip or the content is too large.
func inflated(body []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(r, maxGrown+1))
	if err != nil || len(b) > maxGrown {
		return nil
	}
	return b
}

// urlVariants returns the usual spellings of a registered URL without its fragment.
func urlVariants(registered string) []string {
	registered, _, _ = strings.Cut(registered, "#")
	base, query, queried := strings.Cut(registered, "?")
	scheme, rest, ok := strings.Cut(base, "://")
	if !ok {
		return nil
	}
	if queried {
		query = "?" + query
	}
	otherSlash := rest + "/"
	if strings.HasSuffix(rest, "/") {
		otherSlash = strings.TrimSuffix(rest, "/")
	}
	all := []string{scheme + "://" + otherSlash + query}
	if other := map[string]string{"http": "https", "https": "http"}[scheme]; other != "" {
		all = append(all, other+"://"+rest+query, other+"://"+otherSlash+query)
	}
	return all
}

// ShownURL returns a URL without the query and the user part, which may contain tokens.
func ShownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(unreadable)"
	}
	u.RawQuery, u.User, u.Fragment = "", nil, ""
	return u.String()
}
