package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// MeaningDiff is whom a switch to another meaning would hit, at one instant. The rows are those of that instant, and so
// are the facts.
type MeaningDiff struct {
	At time.Time `json:"at"`
	// InForce is the hash of the meaning in force, "" where none is yet. To is that of the other one.
	InForce string `json:"in_force"`
	To      string `json:"to"`
	// Settings are what the two say otherwise.
	Settings []billing.Setting `json:"settings"`
	Reach
	// Letters counts the letters that a switch calls for and does not send by itself, by their kind.
	Letters map[string]int `json:"letters"`

	to billing.Policy
}

// DiffMeaning compares the meaning with that hash, or own for "", with the one in force, as
// [billing.CheckSwitch] does. It changes nothing.
func DiffMeaning(ctx context.Context, pool *pgxpool.Pool, own billing.Policy, hash string,
	told billing.Progress) (*MeaningDiff, error) {
	to, err := own.WithLinks(ctx, pool)
	if hash != "" {
		if to, err = billing.Named(ctx, pool, hash); errors.Is(err, billing.ErrNoMeaning) {
			err = fmt.Errorf("no meaning %q: pawl meaning show lists those that were proposed", hash)
		}
	}
	if err != nil {
		return nil, err
	}
	return diffTo(ctx, pool, to, told)
}

// DiffLink is [DiffMeaning] for the meaning in force, in which a connected account is linked to one of ours.
func DiffLink(ctx context.Context, pool *pgxpool.Pool, own billing.Policy, of billing.Connected, account string,
	told billing.Progress) (*MeaningDiff, error) {
	switch ours, mapped := own.Accounts[of]; {
	case mapped:
		return nil, fmt.Errorf("the configuration maps %s to %s: change it there, or remove it and link", of.ID, ours)
	case !slices.Contains(own.Linked, of.Mode):
		return nil, fmt.Errorf("no source of mode %s has a table of connected accounts: write accounts: {table: true} "+
			"to it in the configuration", of.Mode)
	}
	now, err := billing.InForce(ctx, pool, own)
	if err != nil {
		return nil, err
	}
	return diffTo(ctx, pool, now.With(of, account), told)
}

// diffTo compares a meaning with the one in force.
func diffTo(ctx context.Context, pool *pgxpool.Pool, to billing.Policy, told billing.Progress) (*MeaningDiff, error) {
	d := &MeaningDiff{to: to.Sealed(), Reach: newReach(), Settings: []billing.Setting{}, Letters: map[string]int{}}
	var err error
	if d.InForce, err = billing.HashInForce(ctx, pool); err != nil {
		return nil, err
	}
	now, err := billing.InForce(ctx, pool, d.to)
	if err != nil {
		return nil, err
	}
	d.At, d.To, d.Settings = time.Now(), d.to.Hash(), append(d.Settings, d.to.Changes(now)...)
	if d.To == d.InForce {
		return d, nil
	}
	if err := d.foresee(ctx, pool, func(conn *pgx.Conn) (billing.Forecast, error) {
		return billing.CheckSwitch(ctx, conn, now, d.to, d.At, told)
	}); err != nil {
		return nil, err
	}
	var ids []string
	for _, of := range mapped(d.Settings) {
		ids = append(ids, of.ID)
	}
	asked, err := billing.AskedAccounts(ctx, pool, ids)
	if err != nil {
		return nil, err
	}
	for _, of := range asked {
		if slices.Contains(mapped(d.Settings), of) {
			d.Tasks = append(d.Tasks, billing.TaskChange{Kind: billing.TaskAccount, Reason: of.ID, Closes: 1})
		}
	}
	for _, hit := range d.Accounts {
		for _, why := range hit.Letters {
			d.Letters[workflows.RefoldLetters()[why]]++
		}
	}
	return d, nil
}

// MeaningSwitch is a switch to the meaning of a [MeaningDiff]. Rate is how many accounts are folded anew in a second,
// at most. Letters are the kinds of letters that are sent: none by itself.
type MeaningSwitch struct {
	*MeaningDiff
	Rate    float64
	Letters []string
}

// CheckLetters refuses a kind of letter that no switch calls for.
func CheckLetters(kinds []string) error {
	known := slices.Sorted(maps.Values(workflows.RefoldLetters()))
	for _, kind := range kinds {
		if !slices.Contains(known, kind) {
			return fmt.Errorf("a switch of the meaning calls for no letter of the kind %q: the kinds are %s", kind,
				strings.Join(known, ", "))
		}
	}
	return nil
}

// lettersOf are the steps of the clock that send the letters which a job was made with.
func lettersOf(j *job.Job) (list []billing.Why) {
	kinds := strings.Split(j.Filter["letters"], ",")
	for why, kind := range workflows.RefoldLetters() {
		if slices.Contains(kinds, kind) {
			list = append(list, why)
		}
	}
	return list
}

// foldBegins is how long a fold that was under way when a diff began may have been so already.
const foldBegins = 10 * time.Minute

// applyMeaningRule switches to a meaning, and makes the job that folds the accounts anew which it hits, in one commit.
// The request's ID is the job's. The job is also about accounts that were folded by the meaning before since the diff.
var applyMeaningRule = rule[*MeaningSwitch, *job.Job]{
	find: shown(func(*MeaningSwitch) string { return "meaning" }),
	check: func(_ context.Context, d *Decision, s *MeaningSwitch) (*change, error) {
		if s.To == s.InForce {
			return nil, d.refuse("is in force already")
		}
		if err := cmp.Or(checkJob(d, s.Rate, "account"), CheckLetters(s.Letters)); err != nil {
			return nil, err
		}
		return &change{
			target: s.To,
			before: map[string]any{"meaning": s.InForce},
			after: map[string]any{"meaning": s.To, "settings": s.Settings, "counts": s.Counts,
				"letters": s.Letters},
			do: func(ctx context.Context, tx pgx.Tx) error { return s.apply(ctx, tx, d) },
		}, nil
	},
	answer: func(ctx context.Context, d *Decision, s *MeaningSwitch, _ recorded) (string, *job.Job, error) {
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

// apply switches, and makes the job, in tx.
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
	return job.MakeIn(ctx, tx, job.Job{
		ID: d.Request, Action: job.Refold, Filter: filter, Who: d.Who, Why: d.Why, Rate: s.Rate,
	}, accountItems(touched))
}

// ofEvents ends the ID of the job that runs events.
const ofEvents = "-events"

// mapped are the connected accounts that settings map.
func mapped(settings []billing.Setting) (list []billing.Connected) {
	for _, set := range settings {
		if theirs, of := strings.CutPrefix(set.Name, "sources.accounts."); of && set.Is != "" {
			mode, id, _ := strings.Cut(theirs, "/")
			list = append(list, billing.Connected{Mode: mode, ID: id})
		}
	}
	return list
}

// runIgnored ends the questions about connected accounts that are mapped now, and makes a job that runs their events.
func (s *MeaningSwitch) runIgnored(ctx context.Context, tx pgx.Tx, d *Decision) error {
	var items []job.Item
	for _, of := range mapped(s.Settings) {
		task := billing.Task{Mode: of.Mode, Kind: billing.TaskAccount, Object: of.ID}
		over := billing.CloseTask(task, billing.TaskDone)
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
	return job.MakeIn(ctx, tx, job.Job{
		ID: d.Request + ofEvents, Action: VerbRun, Who: d.Who, Why: d.Why, Rate: s.Rate,
		Filter: map[string]string{"reason": activities.CodeAccountNotMapped},
	}, items)
}

// targetOf names an account as the target of an item and of a refold.
func targetOf(of billing.Scope) string { return of.Mode + "/" + of.Account }

// findScope reads the target of a job's item.
func findScope(_ context.Context, d *Decision) (of billing.Scope, key string, err error) {
	var found bool
	if of.Mode, of.Account, found = strings.Cut(d.Target, "/"); !found {
		return of, "", fmt.Errorf("%q names no account after its mode", d.Target)
	}
	return of, d.Verb + "/" + d.Target, nil
}

// refoldRule folds an account anew, by the meaning in force and the newest reading of each event. A job decides it.
var refoldRule = rule[billing.Scope, *RebuildResult]{
	find: findScope,
	check: func(ctx context.Context, d *Decision, of billing.Scope) (*change, error) {
		was, err := usedBy(ctx, d.o, of)
		return &change{target: of.Account, before: map[string]any{"mode": of.Mode, "uses": was}}, err
	},
	answer: func(ctx context.Context, d *Decision, of billing.Scope, r recorded) (string, *RebuildResult, error) {
		var before struct{ Uses string }
		if err := r.read(r.Before, &before); err != nil {
			return "", nil, err
		}
		fold, how := billing.Refold, billing.Anew{Job: d.Request, Money: stripe.Money}
		if d.Verb == job.Reread {
			fold = billing.RefoldReread
		}
		if j, ok := d.Found.(*job.Job); ok {
			how.Job, how.Letters = j.ID, lettersOf(j)
		}
		n, err := fold(ctx, d.o.DB, of, d.o.Policy, time.Time{}, how) // the database's time
		if err != nil {
			return "", nil, err
		}
		uses, err := usedBy(ctx, d.o, of)
		if uses != before.Uses {
			uses = before.Uses + " becomes " + uses
		}
		return uses, &RebuildResult{n}, err
	},
}

// usedBy says what an account may use.
func usedBy(ctx context.Context, o *Operator, of billing.Scope) (string, error) {
	t, err := billing.New(o.DB).Target(ctx, of.Mode, of.Account)
	return Uses(t.Plan, t.Quantity), err
}
