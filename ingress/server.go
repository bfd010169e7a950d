package ingress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Receipts stores deliveries; a *receipt.Store.
type Receipts interface {
	// Insert commits every event of d, or returns an error.
	Insert(ctx context.Context, d receipt.Delivery) ([]receipt.Outcome, error)
	CountSources(ctx context.Context, counts []receipt.SourceCount) error
	CountAnswers(ctx context.Context, answers []receipt.Answers) error
}

// Config configures a server. Sources and Receipts are required.
type Config struct {
	// Sources maps names to sources.
	Sources  map[string]Source
	Receipts Receipts
	// Dispatch receives committed events, to start their workflows. It must not block. The sweep of the dispatcher
	// starts the events that Dispatch drops.
	Dispatch func([]receipt.Pending)
	// Refused, when set, receives each refused request, to store and diagnose it. It must not block or change r. It
	// must copy the body to keep it, because the body is freed when Refused returns.
	Refused func(source string, r *webhook.Request, err *webhook.Error, remoteAddr string)
	// Written, when set, reports whether an event type of a provider has a flow. Metrics contain only types with a
	// flow.
	Written func(provider, eventType string) bool
	// Leaving, when set, reports whether the server is about to shut down. Each answer then closes its connection, so
	// that clients connect to another server.
	Leaving func() bool
	Meter   metric.Meter
	// Tracer, when set, makes a span of each delivery.
	Tracer trace.Tracer
	Log    *slog.Logger
	Now    func() time.Time
	Limits Limits
}

// Server receives deliveries. Make one with [New].
type Server struct {
	cfg     Config
	echo    *echo.Echo
	http    *http.Server
	metrics *metrics
	tally   *tally

	// unverified limits the log lines that unauthenticated requests can cause.
	unverified rate.Sometimes
	// uncommitted limits the log lines about deliveries that were not committed. missed counts the deliveries between
	// two lines.
	uncommitted rate.Sometimes
	missed      atomic.Int64
	// proxied limits the warning about an untrusted proxy to once.
	proxied sync.Once

	connections *throttle.Connections
	memory      *throttle.Memory
	// slots limits the deliveries that are verified and committed at once. A delivery gets a slot after its body has
	// arrived.
	slots     *throttle.Slots
	perSource *throttle.Buckets[string]
	perAddr   *throttle.Buckets[netip.Addr]

	stop    context.CancelFunc // ends the tally
	tallied sync.WaitGroup
}

// New validates cfg, reports all of its faults, and returns a server that [Server.Serve] starts. Call [Server.Shutdown]
// to stop its goroutine, even if Serve was never called.
func New(cfg Config) (*Server, error) {
	var faults []error
	for name, source := range cfg.Sources {
		faults = append(faults, source.check(name))
	}
	if cfg.Receipts == nil {
		faults = append(faults, errors.New("no receipt store"))
	}
	cfg.Meter = cmp.Or[metric.Meter](cfg.Meter, noop.Meter{})
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Dispatch == nil {
		cfg.Dispatch = func([]receipt.Pending) {}
	}
	if cfg.Written == nil {
		cfg.Written = func(string, string) bool { return false }
	}
	if cfg.Leaving == nil {
		cfg.Leaving = func() bool { return false }
	}
	if cfg.Refused == nil {
		cfg.Refused = func(string, *webhook.Request, *webhook.Error, string) {}
	}
	cfg.Limits.setDefaults()
	connections, memory := throttle.NewConnections(cfg.Limits.Connections, cfg.Log),
		throttle.NewMemory(cfg.Limits.Bodies)
	metrics, err := newMetrics(cfg.Meter)
	faults = append(faults, observe(cfg.Meter, connections, memory))
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("ingress: %w", err)
	}
	s := &Server{
		cfg: cfg, metrics: metrics, tally: newTally(cfg.Receipts, cfg.Log),
		unverified: rate.Sometimes{Interval: 10 * time.Second}, uncommitted: rate.Sometimes{Interval: 10 * time.Second},

		connections: connections,
		memory:      memory,
		slots:       throttle.NewSlots(cfg.Limits.InFlight),
		perSource:   throttle.New[string](cfg.Limits.PerSource, keysRemembered),
		perAddr:     throttle.New[netip.Addr](cfg.Limits.PerAddress, keysRemembered),
	}
	s.echo = s.router()
	s.http = &http.Server{
		Handler:           s.echo,
		ReadHeaderTimeout: cfg.Limits.Header,
		ReadTimeout:       cfg.Limits.Read,
		WriteTimeout:      cfg.Limits.Total,
		// Load balancers close idle connections after a minute by default. If the server used a shorter timeout, it
		// could close a connection while the balancer sends a request on it.
		IdleTimeout: 65 * time.Second,
		// net/http would answer "OPTIONS *" itself, with 200.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	counting, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.tallied.Go(func() { s.tally.run(counting) })
	return s, nil
}

// router accepts the path of a source with and without a trailing slash. It never redirects, because a 3xx is a failed
// delivery, and it has no middleware.
func (s *Server) router() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.routeError
	e.Any("/hooks/:source", s.deliver)
	e.Any("/hooks/:source/", s.deliver)
	return e
}

// routeError answers requests that match no route: unknown paths, and methods that HTTP does not define.
func (s *Server) routeError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	c.Response().Header()["Connection"] = closing
	if he, ok := errors.AsType[*echo.HTTPError](err); ok && he.Code == http.StatusMethodNotAllowed {
		c.Response().Header().Set("Allow", http.MethodPost)
		_ = answer(c, http.StatusMethodNotAllowed, "method_not_allowed")
		return
	}
	_ = answer(c, http.StatusNotFound, "not_found")
}

// Handler returns the handler of the server, for tests and custom servers. It does not limit connections.
func (s *Server) Handler() http.Handler { return s.echo }

// Serve receives deliveries on l until [Server.Shutdown]. It then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.connections.Serve(s.http, l); err != nil {
		return fmt.Errorf("ingress: %w", err)
	}
	return nil
}

// Shutdown closes the listener and waits for deliveries in progress until ctx ends. It then writes the last counts,
// even if ctx has ended. It may be called twice.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	s.stop()
	s.tallied.Wait()
	if err != nil {
		return fmt.Errorf("ingress: shut down: %w", err)
	}
	return nil
}
