package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/capture"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// A person waits for these at most: connectWithin for a connection, however many addresses there are to try, and
// queryWithin for all questions of a command.
const (
	connectWithin = 10 * time.Second
	queryWithin   = 30 * time.Second
)

// askingConns is as many connections as a command uses at once.
const askingConns = 4

// session is what a command works with: the configuration and the database, and an operator over both.
type session struct {
	*app
	cfg *config.Config
	db  *pgxpool.Pool
	operator.Operator
	receipts *receipt.Store
}

// withSession calls f with the configured database, under a deadline; within 0 means no deadline. If the
// database cannot be reached, or does not fit this binary, f is not called and the error says so. A command that only
// asks needs no secret but the database's, and warns of the others.
func (a *app) withSession(ctx context.Context, within time.Duration, load func() (*config.Config, error),
	f func(context.Context, *session) error) error {
	cfg, err := load()
	if err != nil {
		return err
	}
	pool, err := process.OpenPool(ctx, cfg, schema.Asking, askingConns)
	if err != nil {
		return err
	}
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	if err = checkDatabase(ctx, cfg, pool); err == nil {
		s := newSession(a, cfg, pool)
		err = f(ctx, s)
		s.close()
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// Closing the pool waits for connections that a stopped server never answers; the process ends now.
		return silent(cfg, within)
	}
	pool.Close()
	return err
}

// asking calls f for a command that asks the database, as [app.withSession] does.
func (a *app) asking(ctx context.Context, f func(context.Context, *session) error) error {
	return a.withSession(ctx, a.queryWithin, a.configToAsk, f)
}

// deciding calls f for a command that decides, as [app.withSession] does.
func (a *app) deciding(ctx context.Context, f func(context.Context, *session) error) error {
	return a.withSession(ctx, a.queryWithin, a.config, f)
}

func newSession(a *app, cfg *config.Config, db *pgxpool.Pool) *session {
	s := &session{app: a, cfg: cfg, db: db, receipts: receipt.NewStore(db, receipt.Options{})}
	s.Operator = operator.Operator{
		DB: db, Audit: audit.New(db, a.ofAudit()), TaskQueue: cfg.Temporal.TaskQueue,
		Outlook: process.Outlook(cfg, db, s.receipts), Relays: process.Relays(cfg),
		Places: pausable(cfg), Policy: process.BillingPolicy(cfg), FourEyes: process.FourEyes(cfg),
		Verify:     capture.Reverifier(cfg, providers()),
		Insert:     s.receipts.Insert,
		Signatures: signatureHeaders(cfg),
	}
	temporal, err := process.DialTemporal(cfg, slog.New(slog.DiscardHandler))
	namespace, unnamed := cfg.Temporal.Namespace()
	if err = cmp.Or(err, unnamed); err != nil {
		s.Temporal = noTemporal{err}
		return s
	}
	s.Temporal, s.Unstick = temporal, operator.Unstick(temporal, namespace)
	return s
}

// ofAudit is where the trail logs: workers log its heads, so that a terminal shows them with --log-level debug alone.
func (a *app) ofAudit() *slog.Logger {
	if a.logLevel == "debug" {
		return a.log
	}
	return slog.New(slog.DiscardHandler)
}

func (s *session) close() {
	s.receipts.Close()
	if c, ok := s.Temporal.(client.Client); ok {
		c.Close()
	}
}

// noTemporal is a Temporal that cannot be asked as it is configured: what does without it works all the same.
type noTemporal struct{ err error }

func (n noTemporal) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, n.err
}

func (n noTemporal) DescribeWorkflowExecution(context.Context, string,
	string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, n.err
}

func (n noTemporal) SignalWorkflow(context.Context, string, string, string, any) error { return n.err }

func (n noTemporal) CancelWorkflow(context.Context, string, string) error { return n.err }

func (n noTemporal) SignalWithStartWorkflow(context.Context, string, string, any, client.StartWorkflowOptions, any,
	...any) (client.WorkflowRun, error) {
	return nil, n.err
}

// pausable lists the names of sinks, consumers and sources, by kind.
func pausable(cfg *config.Config) map[string][]string {
	names := map[string][]string{operator.Source: slices.Sorted(maps.Keys(cfg.Sources))}
	for _, s := range cfg.Served() {
		names[operator.Sink] = append(names[operator.Sink], s.Name)
		if strings.HasPrefix(s.Name, workflows.SinkConsumers+":") {
			names[operator.Consumer] = append(names[operator.Consumer], s.Name)
		}
	}
	return names
}

func silent(cfg *config.Config, within time.Duration) error {
	return fmt.Errorf("the database (%s) did not answer within %s: it is stopped, overloaded or locked", cfg.Database, within)
}

// checkDatabase refuses a database that cannot be reached, and one that is older than this binary.
func checkDatabase(ctx context.Context, cfg *config.Config, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	version, err := schema.Version(ctx, pool)
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect):
		return unreachable(cfg, connect)
	case errors.Is(err, context.DeadlineExceeded):
		return silent(cfg, connectWithin)
	case err != nil:
		return err
	}
	return process.CheckSchemaVersion(version)
}

// unreachable says in one line why a connection failed: there is one for each address and TLS mode that was tried.
func unreachable(cfg *config.Config, err *pgconn.ConnectError) error {
	return fmt.Errorf("the database (%s) cannot be reached: %s%s", cfg.Database, output.FirstLine(err.Unwrap()),
		schema.PoolerAdvice(err))
}
