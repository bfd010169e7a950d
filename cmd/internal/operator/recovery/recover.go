package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Loss is the difference between the database and Temporal.
type Loss struct {
	// From is the time of the last transaction that the database kept, or an earlier time. Until is when the workers
	// were stopped, or a later time.
	From  time.Time `json:"lost_from_at"`
	Until time.Time `json:"lost_until_at"`
	// Runs are the runs that pawl recover deletes.
	Runs []Run `json:"runs"`

	in Runs
}

// Loss compares Temporal with a database that has lost the transactions between two times.
func (r Runs) Loss(ctx context.Context, from, until time.Time) (*Loss, error) {
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
	return &Loss{from, until, append(ended, unknown...), r}, nil
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
			After:  map[string]any{"lost_from": l.From.UTC(), "lost_until": l.Until.UTC()},
		}
		if !d.DryRun {
			c.Do = func(ctx context.Context, tx pgx.Tx) error {
				if err := schema.Exec(ctx, tx, "store the recovery", recoverSQL, l.From, l.Until); err != nil {
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
		stored, err := l.unpark(ctx)
		if err != nil {
			return "", nil, err
		}
		res := &Recovered{Deleted: len(l.Runs)}
		for _, id := range l.Unknown() {
			if !slices.Contains(stored, id) { // it has not arrived again yet
				res.Unknown = append(res.Unknown, id)
			}
		}
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
const recoverSQL = `
insert into recoveries (lost_from, lost_until, least_version) values ($1, $2, extract(epoch from now()))`

// restartJobsSQL makes a worker start the runs of jobs again, because pawl recover may have deleted them.
const restartJobsSQL = `update jobs set started_at = null where state = 'running'`

// unparkSQL starts events again that the ingress parked because of the deleted runs $1. The reason of an event that
// arrived again names the run of its lost receipt.
const unparkSQL = `
update receipts r set status = 'processing', reason = '', last_error = '', updated_at = now() - interval '1 hour'
  from unnest($1::text[]) deleted (id)
 where r.status = 'needs_review'
   and (r.reason_code = '` + receipt.RunTerminated + `' and r.workflow_id = deleted.id
        or r.reason_code = '` + receipt.ForeignRun + `' and position('Temporal''s run ' || deleted.id || ' is ' in r.reason) > 0)
returning deleted.id`

// unpark starts the events again that were parked because of the deleted runs. It returns the workflow IDs.
func (l *Loss) unpark(ctx context.Context) ([]string, error) {
	ids := make([]string, len(l.Runs))
	for i, run := range l.Runs {
		ids[i] = run.WorkflowID
	}
	return schema.List[string](ctx, l.in.DB, "start parked events again", unparkSQL, ids)
}

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
	for _, run := range runs {
		if err := r.awaitDeleted(ctx, run); err != nil {
			return fmt.Errorf("Temporal still has run %s: %w", run.WorkflowID, err)
		}
	}
	return nil
}

func (r Runs) awaitDeleted(ctx context.Context, run Run) error {
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	for {
		err := r.describe(ctx, run)
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

const lastSQL = `select lost_from as "from", lost_until as until, at as decided from recoveries order by at desc limit 1`

// Last returns the lost time of the newest recovery. It is zero if there was none.
func Last(ctx context.Context, db schema.Querier) (effect.Loss, error) {
	last, err := schema.One[effect.Loss](ctx, db, "read the last recovery", lastSQL)
	if errors.Is(err, schema.ErrNotFound) {
		return effect.Loss{}, nil
	}
	return last, err
}
