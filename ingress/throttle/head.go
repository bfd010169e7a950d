package throttle

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
)

// maxFields is how many header fields a request may have. Deliveries have about 30 behind two proxies. net/http adds
// each field to a map while the head arrives. Without this limit, 32 KiB of short fields would occupy 0.7 MB of memory
// per connection.
const maxFields = 64

var errTooManyFields = errors.New("the request has too many header fields")

// head counts the lines of each request's head while they arrive on a connection. It reads Content-Length to find the
// end of a body, because the next head may follow the body at once. If the body has no Content-Length, head skips all
// bytes until the server has answered.
type head struct {
	lines int
	// line holds the beginning of the current line, and size is the length of the whole line.
	line [len("content-length: ") + 20]byte
	size int
	// length is the Content-Length of this head. unstated is set if the request has a body without a Content-Length.
	length   int64
	unstated bool
	// body is the number of bytes of the body that have not arrived. skips is set while a body without a Content-Length
	// arrives.
	body  int64
	skips bool
}

// answered records that the server has answered, which ends a body without a Content-Length.
func (h *head) answered() {
	if h.skips {
		*h = head{}
	}
}

// tooLong parses the next bytes of the connection, and reports whether a head has too many lines.
func (h *head) tooLong(p []byte) bool {
	for len(p) > 0 && !h.skips {
		if h.body > 0 {
			n := min(h.body, int64(len(p)))
			h.body, p = h.body-n, p[n:]
			continue
		}
		line, rest, ends := bytes.Cut(p, []byte("\n"))
		if h.size < len(h.line) {
			copy(h.line[h.size:], line)
		}
		h.size += len(line)
		if ends {
			h.endLine()
		}
		if h.lines > maxFields+1 { // with the request line
			return true
		}
		p = rest
	}
	return false
}

// endLine parses a complete line. An empty line ends the head. endLine ignores empty lines before a request, as
// net/http does.
func (h *head) endLine() {
	whole := h.size <= len(h.line)
	line := bytes.TrimRight(h.line[:min(h.size, len(h.line))], "\r")
	h.size = 0
	if len(line) == 0 && h.lines > 0 {
		*h = head{body: h.length, skips: h.unstated}
	}
	if len(line) == 0 {
		return
	}
	h.lines++
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		h.unstated = true
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		h.length, h.unstated = n, h.unstated || !whole || n < 0 || err != nil
	}
}

// Read returns an error if a head has too many fields, before net/http has read the whole head.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.head.tooLong(p[:n]) {
		c.head = head{skips: true}
		_, _ = c.Conn.Write([]byte("HTTP/1.1 431 " + http.StatusText(http.StatusRequestHeaderFieldsTooLarge) +
			"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
		return 0, errTooManyFields
	}
	return n, err
}
