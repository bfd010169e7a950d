package ingress_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// dial opens a connection to the server and writes raw bytes.
func (b *bench) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// status returns the status of the answer on conn, or 0 if the server closed conn without an answer.
func status(t *testing.T, conn net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
			t.Fatal("neither answered nor closed")
		}
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// A slow client loses its connection, and others do not wait for it.
func TestLimits_SlowClients(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		c.Limits.Header, c.Limits.Read, c.Limits.Total = 200*time.Millisecond, 400*time.Millisecond, 10*time.Second
	})
	headers := b.dial(t, "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Slow: ")
	body := b.dial(t, "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nContent-Length: 100\r\nX-Sig: 00\r\n\r\n{")
	chunked := b.dial(t, "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
	expecting := b.dial(t, "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
	if got := b.post(t, `{"id":"e1"}`); got.status != http.StatusAccepted {
		t.Errorf("meanwhile: got %d, want 202", got.status)
	}
	if got := status(t, headers); got != 0 && got != http.StatusRequestTimeout && got != http.StatusBadRequest {
		t.Errorf("slow headers: got %d, want the connection closed", got)
	}
	if got := status(t, body); got != http.StatusRequestTimeout {
		t.Errorf("slow body: got %d, want 408", got)
	}
	if got := status(t, chunked); got != http.StatusRequestTimeout {
		t.Errorf("slow chunks: got %d, want 408", got)
	}
	// The first response is 100 Continue, and the second one is the answer.
	reader := bufio.NewReader(expecting)
	for {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("expecting: %v", err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusContinue {
			continue
		}
		if resp.StatusCode != http.StatusRequestTimeout {
			t.Errorf("a body that never comes: got %d, want 408", resp.StatusCode)
		}
		break
	}
}

// The total size of concurrent bodies is bounded, for any number of requests.
func TestLimits_Bodies_ShedOverTheBudget(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) { c.Limits.Bodies = 10_000 })
	big := fmt.Sprintf(`{"id":"e1","pad":"%s"}`, strings.Repeat("x", 20_000))
	got := b.post(t, big)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("over the budget: got %d, want 503 with Retry-After", got.status)
	}
	// The server releases the memory, so many small bodies in sequence fit.
	for i := range 20 {
		if got := b.post(t, fmt.Sprintf(`{"id":"s%d","pad":"%s"}`, i, strings.Repeat("x", 4_000))); got.status != http.StatusAccepted {
			t.Fatalf("%d: got %d, want 202", i, got.status)
		}
	}
}

// No path redirects, because a 3xx is a failed delivery, and only the source's own path is accepted.
func TestLimits_Paths(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := `{"id":"e1"}`
	if got := b.post(t, body); got.status != http.StatusAccepted {
		t.Fatalf("got %d, want 202", got.status)
	}
	for _, path := range []string{"/hooks/shop/", "/hooks/shop?x=1", "/hooks/shop/?x=1"} {
		if got := do(t, request(t, "POST", b.url+path, strings.NewReader(body), "X-Sig", sign([]byte(body)))); got.status != http.StatusOK {
			t.Errorf("%s: got %d, want 200 for the duplicate", path, got.status)
		}
	}
	for _, path := range []string{"/", "/hooks", "/hooks/", "//hooks/shop", "/hooks//shop", "/hooks/shop//", "/hooks/shop/x", "/hooks/../hooks/shop",
		"/hooks/SHOP", "/hooks/shop;x", "/hooks/%00", "/hooks/unknown", "/Hooks/shop"} {
		// The test writes raw bytes, because an HTTP client would normalize the path.
		conn := b.dial(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: evil.example\r\nX-Sig: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", path, sign([]byte(body)), len(body), body))
		if got := status(t, conn); got != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, got)
		}
	}
	conn := b.dial(t, "OPTIONS * HTTP/1.1\r\nHost: pawl\r\nConnection: close\r\n\r\n")
	if got := status(t, conn); got != http.StatusNotFound {
		t.Errorf("OPTIONS *: got %d, want 404", got)
	}
	for _, method := range []string{"GET", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "TRACE", "PURGE"} {
		conn := b.dial(t, method+" /hooks/shop HTTP/1.1\r\nHost: pawl\r\nConnection: close\r\n\r\n")
		if got := status(t, conn); got != http.StatusMethodNotAllowed && got != http.StatusNotFound {
			t.Errorf("%s: got %d, want 405", method, got)
		}
	}
}

// A request that is rejected by its path or method is answered without reading its body, and the connection is closed.
func TestLimits_RefusedUnread_AnsweredAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) { c.Limits.Read, c.Limits.Total = time.Minute, 2*time.Minute })
	for request, want := range map[string]int{
		"POST /hooks/unknown":             http.StatusNotFound,
		"POST /elsewhere":                 http.StatusNotFound,
		"PUT /hooks/shop":                 http.StatusMethodNotAllowed,
		"GET /hooks/shop":                 http.StatusMethodNotAllowed,
		"PURGE /hooks/shop":               http.StatusMethodNotAllowed,
		"GET /hooks/shop?challenge=bad":   http.StatusBadRequest,
		"GET /hooks/shop?challenge=right": http.StatusOK,
	} {
		conn := b.dial(t, request+" HTTP/1.1\r\nHost: pawl\r\nContent-Length: 100\r\n\r\n{")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v; want an answer before the body has come", request, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want || !resp.Close {
			t.Errorf("%s: got %d, connection closed %t; want %d and closed", request, resp.StatusCode, resp.Close, want)
		}
	}
}

// A chunked body has no length, so the server detects only while reading that it is too large. The answer does not
// wait for the rest either.
func TestLimits_ChunkedTooLarge_AnsweredAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *ingress.Config, s *ingress.Source) {
		c.Limits.Read, c.Limits.Total = time.Minute, 2*time.Minute
		s.BodyLimit = 100
	})
	conn := b.dial(t, "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nTransfer-Encoding: chunked\r\n\r\nc8\r\n"+strings.Repeat("x", 200)+"\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%v; want an answer before the body has ended", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
		t.Errorf("got %d, connection closed %t; want 413 and closed", resp.StatusCode, resp.Close)
	}
}

// The server closes a connection after a request with two lengths, because a proxy may disagree about the start of
// the next request.
func TestLimits_TwoLengths_ConnectionClosed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := `{"id":"e1"}`
	conn := b.dial(t, fmt.Sprintf("POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: %s\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", sign([]byte(body)), len(body), body))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted || !resp.Close {
		t.Errorf("got %d, connection closed %t; want 202 and closed", resp.StatusCode, resp.Close)
	}
}

func TestLimits_PerSource(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		c.Now = func() time.Time { return now } // the clock stands still, so no token is refilled
		c.Limits.PerSource = throttle.Rate{PerSecond: 1, Burst: 2}
		c.Limits.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	for i, want := range []int{202, 202, 503} {
		got := b.post(t, fmt.Sprintf(`{"id":"e%d"}`, i), "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))
		if got.status != want || want == 503 && got.header.Get("Retry-After") == "" {
			t.Errorf("%d: got %d, Retry-After %q; want %d", i, got.status, got.header.Get("Retry-After"), want)
		}
	}
}

// Without trusted proxies, X-Forwarded-For is ignored: a client cannot use the tokens of another address.
func TestLimits_PerAddress_ForwardedNotBelieved(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		c.Now = func() time.Time { return now }
		c.Limits.PerAddress = throttle.Rate{PerSecond: 1, Burst: 1}
	})
	for i, want := range []int{202, 503, 503} {
		if got := b.post(t, fmt.Sprintf(`{"id":"e%d"}`, i), "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i)); got.status != want {
			t.Errorf("%d: got %d, want %d", i, got.status, want)
		}
	}
}

// The server accepts no content encoding, even if the header does not match the body, and decompresses nothing.
func TestLimits_ContentEncoding(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := []byte(`{"id":"e1"}`)
	for _, c := range []struct {
		encoding string
		status   int
	}{{"gzip", 415}, {"br", 415}, {"identity, gzip", 415}, {"x", 415}, {"identity", 202}, {"IDENTITY", 200}} {
		got := do(t, request(t, "POST", b.url+"/hooks/shop", bytes.NewReader(body), "X-Sig", sign(body), "Content-Encoding", c.encoding))
		if got.status != c.status {
			t.Errorf("%s: got %d, want %d", c.encoding, got.status, c.status)
		}
	}
}

// The server answers a request with too large headers without storing it.
func TestLimits_Headers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := b.dial(t, "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: "+strings.Repeat("0", 15_000)+"\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
	if got := status(t, conn); got != http.StatusUnauthorized {
		t.Errorf("15 kB: got %d, want 401", got)
	}
	var d net.Dialer
	over, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	// The server may answer and close the connection during this write.
	_, _ = io.WriteString(over, "POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: "+strings.Repeat("0", 60_000)+"\r\nContent-Length: 2\r\n\r\n{}")
	resp, err := http.ReadResponse(bufio.NewReader(over), nil)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("60 kB: got %d, want 431", resp.StatusCode)
		}
	}
}

// A head with many short fields would occupy fifty times its size in memory, as long as the client keeps the
// connection open. The server answers such a head before its end, however it is divided into packets. Lines of a body
// do not count.
func TestLimits_HeaderFields(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fields := func(n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "X-%d: 1\r\n", i)
		}
		return text.String()
	}
	sent := 0
	delivery := func(n int) string {
		sent++ // each delivery is new, because the answer to a duplicate closes the connection
		body := fmt.Sprintf(`{"id":"e%d"%s}`, sent, strings.Repeat("\n", 1000))
		return fmt.Sprintf("POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: %s\r\nContent-Length: %d\r\n%s\r\n%s", sign([]byte(body)), len(body), fields(n-3), body)
	}
	for n, want := range map[int]int{64: http.StatusAccepted, 65: http.StatusRequestHeaderFieldsTooLarge} {
		if got := status(t, b.dial(t, delivery(n))); got != want {
			t.Errorf("%d fields: got %d, want %d", n, got, want)
		}
	}
	conn := b.dial(t, "POST /hooks/shop HTTP/1.1\r\n")
	for i := range 70 { // each part is most likely in its own packet
		_, _ = fmt.Fprintf(conn, "X-%d: 1\r\n", i)
	}
	if got := status(t, conn); got != http.StatusRequestHeaderFieldsTooLarge && got != 0 {
		t.Errorf("a head that has not ended: got %d, want 431 or the connection closed", got)
	}
	// The limit also applies to the next request of a connection.
	conn = b.dial(t, delivery(60))
	reader := bufio.NewReader(conn)
	for i, n := range []int{60, 64, 65} {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if over := resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge; over != (i == 2 && n == 65) {
			t.Errorf("request %d of %d fields: got %d", i, n, resp.StatusCode)
		}
		if i < 2 {
			_, _ = io.WriteString(conn, delivery([]int{64, 65}[i]))
		}
	}
}

// A client may send the next delivery without waiting for an answer, so that its head arrives together with the
// previous body. The server accepts each delivery, and applies the limit of header fields to each head.
func TestLimits_HeaderFields_Pipelined(t *testing.T) {
	t.Parallel()
	b := setup(t)
	delivery := func(id string) string {
		body := fmt.Sprintf(`{"id":%q%s}`, id, strings.Repeat("\n", 6000))
		return fmt.Sprintf("POST /hooks/shop HTTP/1.1\r\nHost: pawl\r\nX-Sig: %s\r\nContent-Length: %d\r\n\r\n%s", sign([]byte(body)), len(body), body)
	}
	conn := b.dial(t, delivery("e1")+delivery("e2")+delivery("e3"))
	reader := bufio.NewReader(conn)
	for i := range 3 {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("delivery %d: %v", i, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("delivery %d: got %d, want 202", i, resp.StatusCode)
		}
	}
	if got := b.count(t, `select count(*) from receipts`); got != 3 {
		t.Errorf("%d receipts of 3 deliveries", got)
	}
}

// A request that is rejected before its body is read is recorded as well, with the values that are known.
func TestLimits_RefusalsAreTold(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	told := map[webhook.Class]string{}
	b := setup(t, func(c *ingress.Config, s *ingress.Source) {
		s.BodyLimit = 100
		c.Refused = func(_ string, _ *webhook.Request, err *webhook.Error, remoteAddr string) {
			mu.Lock()
			defer mu.Unlock()
			told[err.Class] = err.Detail + " " + remoteAddr
		}
	})
	large := strings.Repeat("x", 101)
	b.post(t, large)
	do(t, request(t, "POST", b.url+"/hooks/shop", strings.NewReader("{}"), "Content-Encoding", "gzip"))
	do(t, request(t, "POST", b.url+"/hooks/shop", strings.NewReader("{}"), "X-Sig", "00"))
	mu.Lock()
	defer mu.Unlock()
	for class, says := range map[webhook.Class]string{webhook.TooLarge: "sources.shop.body_limit", webhook.ContentEncoding: "compresses", webhook.NoMatchingSignature: "127.0.0.1"} {
		if !strings.Contains(told[class], says) {
			t.Errorf("%s: logged %q, want %q in it", class, told[class], says)
		}
	}
}
