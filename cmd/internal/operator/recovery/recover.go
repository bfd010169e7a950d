package recovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
)

// Loss is the difference between the database and Temporal.
type Loss struct {
	// From is the time of the last transaction that the database kept, or an earlier time.
	From time.Time `json:"lost_from"`
	// Runs are the runs that pawl recover deletes.
	Runs []Run `json:"runs"`

	in Runs
}

// Loss compares Temporal with a database that has lost transactions after the time from.
func (r Runs) Loss(ctx context.Context, from time.Time) (*Loss, error) {
	ended, err := r.jobs(ctx)
	if err != nil {
		return nil, err
	}
	ahead, err := r.ahead(ctx, from)
	if err != nil {
		return nil, err
	}
	// The runs of unknown receipts come last: while one of them exists, no worker starts.
	var unknown []Run
	for _, run := range ahead {
		if run.Unknown {
			unknown = append(unknown, run)
		} else {
			ended = append(ended, run)
		}
	}
	return &Loss{from, append(ended, unknown...), r}, nil
}

// Unknown returns the workflow IDs of the events that the database no longer contains.
func (l *Loss) Unknown() (events []string) {
	for _, run := range l.Runs {
		if run.Unknown {
			events = append(events, run.WorkflowID)
		}
	}
	return events
}

// Recover implements `pawl recover`. Its Found is a [*Loss].
var Recover = decide.Verb{
	Name: "recover", Target: "database", Needs: role.RightAdmin, Rule: recoverRule, Previews: true,
	Short: "Continue after the database was restored from a backup",
}

// Recovered is the result of [Recover].
type Recovered struct {
	// Deleted is the number of runs that were deleted in Temporal. The ingress starts the known ones again.
	Deleted int `json:"deleted"`
	// Unknown lists the workflow IDs of the events that the provider must send again.
	Unknown []string `json:"unknown_events"`
}

// recoverRule increases the next versions of all targets, and deletes the runs that are ahead of the database. Deleted
// runs start again from their receipts, like after a loss of Temporal's database, and their effects keep their keys.
var recoverRule = decide.Rule[*Loss, *Recovered]{
	Find: decide.Shown(func(l *Loss) string { return "recover/" + l.From.UTC().Format(time.RFC3339) }),
	Check: func(_ context.Context, d *decide.Decision, l *Loss) (*decide.Change, error) {
		c := &decide.Change{
			Target: "database",
			Before: map[string]any{"runs": len(l.Runs), "unknown_events": len(l.Unknown())},
			After:  map[string]any{"lost_from": l.From.UTC()},
		}
		if !d.DryRun {
			c.Do = func(ctx context.Context, tx pgx.Tx) error {
				if err := schema.Exec(ctx, tx, "store the recovery", recoverSQL, l.From); err != nil {
					return err
				}
				return schema.Exec(ctx, tx, "start the runs of jobs again", restartJobsSQL)
			}
		}
		return c, nil
	},
	Act: func(ctx context.Context, _ *decide.Decision, l *Loss, _ decide.Recorded) (string, *Recovered, error) {
		if err := l.in.delete(ctx, l.Runs); err != nil {
			return "", nil, fmt.Errorf("%w; workers do not start yet: run the command again", err)
		}
		res := &Recovered{len(l.Runs), l.Unknown()}
		return res.says(), res, nil
	},
	Forecast: func(_ context.Context, _ *decide.Decision, l *Loss, p *decide.Preview) error {
		p.Message = fmt.Sprintf("it would delete %d runs in Temporal, and increase the versions of all targets; "+
			"%d events are not in the database", len(l.Runs), len(l.Unknown()))
		return nil
	},
}

func (r *Recovered) says() string {
	text := fmt.Sprintf("%d runs are deleted in Temporal; the ingress starts the runs of stored events again within minutes",
		r.Deleted)
	if len(r.Unknown) > 0 {
		text += fmt.Sprintf(". %d events are not in the database: let the provider send them again (%s)",
			len(r.Unknown), strings.Join(r.Unknown, ", "))
	}
	return text
}

// recoverSQL stores the recovery. Versions of targets then begin at the number of seconds since 1970, which is higher
// than the versions that sinks have seen in the lost time: no account changes every second.
const recoverSQL = `insert into recoveries (lost_from, least_version) values ($1, extract(epoch from now()))`

// restartJobsSQL makes a worker start the runs of jobs again, because pawl recover may have deleted them.
const restartJobsSQL = `update jobs set started_at = null where state = 'running'`

// deleteWithin is how long a run may take to disappear after its deletion.
const deleteWithin = 2 * time.Minute

// delete deletes runs in Temporal, and returns when Temporal no longer has them.
func (r Runs) delete(ctx context.Context, runs []Run) error {
	for _, run := range runs {
		_, err := r.Temporal.WorkflowService().DeleteWorkflowExecution(ctx,
			&workflowservice.DeleteWorkflowExecutionRequest{Namespace: r.Namespace, WorkflowExecution: run.execution()})
		if err != nil && !isGone(err) {
			return fmt.Errorf("delete run %s: %w", run.WorkflowID, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	for _, run := range runs {
		if err := r.awaitDeleted(ctx, run); err != nil {
			return fmt.Errorf("Temporal still has run %s: %w", run.WorkflowID, err)
		}
	}
	return nil
}

func (r Runs) awaitDeleted(ctx context.Context, run Run) error {
	for {
		_, err := r.Temporal.WorkflowService().DescribeWorkflowExecution(ctx,
			&workflowservice.DescribeWorkflowExecutionRequest{Namespace: r.Namespace, Execution: run.execution()})
		if isGone(err) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func isGone(err error) bool {
	_, gone := errors.AsType[*serviceerror.NotFound](err)
	return gone
}

const lastSQL = `select at, lost_from from recoveries order by at desc limit 1`

// Last returns the newest recovery: the time of the decision, and the time from which the database had lost
// transactions. Both are zero if there was none.
func Last(ctx context.Context, db schema.Querier) (at, lostFrom time.Time, err error) {
	type row struct{ At, LostFrom time.Time }
	last, err := schema.One[row](ctx, db, "read the last recovery", lastSQL)
	if errors.Is(err, schema.ErrNotFound) {
		return time.Time{}, time.Time{}, nil
	}
	return last.At, last.LostFrom, err
}
