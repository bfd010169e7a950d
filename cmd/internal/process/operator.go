package process

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// Outlook returns a function that starts the preview of a run with the current configuration. The caller must call done
// afterwards. A preview sends nothing, and its writes are rolled back.
func Outlook(cfg *config.Config, pool *pgxpool.Pool,
	receipts *receipt.Store) func(context.Context) (outlook workflows.Outlook, done func(), err error) {
	n := &Node{Config: cfg, Pool: pool, Receipts: receipts, gates: newGates(cfg)}
	outlooks, err := n.receivers(nil, nil)
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

// NewOperator returns the operator of a process. It makes decisions and previews with the process's configuration.
func NewOperator(cfg *config.Config, pool *pgxpool.Pool, receipts *receipt.Store, temporal client.Client,
	log *slog.Logger) (*decide.Operator, error) {
	namespace, err := cfg.Temporal.Namespace()
	if err != nil {
		return nil, err
	}
	return &decide.Operator{
		Verbs: operator.Verbs, DB: pool, Audit: audit.New(pool, log), Temporal: temporal,
		TaskQueue: cfg.Temporal.TaskQueue,
		Unstick:   decide.Unstick(temporal, namespace), Outlook: Outlook(cfg, pool, receipts), Relays: RelaysOf(cfg),
		FlowOf: cfg.FlowOf,
		Policy: BillingPolicy(cfg), FourEyes: cfg.Policy.FourEyes,
		CancelCompensates: cfg.Policy.OnWorkflowCancel == "compensate",
		Insert:            receipts.Insert,
	}, nil
}

// DialTemporal returns a client that connects at its first call. metrics and interceptors may be nil.
func DialTemporal(cfg *config.Config, log *slog.Logger, metrics client.MetricsHandler,
	interceptors []interceptor.ClientInterceptor) (client.Client, error) {
	options, err := cfg.Temporal.ClientOptions()
	if err != nil {
		return nil, err
	}
	return dial(options, log, metrics, interceptors)
}

// dial returns a client with the SDK's own configuration.
func dial(options client.Options, log *slog.Logger, metrics client.MetricsHandler,
	interceptors []interceptor.ClientInterceptor) (client.Client, error) {
	// The SDK logs only its own retries, from level warning on. pawl logs each start itself.
	options.Logger, options.MetricsHandler, options.Interceptors = newSDKLogger(log), metrics, interceptors
	lazy, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("temporal client: %w", err)
	}
	return lazy, nil
}
