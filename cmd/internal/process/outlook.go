package process

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// Outlook returns a function that begins the preview of a run under the configuration. Its caller ends the preview
// with done. A preview sends nothing, and rolls back its writes.
func Outlook(cfg *config.Config, pool *pgxpool.Pool,
	receipts *receipt.Store) func(context.Context) (outlook workflows.Outlook, done func(), err error) {
	n := &Node{Config: cfg, Pool: pool, Receipts: receipts, gates: newGates(cfg)}
	of, err := n.receivers(nil, nil)
	outlooks := &activities.Outlooks{
		DB: pool, Billing: of.billing, Consumers: of.consumers, Workspaces: of.workspaces, Finance: of.finance,
		Mail:    of.mail,
		Objects: of.objects, Breakers: breaker.New(pool), Pauses: pause.New(pool),
	}
	return func(ctx context.Context) (workflows.Outlook, func(), error) {
		if err != nil {
			return nil, nil, err
		}
		outlook, err := outlooks.Open(ctx)
		if err != nil {
			return nil, nil, err
		}
		return outlook, outlook.Close, nil
	}
}

// DialTemporal returns a client that connects when it is first used.
func DialTemporal(cfg *config.Config, log *slog.Logger) (client.Client, error) {
	options, err := cfg.Temporal.ClientOptions()
	if err != nil {
		return nil, err
	}
	options.Logger = newSDKLogger(log)
	lazy, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("temporal client: %w", err)
	}
	return lazy, nil
}
