package throttle

import (
	"bytes"
	"errors"
	"net/http"
)

// maxFields is how many header fields a request may have. Deliveries have about 30 behind two proxies. net/http makes
// a map of the fields while they come: without a bound, 32 KiB of short ones take 0.7 MB of memory on each
// connection.
const maxFields = 64

var errTooManyFields = errors.New("the request has too many header fields")

// head counts the lines of a request's head while they come.
type head struct {
	lines int
	blank bool // the line has no bytes so far except CR
	ended bool
}

// tooLong reads more of the request, and reports whether its head has too many lines.
func (h *head) tooLong(p []byte) bool {
	for !h.ended && h.lines <= maxFields+1 { // with the request line
		line, rest, ends := bytes.Cut(p, []byte("\n"))
		h.blank = h.blank && len(bytes.Trim(line, "\r")) == 0
		if !ends {
			return false
		}
		h.ended = h.blank && h.lines > 0 // net/http takes empty lines before a request
		if !h.blank {
			h.lines++
		}
		h.blank, p = true, rest
	}
	return !h.ended
}

// Read refuses a head with too many fields before net/http has read it whole.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.head.ended && c.head.tooLong(p[:n]) {
		c.head.ended = true
		_, _ = c.Conn.Write([]byte("HTTP/1.1 431 " + http.StatusText(http.StatusRequestHeaderFieldsTooLarge) +
			"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
		return 0, errTooManyFields
	}
	return n, err
}
