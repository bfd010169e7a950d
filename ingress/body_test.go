package ingress_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The deadline of a body grows with the received bytes: a body that makes progress may take longer than a body that
// stalls after a few bytes.
func TestBody_ComesOn_EarnsTime(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, s *ingress.Source) {
		c.Limits.Read = 300 * time.Millisecond
		s.BodyLimit = 8 << 20
	})
	// the received bytes extend the deadline by 20 s
	body := fmt.Sprintf(`{"id":"e1","pad":"%s"}`, strings.Repeat("x", 5<<20))
	head := "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: %s\r\nContent-Length: %d\r\n\r\n%s"
	comesOn := b.dial(t, fmt.Sprintf(head, sign([]byte(body)), len(body), body[:len(body)-1]))
	creeps := b.dial(t, fmt.Sprintf(head, sign([]byte(body)), len(body), body[:10]))
	if got := status(t, creeps); got != http.StatusRequestTimeout {
		t.Errorf("the slow body: got %d, want 408", got)
	}
	if _, err := io.WriteString(comesOn, body[len(body)-1:]); err != nil {
		t.Fatal(err)
	}
	if got := status(t, comesOn); got != http.StatusAccepted {
		t.Errorf("the body with progress: got %d, want 202", got)
	}
}

// Without a signature header, the server reads only a small part of a large body.
func TestBody_Unsigned_LittleIsRead(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var detail string
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		c.Limits.Read, c.Limits.Total = time.Minute, 2*time.Minute
		c.Refused = func(_ string, _ *webhook.Request, err *webhook.Error, _ string) {
			mu.Lock()
			defer mu.Unlock()
			detail = err.Detail
		}
	})
	conn := b.dial(t, "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 80<<10))
	if got := status(t, conn); got != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d, want 413", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(detail, "X-Sig") {
		t.Errorf("logged %q, want the missing header", detail)
	}
}

// A body of any size and framing is stored unchanged.
func TestBody_EachSize_KeptWhole(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) { s.BodyLimit = 1 << 20 })
	for _, size := range []int{30, 8<<10 - 1, 8 << 10, 8<<10 + 1, 32 << 10, 32<<10 + 1, 128<<10 + 1, 1 << 20} {
		for _, chunked := range []bool{false, true} {
			id := fmt.Sprintf("e%d-%t", size, chunked)
			body := fmt.Sprintf(`{"id":"%s","pad":"`, id)
			body += strings.Repeat("x", size-len(body)-2) + `"}`
			var from io.Reader = strings.NewReader(body)
			if chunked {
				from = unsized{from}
			}
			if got := do(t, request(t, http.MethodPost, b.url+"/hooks/shop", from, "X-Sig", sign([]byte(body)))); got.status != http.StatusAccepted {
				t.Fatalf("%s: got %d, want 202", id, got.status)
			}
			kept, err := b.store.Body(t.Context(), b.only(t, id).ID)
			if err != nil || !bytes.Equal(kept.Bytes, []byte(body)) {
				t.Errorf("%s: %d bytes are kept, %v; want the %d that came", id, len(kept.Bytes), err, len(body))
			}
		}
	}
}

// The largest body of a provider is accepted. The test measures no time, because two busy cores with the race
// detector are slower than production.
func TestBody_Largest_Taken(t *testing.T) {
	t.Parallel()
	b := startWith(t, schematest.New(t), receipt.Options{Timeout: 2 * time.Minute}, ingress.Limits{Ack: 2 * time.Minute, Total: 2 * time.Minute}, func(_ *ingress.Config, s *ingress.Source) { s.BodyLimit = 25 << 20 })
	begin, end := `{"id":"e1","pad":"`, `"}`
	body := begin + strings.Repeat("x", 25<<20-len(begin)-len(end)) + end
	if got := b.post(t, body); got.status != http.StatusAccepted {
		t.Fatalf("got %d %s, want 202", got.status, got.body)
	}
	kept, err := b.store.Body(t.Context(), b.only(t, "e1").ID)
	if err != nil || string(kept.Bytes) != body {
		t.Errorf("%d bytes are kept, %v; want the %d that came", len(kept.Bytes), err, len(body))
	}
}
