// Package ops is the listener for those who run pawl: is it alive, is it ready, what does it
// measure. It is never the public one.
package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pawlhq/pawl/ingress/throttle"
)

// readyWithin bounds each probe: one that hangs is an answer too.
const readyWithin = time.Second

// Config is what an ops server shows.
type Config struct {
	// Ready says why the process is not to be sent anything, whatever its parts are like: it is being stopped, say.
	Ready func() error
	// Parts are asked at once, and what each says stands in the answer.
	Parts func() []Part
	// Metrics serves /metrics.
	Metrics http.Handler
	// Log is told when there are too many connections.
	Log *slog.Logger
}

// mostConnections is more than probes and scrapers have. The client with the most connections loses one to the next
// client, so that nobody keeps the others from asking.
const mostConnections = 64

// Part is one part of a process.
type Part struct {
	Name string
	// Probe proves that the part can do its work now. note is a remark about a part that works.
	Probe func(context.Context) (note string, err error)
	// Decides says that the process is not ready without this part. An ingress without Temporal, say, still takes
	// deliveries.
	Decides bool
}

// Server serves /livez, /readyz and /metrics.
type Server struct {
	http        *http.Server
	connections *throttle.Connections
}

// New returns a server for cfg.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	connections := throttle.NewConnections(mostConnections, cfg.Log)
	return &Server{connections: connections, http: &http.Server{
		Handler:           Handler(cfg),
		ConnState:         connections.State,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       90 * time.Second,
	}}
}

// Handler returns the handler of cfg. /livez says 200 while the process answers at all, so that a
// database outage restarts nothing. /readyz says 200, or 503 with the reason, and then how each part is and how long
// it took to say so.
func Handler(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		err := cfg.Ready()
		answers := probe(r.Context(), cfg.Parts())
		if err == nil && len(answers) == 0 {
			err = errors.New("it is starting")
		}
		for _, a := range answers {
			if err == nil && a.part.Decides && a.err != nil {
				err = fmt.Errorf("%s: %w", a.part.Name, a.err)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "not ready: "+err.Error())
		} else {
			fmt.Fprintln(w, "ok")
		}
		for _, a := range answers {
			fmt.Fprintln(w, a)
		}
	})
	if cfg.Metrics != nil {
		mux.Handle("GET /metrics", cfg.Metrics)
	}
	return mux
}

// answer is what came of one probe.
type answer struct {
	part Part
	took time.Duration
	note string
	err  error
}

func (a answer) String() string {
	line := fmt.Sprintf("%s: %s", a.part.Name, a.took.Round(time.Millisecond))
	if a.err != nil {
		line += ": " + a.err.Error()
	}
	if a.note != "" {
		line += ": " + a.note
	}
	return line
}

// probe asks all parts at once, and waits for none of them longer than readyWithin, even if it ignores its ctx.
func probe(ctx context.Context, parts []Part) []answer {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	begin := time.Now()
	answers := make([]answer, len(parts))
	var asked sync.WaitGroup
	for i, part := range parts {
		result := make(chan answer, 1)
		go func() {
			note, err := part.Probe(ctx)
			result <- answer{part, time.Since(begin), note, err}
		}()
		asked.Go(func() {
			select {
			case answers[i] = <-result:
			case <-ctx.Done():
				answers[i] = answer{part: part, took: time.Since(begin), err: ctx.Err()}
			}
		})
	}
	asked.Wait()
	return answers
}

// Serve answers on l until [Server.Shutdown]; it then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(s.connections.Listen(l)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("ops: %w", err)
	}
	return nil
}

// Shutdown closes the listener and waits for the requests in flight until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("ops: shut down: %w", err)
	}
	return nil
}
