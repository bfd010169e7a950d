package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// Config sets the addresses and the directory of a sandbox.
type Config struct {
	// Dir holds the journals. Start creates it if it does not exist. Only one sandbox may use it at a time.
	Dir string
	// HTTPAddr and SMTPAddr are the listen addresses. Empty means a free port on 127.0.0.1.
	HTTPAddr, SMTPAddr string
	// Endpoints are the initial webhook endpoints of the Stripe API, as JSON.
	Endpoints []json.RawMessage
	// Log receives the faults that were applied. Nil disables logging.
	Log *slog.Logger
	// Accepted is called with the service and the account of each accepted request, after its line is written and
	// before it is answered. It must not block. It may be nil.
	Accepted func(service, account string, first bool)
}

// Sandbox is a running sandbox. Its methods are safe for concurrent use.
type Sandbox struct {
	journals map[string]*journal
	stripe   *stripeAPI
	asked    atomic.Int64 // number of requests to the Stripe API, for request IDs
	faults   faults
	checks   *journal // requests of `pawl sinks check`, in memory only
	log      *slog.Logger
	accepted func(service, account string, first bool)

	lock         *os.File
	httpListener net.Listener
	smtpListener net.Listener
	http         *http.Server
	smtp         *smtp.Server
	closing      chan struct{}
	closeOnce    sync.Once
	closeErr     error
}

// Start opens the journals in cfg.Dir, reads them and listens. On an error it closes everything. The sandbox runs until
// [Sandbox.Close] or until ctx ends.
func Start(ctx context.Context, cfg Config) (_ *Sandbox, err error) {
	s := &Sandbox{journals: map[string]*journal{}, checks: newJournal(), log: cfg.Log, accepted: cfg.Accepted,
		closing: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if err != nil {
			_ = s.release() // return the first error
			err = fmt.Errorf("start the sandbox: %w", err)
		}
	}()
	if err := s.open(cfg); err != nil {
		return nil, err
	}
	if s.httpListener, err = listen(ctx, cfg.HTTPAddr); err != nil {
		return nil, err
	}
	if s.smtpListener, err = listen(ctx, cfg.SMTPAddr); err != nil {
		return nil, err
	}
	s.serve()
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s, nil
}

func (s *Sandbox) open(cfg Config) (err error) {
	dir := cfg.Dir
	// Journals contain emails and accounts. Only the owner may read them, even if the directory existed before.
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil {
		return err
	}
	if s.lock, err = keeper.Claim(dir); err != nil {
		return err
	}
	for _, service := range services {
		if s.journals[service], err = openJournal(dir, service); err != nil {
			delete(s.journals, service)
			return err
		}
	}
	s.stripe, err = openStripe(dir, cfg.Endpoints)
	return err
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(addr, "127.0.0.1:0"))
}

func (s *Sandbox) serve() {
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	s.smtp = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{sandbox: s, conn: c}, nil
	}))
	s.smtp.Domain = "sandbox.localhost"
	s.smtp.MaxMessageBytes = 10 << 20
	s.smtp.ReadTimeout = 10 * time.Minute
	s.smtp.WriteTimeout = time.Minute
	s.smtp.ErrorLog = log.New(slog.NewLogLogger(s.log.Handler(), slog.LevelDebug).Writer(), "", 0)
	go s.report("http", func() error { return s.http.Serve(s.httpListener) })
	go s.report("smtp", func() error { return s.smtp.Serve(s.smtpListener) })
}

// keep stores an accepted request and calls Accepted.
func (s *Sandbox) keep(service string, in record, strict bool) (record, error) {
	rec, err := s.journals[service].accept(in, strict)
	if err == nil && s.accepted != nil {
		s.accepted(service, in.Account, rec.First)
	}
	return rec, err
}

// report logs the error of a server that ends unexpectedly.
func (s *Sandbox) report(name string, serve func() error) {
	err := serve()
	select {
	case <-s.closing:
	default:
		s.log.Error("sandbox server ended", "server", name, "error", err)
	}
}

// URL returns the base URL of the HTTP services without a trailing slash, for example "http://127.0.0.1:8090".
func (s *Sandbox) URL() string { return "http://" + s.httpListener.Addr().String() }

// SMTPAddr returns the address of the SMTP server, for example "127.0.0.1:2525".
func (s *Sandbox) SMTPAddr() string { return s.smtpListener.Addr().String() }

// Close stops listening, drops the connections and closes the journals. Every answered request is already written.
// Close can be called twice.
func (s *Sandbox) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		// Running requests get a short time to finish. Requests that a fault delays are released.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		httpErr := s.http.Shutdown(ctx)
		if errors.Is(httpErr, context.DeadlineExceeded) {
			httpErr = s.http.Close()
		}
		s.closeErr = errors.Join(httpErr, s.smtp.Close(), s.release())
	})
	return s.closeErr
}

// release closes everything that open and listen opened.
func (s *Sandbox) release() error {
	var errs []error
	for _, l := range []net.Listener{s.httpListener, s.smtpListener} {
		if l != nil {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	for _, j := range s.journals {
		errs = append(errs, j.file.Close())
	}
	if s.stripe != nil {
		errs = append(errs, s.stripe.told.file.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
