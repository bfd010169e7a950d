// Package ops serves liveness, readiness and metrics on a listener of their own. The listener must never be public.
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

// readyWithin is the time limit of each probe. A probe that takes longer counts as failed.
const readyWithin = time.Second

// Config configures an ops server.
type Config struct {
	// Ready returns a reason why the process must not get requests, apart from the state of its parts. For example, the
	// process is stopping.
	Ready func() error
	// Parts returns the parts to probe. They are probed concurrently, and the response contains the result of each.
	Parts func() []Part
	// Metrics serves /metrics.
	Metrics http.Handler
	// Log receives a warning if there are too many connections.
	Log *slog.Logger
}

// mostConnections exceeds the number of connections that probes and scrapers need. If more connections are opened,
// pawl closes a connection of the client with the most connections, so that no client can lock out the others.
const mostConnections = 64

// Part is one part of a process.
type Part struct {
	Name string
	// Probe returns an error if the part cannot do its work now. note is a remark about a part that works.
	Probe func(context.Context) (note string, err error)
	// Decides is set if the process is not ready while this part fails. For example, it is not set for Temporal in an
	// ingress: without Temporal, the ingress still receives deliveries.
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
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       90 * time.Second,
	}}
}

// Handler returns the handler for cfg. /livez returns 200 as long as the process responds at all, so that an
// orchestrator does not restart the process when the database is down. /readyz returns 200, or 503 with the reason. The
// body contains the state of each part and the duration of its probe.
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

// answer is the result of one probe.
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

// probe probes all parts concurrently. It waits at most readyWithin, even if a probe ignores its context.
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
	if err := s.connections.Serve(s.http, l); err != nil {
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
