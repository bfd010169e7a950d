package console_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/console"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

// A thousand connections, each with an unfinished head of 31 KB, use little memory and delay neither a signed-in
// person nor a sign-in. Heads with a few large fields may be unfinished, up to the number of slots.
//
// The test is not parallel, because it measures the memory of its process.
func TestListener_ThousandHeads_LittleMemory(t *testing.T) {
	s := newStand(t, nil)
	server, err := console.New(console.Options{Config: s.cfg, Operator: s.operator, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = l.Close() })
	var many strings.Builder
	for i := 0; many.Len() < 31_000; i++ {
		fmt.Fprintf(&many, "X%d: 1\r\n", i)
	}
	few := strings.Repeat("X: "+strings.Repeat("1", 3000)+"\r\n", 5)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var open sync.WaitGroup
	for i := range 1000 {
		from := fmt.Sprintf("127.%d.0.1", 40+i%2)
		fields := []string{many.String(), few}[i/500]
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		open.Go(func() {
			_, _ = io.WriteString(conn, "POST /sign-in HTTP/1.1\r\nHost: "+l.Addr().String()+"\r\n"+fields)
		})
	}
	open.Wait()
	runtime.ReadMemStats(&after)
	if took := int64(after.HeapInuse) - int64(before.HeapInuse); took > 100<<20 {
		t.Errorf("1,000 heads take %d MiB", took>>20)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.42.0.1")}}).DialContext(ctx, network, addr)
	}}}
	for range 5 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/sign-in", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Do(r)
		if err != nil {
			t.Fatalf("a person who signs in: %v", err)
		}
		_ = got.Body.Close()
	}
}

// A form before the sign-in must be small, because parsing a large form uses fifty times its size.
func TestListener_UnsignedForm_IsSmall(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.as("ada", role.Viewer)
	form := url.Values{"name": {"ada"}, "password": {password}, "next": {"/" + strings.Repeat("x", 10_000)}}
	if got := s.browser().post("/sign-in", form).StatusCode; got == http.StatusSeeOther {
		t.Errorf("a form of 10 KB is read: %d", got)
	}
}

// behindProxy is a console that trusts the X-Forwarded-For header from its own machine.
func behindProxy(t *testing.T) *stand {
	return newStand(t, func(c *config.Config) {
		c.Console.TrustedProxies = []config.Network{{Prefix: netip.MustParsePrefix("127.0.0.0/8")}}
	})
}

func (b *browser) signInFrom(client, password string) int {
	return b.do(http.MethodPost, "/sign-in", url.Values{"name": {"ada"}, "password": {password}}, map[string]string{"X-Forwarded-For": client}).StatusCode
}

// Behind a TLS proxy, ten wrong passwords from one network do not delay a person in another network.
func TestSignIn_WrongElsewhere_OwnerNotDelayed(t *testing.T) {
	t.Parallel()
	s := behindProxy(t)
	if err := s.auth.Add(decide.Person{Name: "ada", Roles: []role.Role{role.Viewer}}, password); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if got := s.browser().signInFrom(fmt.Sprintf("203.0.113.%d", i), "wrong wrong wrong"); got != http.StatusUnauthorized {
			t.Errorf("attempt %d: got %d, want 401", i, got)
		}
	}
	if got := s.browser().signInFrom("203.0.113.200", password); got != http.StatusTooManyRequests {
		t.Errorf("the same network again: got %d, want 429", got)
	}
	if got := s.browser().signInFrom("198.51.100.1", password); got != http.StatusSeeOther {
		t.Errorf("the owner elsewhere: got %d, want 303", got)
	}
	if got := s.browser().signInFrom("203.0.113.201, 198.51.100.2", password); got != http.StatusSeeOther {
		t.Errorf("the owner, with an address of the client's own before: got %d, want 303", got)
	}
}

// In a burst of sign-in attempts, the console does not compare more passwords than the limit allows.
func TestSignIn_Burst_ComparesNoMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	s := behindProxy(t)
	statuses := make(chan int, 40)
	var burst sync.WaitGroup
	for range cap(statuses) {
		burst.Go(func() { statuses <- s.browser().signInFrom("203.0.113.7", "wrong wrong wrong") })
	}
	burst.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	if count[http.StatusUnauthorized] != 10 || count[http.StatusTooManyRequests] != 30 {
		t.Errorf("got %v, want ten attempts compared", count)
	}
}

// A header that occurs twice, from the client and from the proxy, sets neither a person nor groups. The console uses
// the proxy's X-Forwarded-For and ignores the client's.
func TestProxy_RepeatedHeader_NotBelieved(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *config.Config) {
		c.Console.Proxy = config.Proxy{Header: "X-Forwarded-User", Groups: "X-Forwarded-Groups",
			From: []config.Network{{Prefix: netip.MustParsePrefix("127.0.0.0/8")}}}
		c.Console.Roles = map[string]role.Role{"oncall": role.Operator, "": role.Admin}
	})
	if err := s.auth.Add(decide.Person{Name: "ada", Roles: []role.Role{role.Viewer}}, password); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		head string
		want int
	}{
		"once":               {"X-Forwarded-User: ada\r\nX-Forwarded-Groups: oncall", http.StatusOK},
		"a name twice":       {"X-Forwarded-User: root\r\nX-Forwarded-User: ada\r\nX-Forwarded-Groups: oncall", http.StatusUnauthorized},
		"groups twice":       {"X-Forwarded-User: ada\r\nX-Forwarded-Groups: oncall\r\nX-Forwarded-Groups: staff", http.StatusUnauthorized},
		"an empty group":     {"X-Forwarded-User: ada\r\nX-Forwarded-Groups: ", http.StatusForbidden},
		"no group at all":    {"X-Forwarded-User: ada", http.StatusForbidden},
		"an empty one first": {"X-Forwarded-User: \r\nX-Forwarded-User: ada\r\nX-Forwarded-Groups: oncall", http.StatusUnauthorized},
	} {
		if got := s.raw("GET / HTTP/1.1\r\nHost: " + s.host() + "\r\nConnection: close\r\n" + c.head + "\r\n\r\n"); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
	form := "name=ada&password=wrong"
	for i := range 11 {
		want := http.StatusUnauthorized
		if i == 10 {
			want = http.StatusTooManyRequests
		}
		got := s.raw(fmt.Sprintf("POST /sign-in HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n"+
			"X-Forwarded-For: 192.0.2.%d\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n%s", s.host(), len(form), i, form))
		if got != want {
			t.Errorf("attempt %d with an address of its own: got %d, want %d", i, got, want)
		}
	}
}

func (s *stand) host() string { return strings.TrimPrefix(s.url, "http://") }

// raw sends a request unchanged, and returns the status.
func (s *stand) raw(text string) int {
	s.t.Helper()
	conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(s.t.Context(), "tcp", s.host())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = got.Body.Close()
	return got.StatusCode
}
