// Package ops is the listener for those who run pawl: is it alive, is it ready, what does it
// measure. It is never the public one.
package ops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// readyWithin bounds the readiness probe: a probe that hangs is an answer too.
const readyWithin = time.Second

// Config is what an ops server shows.
type Config struct {
	// Ready proves that the process can do its work now; for ingress and worker that is
	// (*receipt.Store).Ready. Temporal is no part of it: without it ingress still takes deliveries.
	Ready func(context.Context) error
	// Metrics serves /metrics.
	Metrics http.Handler
}

// Server serves /livez, /readyz and /metrics.
type Server struct{ http *http.Server }

// New returns a server for cfg.
func New(cfg Config) *Server {
	return &Server{http: &http.Server{
		Handler:           Handler(cfg),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       90 * time.Second,
	}}
}

// Handler returns the handler of cfg. /livez says 200 while the process answers at all, so that a
// database outage restarts nothing; /readyz says 503 with the reason while the probe fails.
func Handler(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := probe(r.Context(), cfg.Ready); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	if cfg.Metrics != nil {
		mux.Handle("GET /metrics", cfg.Metrics)
	}
	return mux
}

// probe runs ready and does not wait for it longer than readyWithin, even if it ignores its ctx.
func probe(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- ready(ctx) }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Serve answers on l until [Server.Shutdown]; it then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("ops: %w", err)
	}
	return nil
}

// Shutdown closes the listener and waits for what is in flight until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("ops: shut down: %w", err)
	}
	return nil
}
