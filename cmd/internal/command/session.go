package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/capture"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/recovery"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// ConnectWithin bounds the time to connect, over all addresses. queryWithin bounds all queries of a command.
const (
	ConnectWithin = 10 * time.Second
	queryWithin   = 30 * time.Second
)

// Session holds the configuration, the database and an operator for a command.
type Session struct {
	*App
	Config *config.Config
	DB     *pgxpool.Pool
	*decide.Operator
	Receipts *receipt.Store
	temporal client.Client
}

// WithSession calls f with the configured database and a deadline; 0 means no deadline. It returns an error without
// calling f if the database is unreachable or has another version than this binary. A command that only reads needs no
// secret except the database URL, and logs a warning for each other secret that cannot be read.
func (a *App) WithSession(ctx context.Context, within time.Duration, load func() (*config.Config, error),
	f func(context.Context, *Session) error) error {
	cfg, err := load()
	if err != nil {
		return err
	}
	pool, err := process.OpenPool(ctx, cfg, schema.Asking, process.CommandConns)
	if err != nil {
		return err
	}
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	s, err := NewSession(a, cfg, pool)
	if err != nil {
		return err
	}
	if err = CheckDatabase(ctx, cfg, pool); err == nil {
		err = f(ctx, s)
	}
	s.Close()
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// Closing the pool would wait forever for connections to a server that has stopped.
		return silent(cfg, within)
	}
	pool.Close()
	return err
}

// Asking is [App.WithSession] for a command that reads.
func (a *App) Asking(ctx context.Context, f func(context.Context, *Session) error) error {
	return a.WithSession(ctx, a.QueryWithin, a.LoadToAsk, f)
}

// Deciding is [App.WithSession] for a command that makes a decision.
func (a *App) Deciding(ctx context.Context, f func(context.Context, *Session) error) error {
	return a.WithSession(ctx, a.QueryWithin, a.Load, f)
}

// NewSession returns a session on a pool that the caller closes.
func NewSession(a *App, cfg *config.Config, db *pgxpool.Pool) (*Session, error) {
	log := slog.New(slog.DiscardHandler)
	temporal, err := process.DialTemporal(cfg, log, nil, nil)
	if err != nil {
		return nil, err
	}
	if a.logLevel == "debug" {
		log = a.Log // the heads of the audit trail appear on a terminal only at level debug
	}
	receipts := receipt.NewStore(db, receipt.Options{})
	o, err := process.NewOperator(cfg, db, receipts, temporal, log)
	if err != nil {
		return nil, err
	}
	o.Places, o.Verify, o.Signatures = pausable(cfg), capture.Reverifier(cfg, a.Providers), signatureHeaders(cfg)
	return &Session{App: a, Config: cfg, DB: db, Operator: o, Receipts: receipts, temporal: temporal}, nil
}

// Runs returns the runs in Temporal, for a comparison with the database.
func (s *Session) Runs() (recovery.Runs, error) {
	return process.ComparedRuns(s.Config, s.temporal, s.DB)
}

// Close releases everything but the pool.
func (s *Session) Close() {
	s.Receipts.Close()
	s.temporal.Close()
}

func pausable(cfg *config.Config) map[string][]string {
	names := map[string][]string{decide.Source: slices.Sorted(maps.Keys(cfg.Sources))}
	for _, s := range cfg.Served() {
		names[decide.Sink] = append(names[decide.Sink], s.Name)
	}
	return names
}

// signatureHeaders returns the signature headers from the configuration of hmac sources.
func signatureHeaders(cfg *config.Config) []string {
	var names []string
	for _, s := range cfg.Sources {
		if s.Provider == hmac.Provider.Name {
			names = append(names, s.Options["header"])
		}
	}
	return names
}

func silent(cfg *config.Config, within time.Duration) error {
	return fmt.Errorf("the database (%s) did not answer within %s: it is stopped, overloaded or locked", cfg.Database, within)
}

// CheckDatabase returns an error if the database is unreachable or older than this binary.
func CheckDatabase(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, ConnectWithin)
	defer cancel()
	version, err := schema.Version(ctx, pool)
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect):
		return Unreachable(cfg, connect)
	case errors.Is(err, context.DeadlineExceeded):
		return silent(cfg, ConnectWithin)
	case err != nil:
		return err
	}
	return process.CheckSchemaVersion(version)
}

// Unreachable returns the first line of a connection error. pgx reports one line per address and TLS mode.
func Unreachable(cfg *config.Config, err *pgconn.ConnectError) error {
	return fmt.Errorf("the database (%s) cannot be reached: %s%s", cfg.Database, output.FirstLine(err.Unwrap()),
		schema.PoolerAdvice(err))
}
