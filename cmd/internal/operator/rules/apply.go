package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Change activates the proposed rules of a [RulesDiff]. Rate is the maximum number of accounts that are recomputed per
// second.
type Change struct {
	*Diff
	Rate float64
	// later is set if a job activates the rules. The decision then only creates the job.
	later bool
	// askedBy is the first person, if two people decide about the change.
	askedBy string
}

// foldBegins is the maximum duration for which an account is computed. A computation that started before the diff may
// still use the old rules.
const foldBegins = 10 * time.Minute

// Apply implements `pawl rules apply`. Its result is the [*job.Job] that recomputes the accounts.
var Apply = decide.Verb{Name: "apply-rules", Judges: true, Command: "rules apply", Target: "HASH",
	Short: "Activate other billing rules", Needs: role.RightAdmin, Rule: applyRule,
	Long: `Activate billing rules that a process has proposed, for all processes, as a job of a worker, which recomputes the
affected accounts. pawl rules show lists the hashes. pawl rules diff --hash HASH shows the accounts.`}

// applyRule activates rules and creates the job that recomputes the affected accounts, in one transaction. The ID of
// the job is the request ID. The job also recomputes the accounts that were computed with the old rules after the
// diff.
var applyRule = decide.Rule[*Change, *job.Job]{
	Find: findChange,
	Check: func(_ context.Context, d *decide.Decision, s *Change) (*decide.Change, error) {
		if s.To == s.Active {
			return nil, d.Refuse("is active already")
		}
		if err := jobs.Check(d, s.Rate, "account"); err != nil {
			return nil, decide.Invalidf("%s", err)
		}
		if s.later {
			return s.laterChange(d), nil
		}
		return &decide.Change{
			Target: s.To, Judges: true,
			// The affected accounts are not part of the state, because they change constantly.
			State:  []any{s.Active, s.To},
			Before: map[string]any{"rules": s.Active},
			After:  map[string]any{"rules": s.To, "settings": s.Settings, "counts": s.Counts},
			Do:     func(ctx context.Context, tx pgx.Tx) error { return s.apply(ctx, tx, d) },
		}, nil
	},
	Forecast: func(ctx context.Context, d *decide.Decision, s *Change, p *decide.Preview) error {
		diff, err := Compare(ctx, d.Operator.DB, d.Operator.Policy, s.To, nil)
		if err != nil {
			return err
		}
		affected := fmt.Sprintf("%d accounts", len(diff.Accounts))
		if len(diff.Accounts) == 1 {
			affected = "1 account"
		}
		p.Message = fmt.Sprintf("it replaces %s and affects %s; a worker activates it and recomputes the accounts",
			cmp.Or(diff.Active, "none"), affected)
		p.Rules = diff.preview()
		return nil
	},
	Act: func(ctx context.Context, d *decide.Decision, s *Change, _ decide.Recorded) (string, *job.Job, error) {
		if s.later {
			made, err := jobs.RunNew(ctx, d.Operator, d.Request)
			return "a job activates it", made, err
		}
		says, result := "it is active", (*job.Job)(nil)
		for _, id := range []string{d.Request, d.Request + ofEvents} {
			made, err := jobs.RunNew(ctx, d.Operator, id)
			if decide.IsFault(err, decide.Unknown) {
				continue
			}
			if err != nil {
				return "", nil, err
			}
			says, result = says+"; "+made.Message(), cmp.Or(result, made)
		}
		if result == nil {
			says += ", and affects no account"
		}
		return says, result, nil
	},
}

// findChange returns the change that a command has shown, or the change to the rules with the given hash. A decision
// by hash creates a job, because only a worker has the permission to write billing rules. The item of the job
// compares and activates them.
func findChange(ctx context.Context, d *decide.Decision) (*Change, string, error) {
	s := &Change{Rate: rulesRate}
	switch shown, is := d.Found.(*Change); {
	case is:
		return shown, "rules", nil
	case d.Item != nil:
		s.Rate = d.Item.Job.Rate
		var err error
		s.Diff, err = Compare(ctx, d.Operator.DB, d.Operator.Policy, d.Target, nil)
		return s, "rules", err
	}
	to, err := billing.RulesByHash(ctx, d.Operator.DB, d.Target)
	switch {
	case errors.Is(err, billing.ErrNoRules):
		return nil, "", decide.Unknownf("no billing rules %q: pawl rules show lists the proposed rules", d.Target)
	case err != nil:
		return nil, "", err
	}
	s.Diff, s.later = &Diff{To: to.Hash(), to: to}, true
	s.Active, err = billing.ActiveRulesHash(ctx, d.Operator.DB)
	return s, "rules", err
}

// rulesRate is the default rate, in accounts per second.
const rulesRate = 20

// laterChange returns the change that creates the job.
func (s *Change) laterChange(d *decide.Decision) *decide.Change {
	return &decide.Change{
		Target: s.To, Judges: true, Confirmed: func(first string) { s.askedBy = first }, State: []any{s.Active, s.To},
		Before: map[string]any{"rules": s.Active}, After: map[string]any{"rules": s.To},
		Do: func(ctx context.Context, tx pgx.Tx) error {
			made := jobs.Authored(d, job.Job{ID: d.Request, Action: job.ApplyRules,
				Filter: map[string]string{"hash": s.To}, Rate: s.Rate, AskedBy: s.askedBy})
			return jobs.Insert(ctx, d, tx, made, []job.Item{{Target: s.To, Name: s.To}})
		},
	}
}

// apply activates the rules and creates the job in tx.
func (s *Change) apply(ctx context.Context, tx pgx.Tx, d *decide.Decision) error {
	switch err := billing.ActivateRules(ctx, tx, s.Active, s.to, d.Actor, d.Reason); {
	case errors.Is(err, billing.ErrRulesChanged):
		return d.Refuse("was compared with rules that are no longer active: compare again, with pawl rules diff")
	case err != nil:
		return err
	}
	if err := s.runIgnored(ctx, tx, d); err != nil {
		return err
	}
	touched, err := billing.TouchedSince(ctx, tx, s.At.Add(-foldBegins))
	if err != nil {
		return err
	}
	return s.makeJob(ctx, tx, d, billing.CauseRules, map[string]string{"hash": s.To}, s.Rate, touched)
}

// ofEvents is the suffix of the ID of the job that runs events.
const ofEvents = "-events"

// runIgnored closes the tasks about connected accounts that are mapped now, and creates a job that runs their events.
func (s *Change) runIgnored(ctx context.Context, tx pgx.Tx, d *decide.Decision) error {
	var items []job.Item
	for _, of := range mapped(s.Settings) {
		task := billing.Task{Mode: of.Mode, Kind: billing.TaskAccount, Object: of.ID}
		over := billing.CloseTask(task, fold.TaskDone)
		if _, err := tx.Exec(ctx, over.SQL, over.Args...); err != nil {
			return fmt.Errorf("close the task of %s: %w", of.ID, err)
		}
		list, err := receipt.IgnoredOf(ctx, tx, "stripe", of.Mode, of.ID, activities.CodeAccountNotMapped)
		if err != nil {
			return err
		}
		for _, r := range list {
			items = append(items, job.Item{Target: r.ID, Name: r.EventID})
		}
	}
	if len(items) == 0 {
		return nil
	}
	return job.MakeIn(ctx, tx, jobs.Authored(d, job.Job{
		ID: d.Request + ofEvents, Action: event.Run.Name, Rate: s.Rate,
		Filter: map[string]string{"reason_code": activities.CodeAccountNotMapped},
	}), items)
}
