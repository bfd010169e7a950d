package console

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/ingress/throttle"
)

// Options is what a console is made of. All but Token and API are required.
type Options struct {
	Config   *config.Config
	Operator *operator.Operator
	Log      *slog.Logger
	// Page is where the Temporal UI shows a run, "" for nowhere.
	Page func(workflowID, runID string) string
	// Token returns the person of an API token that was sent from an address.
	Token func(ctx context.Context, token, address string) (*operator.Person, error)
	// API adds the routes below /api/v1 to a group, given who asks.
	API func(*echo.Group, func(*http.Request) (*operator.Person, error)) error
}

// Server serves the pages.
type Server struct {
	Options
	echo *echo.Echo
	http *http.Server
	// connections limits the connections of the listener.
	connections *throttle.Connections

	door  *door
	pages *pages
	hosts []string // that are answered; none for any
}

const (
	// mostConnections is how many connections the listener has. A browser keeps up to six.
	mostConnections = 512
	// mostBody is the size of the largest form in bytes, and mostBodyUnsigned that of a request without a person.
	mostBody, mostBodyUnsigned = 64 << 10, 8 << 10
)

// answerWithin bounds a page, with its questions to the database and to Temporal.
const answerWithin = 15 * time.Second

// New returns a server. It reaches nothing yet.
func New(o Options) (*Server, error) {
	pages, err := newPages()
	if err != nil {
		return nil, err
	}
	c := o.Config.Console
	s := &Server{Options: o, pages: pages, hosts: hostsOf(o.Config),
		connections: throttle.NewConnections(mostConnections, o.Log.With("listener", "console"))}
	s.door = &door{cfg: o.Config, db: o.Operator.DB, log: o.Log, token: o.Token, users: NewUsers(c.Users),
		tries: newTries(), trusted: prefixes(slices.Concat(c.TrustedProxies, c.Proxy.From)),
		secure: strings.HasPrefix(c.URL, "https:"), now: time.Now, render: s.render}
	if c.OIDC.Issuer != "" {
		s.door.oidc = newProvider(c, s.door.secure)
	}
	if !c.SignsIn() && !o.Config.Dev {
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
		if r.method == http.MethodGet { // the server leaves out the body
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

// hostsOf lists the hosts that a request may name: a page that another host's name leads here is somebody else's.
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
	case len(hosts) == 0 && !cfg.Dev:
		return nil
	}
	return hosts
}

// Handler is the whole of the console.
func (s *Server) Handler() http.Handler {
	crossing := http.NewCrossOriginProtection()
	crossing.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "another site has sent this request: nothing was done", http.StatusForbidden)
	}))
	return s.armored(crossing.Handler(s.echo))
}

// contentSecurity lets a page load its own style and script, and nothing else; nobody may frame it.
const contentSecurity = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// armored refuses hosts that are not the console's, and gives every answer the headers that browsers go by.
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

// answers reports whether requests to a host are answered. A listener of any port is asked for by its port.
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

// Serve answers on l until [Server.Shutdown]; it then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.connections.Serve(s.http, l); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// Run listens where the configuration says, and serves until ctx ends. ready, where it is set, is told the address.
func (s *Server) Run(ctx context.Context, ready func(net.Addr)) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Config.Console.Listen)
	if err != nil {
		return fmt.Errorf("listen for the console (console.listen): %w", err)
	}
	s.Log.InfoContext(ctx, "console listens", "address", listener.Addr().String())
	if ready != nil {
		ready(listener.Addr())
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		stopped <- s.http.Shutdown(ending)
	})
	if err := s.Serve(listener); err != nil {
		return err
	}
	if !stop() {
		return <-stopped
	}
	return nil
}
