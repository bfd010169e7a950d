package commandtest

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
)

// Gate is an ingress that runs in the test process, with the configuration of the test stack.
type Gate struct {
	http.Handler
	Pool *pgxpool.Pool
	// Stop writes the buffered rejections.
	Stop func()
}

// Open reads the stack's configuration, and connects to its database until the test ends.
func (s Stack) Open(t *testing.T, dsn string) (*config.Config, *pgxpool.Pool) {
	t.Helper()
	cfg, err := config.Load(s.File, s.Variable, s.Program.Providers)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return cfg, pool
}

// NewGate starts an ingress for the stack, on the database at dsn.
func NewGate(t *testing.T, s Stack, dsn string) Gate {
	t.Helper()
	cfg, pool := s.Open(t, dsn)
	store := receipt.NewStore(pool, receipt.Options{Timeout: 20 * time.Second})
	t.Cleanup(store.Close)
	sources, err := process.Sources(cfg, s.Program.Providers)
	if err != nil {
		t.Fatal(err)
	}
	diagnoser, err := process.NewDiagnoser(cfg, s.Program.Providers)
	if err != nil {
		t.Fatal(err)
	}
	keeper := rejected.NewKeeper(rejected.Config{Store: rejection.New(pool), Diagnoser: diagnoser})
	server, err := ingress.New(ingress.Config{Sources: sources, Receipts: store, Refused: keeper.Offer,
		Limits: ingress.Limits{Ack: 20 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { keeper.Run(ctx); close(ran) }()
	stop := func() { cancel(); <-ran }
	t.Cleanup(func() {
		stop()
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return Gate{server.Handler(), pool, stop}
}

// Post signs a request as Stripe does, and sends it to the ingress.
func (g Gate) Post(t *testing.T, path string, in webhook.SignInput) *httptest.ResponseRecorder {
	t.Helper()
	if in.At.IsZero() {
		in.At = time.Now()
	}
	out, err := stripe.Provider.Sign(in)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(out.Body))
	r.Header = out.Header
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}
