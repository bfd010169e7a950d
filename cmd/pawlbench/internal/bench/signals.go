package bench

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// askEvery is how often metrics are scraped, as in deploy/compose/signals/prometheus.yml.
const askEvery = 15 * time.Second

// signals simulates the monitoring of production: a collector of traces, and a scraper of metrics.
type signals struct {
	url    string
	server *http.Server
	ctx    context.Context
	cancel context.CancelFunc
	asks   sync.WaitGroup
}

func takeSignals() (*signals, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &signals{url: "http://" + l.Addr().String()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.server = &http.Server{ReadHeaderTimeout: askEvery, Handler: http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })}
	s.asks.Go(func() { _ = s.server.Serve(l) }) // serves until the server is closed
	return s, nil
}

// ask scrapes the metrics of processes until the end. A process that is not running is skipped.
func (s *signals) ask(processes ...string) {
	for _, addr := range processes {
		s.asks.Go(func() {
			tick := time.NewTicker(askEvery)
			defer tick.Stop()
			for {
				req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
				if err != nil {
					return
				}
				if resp, err := http.DefaultClient.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				select {
				case <-tick.C:
				case <-s.ctx.Done():
					return
				}
			}
		})
	}
}

func (s *signals) close() error {
	s.cancel()
	err := s.server.Close()
	s.asks.Wait()
	return err
}
