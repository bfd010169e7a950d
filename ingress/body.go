package ingress

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/ingress/webhook"
)

const (
	// smallBody is the size up to which a body has memory of its own. Most deliveries are smaller. On all connections
	// together they take 16 MiB.
	smallBody = 8 << 10
	// stride is how much of a larger body is let in at once.
	stride = 64 << 10
	// slowest is the least rate of a body after the first [Limits.Read], in bytes a second.
	slowest = 256 << 10
)

// shedError ends the reading of a body whose room others need. It is the class that is counted.
type shedError string

func (e shedError) Error() string { return "shed: " + string(e) }

const (
	shedBody       shedError = "bodies"
	shedConnection shedError = "connections"
)

// reader reads one body. A body over smallBody is read into memory outside of Go's heap: as garbage, the bodies that
// are refused or shed would take several times the memory that all bodies may take.
type reader struct {
	*delivery
	limit int64
	began time.Time
	// These are nil for a small body.
	control *http.ResponseController
	share   *throttle.Body
	region  []byte
}

// read reads the body into r. Its error is an *[webhook.Error] or a shedError.
//
// No body is decompressed: no provider here sends a content coding, and those that sign sign the bytes
// that they send.
func (b *reader) read() error {
	for _, encoding := range b.r.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return webhook.Errorf(webhook.ContentEncoding, "the body came with a content coding; no provider sends one, so something on the way compresses")
		}
	}
	length := b.c.Request().ContentLength
	if length > b.limit {
		return b.tooLarge()
	}
	// One more byte than the limit shows the end, and a body that is too large.
	most := b.limit + 1
	if length >= 0 {
		most = length + 1
	}
	buf := make([]byte, 0, min(most, smallBody))
	for {
		if len(buf) == cap(buf) {
			var err error
			if buf, err = b.letIn(buf, most); err != nil {
				return err
			}
		}
		n, err := b.c.Request().Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		b.r.Body = buf
		switch {
		case int64(len(buf)) > b.limit: // counted on the bytes read: a chunked body announces no length
			b.r.Body = buf[:b.limit]
			return b.tooLarge()
		case errors.Is(err, io.EOF) && b.share.Whole():
			return nil
		case err != nil:
			return b.ended(err)
		}
	}
}

// letIn returns buf with room for another stride, of most bytes in all.
func (b *reader) letIn(buf []byte, most int64) ([]byte, error) {
	if b.share == nil {
		// The announced length costs nothing yet: only pages that are written take memory.
		region, err := newRegion(most)
		if err != nil {
			return buf, shedBody
		}
		control := http.NewResponseController(b.c.Response())
		b.region, b.control = region, control
		b.share = b.s.memory.Body(b.from, b.source.Name, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
		copy(region, buf)
	} else if err := b.unsigned(); err != nil {
		return buf, err
	}
	n := int64(len(buf))
	next := min(n+stride, most)
	b.r.Body = b.region[:n]
	if !b.share.Take(next - n) {
		return buf, shedBody
	}
	b.earn(n)
	if b.share.Shed() { // and its reading was ended, perhaps just before it got a new deadline
		return buf, shedBody
	}
	return b.region[:n:next], nil
}

// keep moves a verified body to where it may be read for as long as anybody likes.
func (b *reader) keep() {
	if b.region != nil {
		b.r.Body = bytes.Clone(b.r.Body)
		freeRegion(b.region)
		b.region = nil
	}
}

// release ends the use of the body, which is gone unless keep has copied it.
func (b *reader) release() {
	if b.region != nil {
		b.r.Body = nil
		freeRegion(b.region)
	}
	b.share.Release()
}

// unsigned refuses what can be seen to be no delivery before the most of it is read.
func (b *reader) unsigned() error {
	asked := *b.r
	asked.Body = nil
	_, err := b.source.Verifier.Verify(&asked)
	if refused, ok := errors.AsType[*webhook.Error](err); ok && refused.Class == webhook.MissingHeader {
		return webhook.Errorf(webhook.TooLarge, "%s, and of what is not signed no more than %d bytes are read",
			refused.Detail, len(b.r.Body))
	}
	return nil
}

// earn moves the deadlines of a body by the time that its first n bytes may take at the slowest rate.
func (b *reader) earn(n int64) {
	more := time.Duration(n) * time.Second / slowest
	// A test's response may have no deadlines.
	_ = b.control.SetReadDeadline(b.began.Add(b.s.cfg.Limits.Read + more))
	_ = b.control.SetWriteDeadline(b.began.Add(b.s.cfg.Limits.Total + more))
	b.conn.Moves()
}

// ended says why a body did not come to its end.
func (b *reader) ended(err error) error {
	switch {
	case b.share.Shed():
		return shedBody
	case b.conn.Displaced():
		return shedConnection
	case errors.Is(err, os.ErrDeadlineExceeded):
		return webhook.Errorf(webhook.SlowBody, "of the body %d bytes had come %s after the request", len(b.r.Body),
			time.Since(b.began).Round(time.Second))
	}
	return webhook.Errorf(webhook.UnreadableBody, "the connection ended, or the body's framing is wrong")
}

func (b *reader) tooLarge() error {
	return webhook.Errorf(webhook.TooLarge, "the limit is %d bytes; set sources.%s.body_limit for more", b.limit,
		b.source.Name)
}
