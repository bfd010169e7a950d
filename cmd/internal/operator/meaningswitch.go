package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
)

// MeaningSwitch is a switch to the meaning of a [MeaningDiff]. Rate limits the accounts that are folded per second.
// Letters lists the kinds of letters that are sent. By default none are sent.
type MeaningSwitch struct {
	*MeaningDiff
	Rate    float64
	Letters []string
	// later is set if a job makes the switch. The decision then only creates the job.
	later bool
	// askedBy is the first person, if two people decide about the switch.
	askedBy string
}

// foldBegins is the maximum duration of a fold. A fold that started before the diff may still use the old meaning.
const foldBegins = 10 * time.Minute

// applyMeaningRule switches to a meaning and creates the job that folds the affected accounts, in one transaction. The
// job ID is the request ID. The job includes the accounts that were folded by the old meaning since the diff.
var applyMeaningRule = rule[*MeaningSwitch, *job.Job]{
	find: findSwitch,
	check: func(_ context.Context, d *Decision, s *MeaningSwitch) (*change, error) {
		if s.To == s.InForce {
			return nil, d.refuse("is in force already")
		}
		if err := cmp.Or(checkJob(d, s.Rate, "account"), CheckLetters(s.Letters)); err != nil {
			return nil, invalid("%s", err)
		}
		if s.later {
			return s.laterChange(d), nil
		}
		return &change{
			target: s.To, judges: true,
			// The affected accounts are not part of the state, because they change all the time.
			state:  []any{s.InForce, s.To, s.Letters},
			before: map[string]any{"meaning": s.InForce},
			after: map[string]any{"meaning": s.To, "settings": s.Settings, "counts": s.Counts,
				"letters": s.Letters},
			do: func(ctx context.Context, tx pgx.Tx) error { return s.apply(ctx, tx, d) },
		}, nil
	},
	forecast: func(ctx context.Context, d *Decision, s *MeaningSwitch, p *Preview) error {
		diff, err := DiffMeaning(ctx, d.o.DB, d.o.Policy, s.To, nil)
		if err == nil {
			p.Says = fmt.Sprintf("it replaces %s, and hits %d accounts; a worker brings it into force and folds them anew",
				cmp.Or(diff.InForce, "none"), len(diff.Accounts))
		}
		return err
	},
	answer: func(ctx context.Context, d *Decision, s *MeaningSwitch, _ recorded) (string, *job.Job, error) {
		if s.later {
			made, err := d.o.runMade(ctx, d.Request)
			return "a job brings it into force", made, err
		}
		says, result := "it is in force", (*job.Job)(nil)
		for _, id := range []string{d.Request, d.Request + ofEvents} {
			made, err := d.o.runMade(ctx, id)
			if IsFault(err, Unknown) {
				continue
			}
			if err != nil {
				return "", nil, err
			}
			says, result = says+"; "+made.Says(), cmp.Or(result, made)
		}
		if result == nil {
			says += ", and hits no account"
		}
		return says, result, nil
	},
}

// findSwitch returns the switch that a command has shown, or the switch to the meaning with the hash. A decision by
// hash creates a job, because only a worker may write meanings. The item of the job compares and switches.
func findSwitch(ctx context.Context, d *Decision) (*MeaningSwitch, string, error) {
	s := &MeaningSwitch{Rate: meaningRate}
	made, item := d.Found.(*job.Job)
	switch shown, is := d.Found.(*MeaningSwitch); {
	case is:
		return shown, "meaning", nil
	case item:
		s.Rate = made.Rate
		if kinds := made.Filter["letters"]; kinds != "" {
			s.Letters = strings.Split(kinds, ",")
		}
		var err error
		s.MeaningDiff, err = DiffMeaning(ctx, d.o.DB, d.o.Policy, d.Target, nil)
		return s, "meaning", err
	}
	if d.Letters != "" {
		s.Letters = strings.Split(d.Letters, ",")
	}
	to, err := billing.Named(ctx, d.o.DB, d.Target)
	switch {
	case errors.Is(err, billing.ErrNoMeaning):
		return nil, "", unknown("no meaning %q: pawl meaning show lists those that were proposed", d.Target)
	case err != nil:
		return nil, "", err
	}
	s.MeaningDiff, s.later = &MeaningDiff{To: to.Hash(), to: to}, true
	s.InForce, err = billing.HashInForce(ctx, d.o.DB)
	return s, "meaning", err
}

// meaningRate is the default rate, in accounts per second.
const meaningRate = 20

// laterChange returns the change that creates the job.
func (s *MeaningSwitch) laterChange(d *Decision) *change {
	filter := map[string]string{"hash": s.To}
	if len(s.Letters) > 0 {
		filter["letters"] = strings.Join(s.Letters, ",")
	}
	return &change{
		target: s.To, judges: true, state: []any{s.InForce, s.To, s.Letters},
		before: map[string]any{"meaning": s.InForce}, after: map[string]any{"meaning": s.To, "letters": s.Letters},
		do: func(ctx context.Context, tx pgx.Tx) error {
			made := d.makes(job.Job{ID: d.Request, Action: job.ApplyMeaning, Filter: filter, Rate: s.Rate,
				AskedBy: s.askedBy})
			return d.makeJob(ctx, tx, made, []job.Item{{Target: s.To, Name: s.To}})
		},
	}
}

// apply switches and creates the job in tx.
func (s *MeaningSwitch) apply(ctx context.Context, tx pgx.Tx, d *Decision) error {
	switch err := billing.Switch(ctx, tx, s.InForce, s.to, d.Who, d.Why); {
	case errors.Is(err, billing.ErrSwitched):
		return d.refuse("was compared with one that is not in force any more: compare again, with pawl meaning diff")
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
	for _, hit := range s.Accounts {
		touched = append(touched, hit.Scope)
	}
	if len(touched) == 0 {
		return nil
	}
	filter := map[string]string{"hash": s.To}
	if len(s.Letters) > 0 {
		filter["letters"] = strings.Join(s.Letters, ",")
	}
	made := d.makes(job.Job{ID: d.Request, Action: job.Refold, Filter: filter, Rate: s.Rate})
	return job.MakeIn(ctx, tx, made, accountItems(touched))
}

// ofEvents is the suffix of the ID of the job that runs events.
const ofEvents = "-events"

// runIgnored closes the tasks about connected accounts that are mapped now, and creates a job that runs their events.
func (s *MeaningSwitch) runIgnored(ctx context.Context, tx pgx.Tx, d *Decision) error {
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
	return job.MakeIn(ctx, tx, d.makes(job.Job{
		ID: d.Request + ofEvents, Action: VerbRun, Rate: s.Rate,
		Filter: map[string]string{"reason": activities.CodeAccountNotMapped},
	}), items)
}
