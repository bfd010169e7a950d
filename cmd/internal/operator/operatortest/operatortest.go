// Package operatortest starts, for tests of a console, the worker that executes the console's requests.
package operatortest

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/audit"
)

// Serve executes the requests of consoles with the operator of a worker until the test ends.
func Serve(t testing.TB, worker *decide.Operator) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { worker.ServeConsoles(ctx, worker.DB, operator.Calls, 4, slog.New(slog.DiscardHandler)) })
	t.Cleanup(func() {
		stop()
		serving.Wait()
	})
}

// Console returns the operator of a console that uses a database.
func Console(db *pgxpool.Pool) *decide.Operator {
	return &decide.Operator{Verbs: operator.Verbs, DB: db, Audit: audit.New(db, slog.New(slog.DiscardHandler)),
		Remote: true}
}
