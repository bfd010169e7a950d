package throttle

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
)

// maxFields is how many header fields a request may have. Deliveries have about 30 behind two proxies. net/http adds
// each field to a map while the head arrives: without a limit, 32 KiB of short fields take 0.7 MB of memory on each
// connection.
const maxFields = 64

var errTooManyFields = errors.New("the request has too many header fields")

// head counts the lines of each head on a connection while they arrive. It follows the requests by their
// Content-Length, because a client may send the next head together with a body. A body without a stated length lasts
// until the server has answered.
type head struct {
	lines int
	// line holds the beginning of the current line, and size its whole length.
	line [len("content-length: ") + 20]byte
	size int
	// length is the Content-Length of this head, unstated is set if its body has no stated length.
	length   int64
	unstated bool
	// body is how many bytes of the body are still to come; skips is set while a body without a stated length comes.
	body  int64
	skips bool
}

// answered ends a body without a stated length.
func (h *head) answered() {
	if h.skips {
		*h = head{}
	}
}

// tooLong reads more of the connection, and reports whether a head has too many lines.
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

// endLine reads the line that has ended. An empty line ends the head; net/http skips empty lines before a request.
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

// Read refuses a head with too many fields before net/http has read it whole.
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
