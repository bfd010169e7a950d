package console

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/console/tries"
	"github.com/pawlhq/pawl/cmd/internal/console/users"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/people"
	"github.com/pawlhq/pawl/ingress/throttle"
)

// Options configures a console. Token and API are optional.
type Options struct {
	Config   *config.Config
	Operator *decide.Operator
	Log      *slog.Logger
	// Page returns the URL of a run in the Temporal UI, or "" if no UI is configured.
	Page func(workflowID, runID string) string
	// Token authenticates the API token of a request from the address.
	Token func(ctx context.Context, token, address string) (*decide.Person, error)
	// API adds the routes below /api/v1 to a group. The function that it gets authenticates a request.
	API func(*echo.Group, func(*http.Request) (*decide.Person, error)) error
}

// Server serves the pages of the console.
type Server struct {
	Options
	echo *echo.Echo
	http *http.Server
	// connections limits the connections of the listener.
	connections *throttle.Connections

	door  *door
	pages *pages
	hosts []string // the accepted host names; empty accepts every host
	// filing holds a value for each CSV file that is being prepared.
	filing chan struct{}
}

const (
	// mostConnections is how many connections the listener has. A browser opens up to six connections.
	mostConnections = 512
	// mostBody is the maximum size of a form in bytes, and mostBodyUnsigned the maximum for a request without a person.
	mostBody, mostBodyUnsigned = 64 << 10, 8 << 10
)

// answerWithin is the timeout of a request, including its queries to the database and to Temporal.
const answerWithin = 15 * time.Second

// New returns a server. It opens no connection.
func New(o Options) (*Server, error) {
	pages, err := newPages()
	if err != nil {
		return nil, err
	}
	c := o.Config.Console
	s := &Server{Options: o, pages: pages, hosts: hostsOf(o.Config), filing: make(chan struct{}, filesAtOnce),
		connections: throttle.NewConnections(mostConnections, o.Log.With("listener", "console"))}
	s.door = &door{cfg: o.Config, db: o.Operator.DB, log: o.Log, token: o.Token, users: users.New(c.Users),
		tries: tries.New(), trusted: prefixes(slices.Concat(c.TrustedProxies, c.Proxy.From)),
		secure: strings.HasPrefix(c.URL, "https:"), now: time.Now, render: s.render}
	if c.OIDC.Issuer != "" {
		s.door.oidc = newProvider(c, s.door.secure)
	}
	if !c.SignsIn() && !o.Config.Dev.Enabled {
		o.Log.Warn("nobody can sign in to the console: set console.users, console.oidc or console.proxy")
	}
	s.echo = echo.New()
	s.echo.HTTPErrorHandler = s.fail
	s.echo.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{LogErrorFunc: func(c echo.Context, err error,
		stack []byte) error {
		o.Log.Error("a page panicked", "path", c.Path(), "stack", string(stack))
		return err
	}}))
	for _, r := range s.routes() {
		s.echo.Add(r.method, r.path, s.guard(r))
		if r.method == http.MethodGet { // the server omits the body of HEAD
			s.echo.HEAD(r.path, s.guard(r))
		}
	}
	if o.API != nil {
		if err := o.API(s.echo.Group("/api/v1"), s.door.programOrPerson); err != nil {
			return nil, err
		}
	}
	s.http = &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 60 * time.Second, IdleTimeout: 90 * time.Second,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// hostsOf lists the accepted host names. Requests with another name are rejected, to prevent DNS rebinding.
func hostsOf(cfg *config.Config) (hosts []string) {
	if u, err := url.Parse(cfg.Console.URL); err == nil && u.Host != "" {
		hosts = append(hosts, u.Host)
	}
	host, port, err := net.SplitHostPort(cfg.Console.Listen)
	ip := net.ParseIP(host)
	switch {
	case err != nil:
	case host == "localhost" || ip != nil && ip.IsLoopback():
		hosts = append(hosts, net.JoinHostPort(host, port), net.JoinHostPort("localhost", port),
			net.JoinHostPort("127.0.0.1", port))
	case ip != nil && !ip.IsUnspecified():
		hosts = append(hosts, net.JoinHostPort(host, port))
	case len(hosts) == 0 && !cfg.Dev.Enabled:
		return nil
	}
	return hosts
}

// Handler returns the handler of the console with its limits.
func (s *Server) Handler() http.Handler {
	crossing := http.NewCrossOriginProtection()
	crossing.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "another site has sent this request: pawl ignores it", http.StatusForbidden)
	}))
	return s.armored(crossing.Handler(s.echo))
}

// contentSecurity lets a page load only the console's own styles and scripts, and forbids frames.
const contentSecurity = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// armored rejects requests for other hosts and sets the security headers on every response.
func (s *Server) armored(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurity)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if s.door.secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !s.answers(r.Host) {
			http.Error(w, "this host is not the console's: set console.url", http.StatusMisdirectedRequest)
			return
		}
		throttle.ConnOf(r.Context()).Requested(s.door.client(r))
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		next.ServeHTTP(w, r)
	})
}

// answers reports whether the host name is accepted. If the configured port is 0, every port of the host is accepted.
func (s *Server) answers(host string) bool {
	if len(s.hosts) == 0 {
		return true
	}
	for _, known := range s.hosts {
		if strings.EqualFold(host, known) {
			return true
		}
		if at, port, err := net.SplitHostPort(known); err == nil && port == "0" {
			if asked, _, err := net.SplitHostPort(host); err == nil && strings.EqualFold(asked, at) {
				return true
			}
		}
	}
	return false
}

// Serve serves l until [Server.Shutdown], and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.connections.Serve(s.http, l); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// Run serves l until ctx ends.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watch, end := context.WithCancel(ctx)
	defer end()
	if s.Config.Console.Users != "" && !s.Config.Dev.Enabled { // pawl dev does not use the file
		watching.Go(func() { s.door.users.Watch(watch, watchEvery, s.Log, s.reportPeople) })
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		stopped <- s.http.Shutdown(ending)
	})
	if err := s.Serve(l); err != nil {
		return err
	}
	if !stop() {
		return <-stopped
	}
	return nil
}

// watchEvery is how often the console looks for changes of the file console.users.
const watchEvery = time.Second

// reportPeople records the changes of the people who can sign in with a password.
func (s *Server) reportPeople(ctx context.Context, list []decide.Person) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return people.Report(ctx, s.Operator, host, list)
}
