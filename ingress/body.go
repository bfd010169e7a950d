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
	// smallBody is the maximum size of a body that is read into a buffer of the connection. Most deliveries are
	// smaller. All these buffers together occupy 16 MiB.
	smallBody = 8 << 10
	// stride is how many bytes of a larger body are reserved at once.
	stride = 64 << 10
	// slowest is the minimum rate in bytes per second at which a body must arrive after [Limits.Read] has passed.
	slowest = 256 << 10
)

// shedError means that the reading of a body was stopped to free memory or a connection for another delivery. Its text
// is the class in the metrics.
type shedError string

func (e shedError) Error() string { return "shed: " + string(e) }

const (
	shedBody       shedError = "bodies"
	shedConnection shedError = "connections"
)

// reader reads one body. It reads a body over smallBody into memory outside of Go's heap. On the heap, refused and shed
// bodies would stay as garbage, and occupy several times the limit of all bodies.
type reader struct {
	*delivery
	limit int64
	began time.Time
	// The fields below are nil for a small body.
	control *http.ResponseController
	share   *throttle.Body
	region  []byte
}

// read reads the body into r. Its error is an *[webhook.Error] or a shedError.
//
// read does not decompress bodies: no supported provider compresses bodies, and a signature covers the bytes as sent.
func (b *reader) read() error {
	for _, encoding := range b.r.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return webhook.Errorf(webhook.ContentEncoding, "the body has a content coding; no provider compresses, so a proxy in between does: turn compression off there")
		}
	}
	length := b.c.Request().ContentLength
	if length > b.limit {
		return b.tooLarge()
	}
	// Reading one byte more than the limit detects a body that is too large.
	most := b.limit + 1
	if length >= 0 {
		most = length + 1
	}
	buf := make([]byte, 0, min(most, smallBody))
	for {
		if len(buf) == cap(buf) {
			var err error
			if buf, err = b.grow(buf, most); err != nil {
				return err
			}
		}
		n, err := b.c.Request().Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		b.r.Body = buf
		switch {
		case int64(len(buf)) > b.limit: // a chunked body has no Content-Length, so count the bytes
			b.r.Body = buf[:b.limit]
			return b.tooLarge()
		case errors.Is(err, io.EOF) && b.share.Whole():
			return nil
		case err != nil:
			return b.ended(err)
		}
	}
}

// grow returns buf with room for another stride, up to most bytes.
func (b *reader) grow(buf []byte, most int64) ([]byte, error) {
	if b.share == nil {
		// A mapped region occupies no memory yet: each page occupies memory when it is first written.
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
	if b.share.Shed() { // the new read deadline may have overwritten the deadline that stops a shed body
		return buf, shedBody
	}
	return b.region[:n:next], nil
}

// keep copies a verified body to the heap, so that it is valid after the request.
func (b *reader) keep() {
	if b.region != nil {
		b.r.Body = bytes.Clone(b.r.Body)
		freeRegion(b.region)
		b.region = nil
	}
}

// release frees the memory of the body. r.Body is nil afterwards unless keep has copied it.
func (b *reader) release() {
	if b.region != nil {
		b.r.Body = nil
		freeRegion(b.region)
	}
	b.share.Release()
}

// unsigned rejects a body without a signature header before most of it is read.
func (b *reader) unsigned() error {
	asked := *b.r
	asked.Body = nil
	_, err := b.source.Verifier.Verify(&asked)
	if refused, ok := errors.AsType[*webhook.Error](err); ok && refused.Class == webhook.MissingHeader {
		return webhook.Errorf(webhook.TooLarge, "%s, and only the first %d bytes of an unsigned body are read",
			refused.Detail, len(b.r.Body))
	}
	return nil
}

// earn extends the deadlines of a body by the time that n bytes take at the minimum rate.
func (b *reader) earn(n int64) {
	more := time.Duration(n) * time.Second / slowest
	// The ResponseWriter of a test may not support deadlines.
	_ = b.control.SetReadDeadline(b.began.Add(b.s.cfg.Limits.Read + more))
	_ = b.control.SetWriteDeadline(b.began.Add(b.s.cfg.Limits.Total + more))
	b.conn.Progressed()
}

// ended returns the reason why reading the body failed with err.
func (b *reader) ended(err error) error {
	switch {
	case b.share.Shed():
		return shedBody
	case b.conn.Displaced():
		return shedConnection
	case errors.Is(err, os.ErrDeadlineExceeded):
		return webhook.Errorf(webhook.SlowBody, "%d bytes of the body had arrived %s after the request", len(b.r.Body),
			time.Since(b.began).Round(time.Second))
	}
	return webhook.Errorf(webhook.UnreadableBody, "the connection ended, or the framing of the body is invalid")
}

func (b *reader) tooLarge() error {
	return webhook.Errorf(webhook.TooLarge, "the limit is %d bytes; set sources.%s.body_limit for more", b.limit,
		b.source.Name)
}
