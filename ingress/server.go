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

// Receipts is where deliveries are committed; a *receipt.Store.
type Receipts interface {
	// Insert returns nil only when every event of d is committed.
	Insert(ctx context.Context, d receipt.Delivery) ([]receipt.Outcome, error)
	KeepProbe(ctx context.Context, p receipt.Probe) error
	CountSources(ctx context.Context, counts []receipt.SourceCount) error
	CountAnswers(ctx context.Context, answers []receipt.Answers) error
}

// Config is what a server needs. Sources and Receipts are required.
type Config struct {
	// Sources by name.
	Sources  map[string]Source
	Receipts Receipts
	// Dispatch takes events that are committed and wait for their workflow. It must not block: the
	// sweep finds the events that it leaves.
	Dispatch func([]receipt.Pending)
	// Refused, when set, sees each refused request, to keep and diagnose it. It must not block, must not change r, and
	// must copy the body to keep it: the body is gone when it returns.
	Refused func(source string, r *webhook.Request, err *webhook.Error, remoteAddr string)
	// Written, when set, reports whether a type of a provider's events has a flow. Metrics name no other type.
	Written func(provider, eventType string) bool
	// Leaving, when set, reports whether the server is about to be shut down. Each answer then ends its connection, so
	// that clients connect to another server.
	Leaving func() bool
	Meter   metric.Meter
	// Tracer, when set, makes each delivery a span.
	Tracer trace.Tracer
	Log    *slog.Logger
	Now    func() time.Time
	Limits Limits
}

// Server takes deliveries. Make one with [New].
type Server struct {
	cfg     Config
	echo    *echo.Echo
	http    *http.Server
	metrics *metrics
	tally   *tally

	// unverified keeps what strangers can bring about from filling the log.
	unverified rate.Sometimes
	// uncommitted logs an outage now and then; missed counts the deliveries between two lines.
	uncommitted rate.Sometimes
	missed      atomic.Int64
	// proxied tells once of a proxy that is not trusted.
	proxied sync.Once

	connections *throttle.Connections
	memory      *throttle.Memory
	// slots bound the deliveries that are verified and committed at once. Each takes one when its body is here.
	slots     *throttle.Slots
	perSource *throttle.Buckets[string]
	perAddr   *throttle.Buckets[netip.Addr]

	stop    context.CancelFunc // ends the tally
	tallied sync.WaitGroup
}

// New checks cfg, reports every fault of it, and returns a server that [Server.Serve] starts.
// [Server.Shutdown] must be called to release it, also when it never served.
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
		// Only connections with a verified request are ever idle. Load balancers close one after a minute by default;
		// a shorter time here would close it while they send.
		IdleTimeout: 65 * time.Second,
		ConnState:   connections.State,
		ConnContext: throttle.WithConn,
		// net/http adds 4 KiB. The longest heads known are PayPal's and signed tokens behind proxies, of some 5 KiB.
		MaxHeaderBytes: 16 << 10,
		// net/http would answer "OPTIONS *" itself, with 200.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	counting, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.tallied.Go(func() { s.tally.run(counting) })
	return s, nil
}

// router knows both slash forms of a source's path and nothing else. It redirects nothing (a 3xx
// is a failed delivery) and has no middleware.
func (s *Server) router() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.routeError
	e.Any("/hooks/:source", s.deliver)
	e.Any("/hooks/:source/", s.deliver)
	return e
}

// routeError answers what no route took: unknown paths, and methods that HTTP does not name.
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

// Handler returns the server's handler, for tests and for servers of one's own. Their connections are theirs to bound.
func (s *Server) Handler() http.Handler { return s.echo }

// Serve takes deliveries on l until [Server.Shutdown]; it then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(s.connections.Listen(l)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("ingress: %w", err)
	}
	return nil
}

// Shutdown closes the listener, lets the deliveries in flight finish until ctx ends, and writes the last counts, also
// when ctx has ended. It may be called twice.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	s.stop()
	s.tallied.Wait()
	if err != nil {
		return fmt.Errorf("ingress: shut down: %w", err)
	}
	return nil
}
