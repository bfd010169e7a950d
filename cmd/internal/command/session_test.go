package command_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { commandtest.Main(m) }

var program = command.Program{Providers: map[string]webhook.Provider{stripe.Provider.Name: stripe.Provider}}

// If a query waits for a lock, it ends after a timeout.
func TestDatabase_Locked_QueryGivenUp(t *testing.T) {
	t.Parallel()
	s := commandtest.Locked(t, program)
	a := &command.App{Providers: program.Providers, Env: s.Variable, ConfigFile: s.File, Log: slog.New(slog.DiscardHandler), QueryWithin: 500 * time.Millisecond}
	err := a.Asking(t.Context(), func(ctx context.Context, s *command.Session) error {
		_, err := s.DB.Exec(ctx, `select from receipts`)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "did not answer within 500ms") {
		t.Errorf("asking() = %v; want the deadline", err)
	}
}

// If a command succeeds just before the timeout, it reports success, so that the person does not repeat it.
func TestDatabase_DoneWhenTheTimeIsOver_NoFailure(t *testing.T) {
	t.Parallel()
	s := commandtest.New(t, program, schematest.NewDSN(t), map[string]string{"stripe": "stripe"})
	a := &command.App{Providers: program.Providers, Env: s.Variable, ConfigFile: s.File, Log: slog.New(slog.DiscardHandler), QueryWithin: 2 * time.Second}
	err := a.Asking(t.Context(), func(ctx context.Context, _ *command.Session) error {
		<-ctx.Done()
		return nil
	})
	if err != nil {
		t.Errorf("asking() = %v; want success", err)
	}
}
