package process

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/recovery"
)

// lossWithin bounds the comparison of the newest runs with the database.
const lossWithin = 30 * time.Second

// ComparedRuns returns the runs of a deployment in Temporal, for a comparison with the database.
func ComparedRuns(cfg *config.Config, temporal client.Client, db *pgxpool.Pool) (recovery.Runs, error) {
	namespace, err := cfg.Temporal.Namespace()
	return recovery.Runs{Temporal: temporal, Namespace: namespace, TaskQueue: cfg.Temporal.TaskQueue, DB: db}, err
}

// lossCheck returns a check for a worker that starts. It fails while Temporal has runs of events that the database does
// not contain: runs that continued on such a database would rely on state that it has lost. The check also sets the
// last loss of data in the runner of effects.
func lossCheck(n *Node) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lossWithin)
		defer cancel()
		runs, err := ComparedRuns(n.Config, n.Temporal, n.Pool)
		if err != nil {
			return err
		}
		unknown, err := runs.Unknown(ctx)
		switch serviceerror.ToStatus(err).Code() {
		case codes.OK:
		case codes.PermissionDenied, codes.Unimplemented, codes.InvalidArgument:
			n.log.WarnContext(ctx, "cannot check whether the database has lost data", "error", err)
		default:
			return fmt.Errorf("compare the runs in Temporal with the database: %w", err)
		}
		if len(unknown) > 0 {
			return fmt.Errorf("the database has lost data: Temporal has runs of %d events that it does not contain, such as %s, started at %s. Run `pawl recover --lost-from TIME` with the time to which the database was restored",
				len(unknown), unknown[0].WorkflowID, unknown[0].StartedAt.UTC().Format(time.RFC3339))
		}
		n.effects.Lost, err = recovery.Last(ctx, n.Pool)
		return err
	}
}
