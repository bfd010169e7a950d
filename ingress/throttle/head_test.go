package throttle

import (
	"fmt"
	"strings"
	"testing"
)

// The server counts the fields of each head separately, however the connection's bytes are divided.
func TestHead_Pipelined_CountedPerRequest(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("line\n", 3*maxFields)
	request := func(fields int, framing, body string) string {
		return "POST / HTTP/1.1\r\n" + framing + strings.Repeat("X: 1\r\n", fields-strings.Count(framing, "\n")) + "\r\n" + body
	}
	length := fmt.Sprintf("Content-Length: %d\r\n", len(lines))
	for name, c := range map[string]struct {
		sent    string
		refused bool
	}{
		"one":                          {request(maxFields, length, lines), false},
		"one too many":                 {request(maxFields+1, length, lines), true},
		"several":                      {strings.Repeat(request(maxFields, length, lines), 3), false},
		"the last has too many":        {request(3, length, lines) + request(maxFields+1, length, lines), true},
		"without a body":               {strings.Repeat(request(maxFields, "", ""), 3), false},
		"empty lines between":          {request(3, length, lines) + "\r\n\n" + request(maxFields, "", ""), false},
		"a name in another case":       {strings.Repeat(request(9, "content-LENGTH:\t "+fmt.Sprint(len(lines))+"  \r\n", lines), 2), false},
		"lines end without CR":         {strings.ReplaceAll(request(3, length, lines), "\r", "") + request(maxFields+1, "", ""), true},
		"chunks":                       {request(3, "Transfer-Encoding: chunked\r\n", lines), false},
		"a length that cannot be read": {request(3, "Content-Length: 1,2\r\n", lines), false},
		"a length with many zeros":     {request(3, "Content-Length: "+strings.Repeat("0", 90)+"1\r\n", lines), false},
	} {
		for _, size := range []int{1, 7, 4096, len(c.sent)} {
			var h head
			refused := false
			for rest := c.sent; rest != "" && !refused; rest = rest[min(size, len(rest)):] {
				refused = h.tooLong([]byte(rest[:min(size, len(rest))]))
			}
			if refused != c.refused {
				t.Errorf("%s, in pieces of %d: refused %t, want %t", name, size, refused, c.refused)
			}
		}
	}
}

// After a body without a length, it counts the next head from its beginning.
func TestHead_Answered_NextCounted(t *testing.T) {
	t.Parallel()
	var h head
	h.tooLong([]byte("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"))
	h.answered()
	if h.tooLong([]byte("POST / HTTP/1.1\r\n" + strings.Repeat("X: 1\r\n", maxFields))) {
		t.Error("refused with as many fields as are allowed")
	}
	if !h.tooLong([]byte("X: 1\r\n")) {
		t.Error("taken with one field more")
	}
}
