package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/job"
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
	Settings []fact.Setting `json:"settings"`
	Reach
	// Letters counts the letters that a switch calls for and does not send by itself, by their kind.
	Letters map[string]int `json:"letters"`

	to fact.Policy
}

// DiffMeaning compares the meaning with that hash, or own for "", with the one in force, as
// [billing.CheckSwitch] does. It changes nothing.
func DiffMeaning(ctx context.Context, pool *pgxpool.Pool, own fact.Policy, hash string,
	told billing.Progress) (*MeaningDiff, error) {
	to, err := billing.WithLinks(ctx, pool, own)
	if hash != "" {
		if to, err = billing.Named(ctx, pool, hash); errors.Is(err, billing.ErrNoMeaning) {
			err = unknown("no meaning %q: pawl meaning show lists those that were proposed", hash)
		}
	}
	if err != nil {
		return nil, err
	}
	return diffTo(ctx, pool, to, told)
}

// Propose stores the meaning, so that two people can bring it into force in the console.
func (d *MeaningDiff) Propose(ctx context.Context, pool *pgxpool.Pool, by string) error {
	_, _, err := billing.Propose(ctx, pool, d.to, by)
	return err
}

// DiffLink is [DiffMeaning] for the meaning in force, in which a connected account is linked to one of ours.
func DiffLink(ctx context.Context, pool *pgxpool.Pool, own fact.Policy, of fact.Connected, account string,
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
func diffTo(ctx context.Context, pool *pgxpool.Pool, to fact.Policy, told billing.Progress) (*MeaningDiff, error) {
	d := &MeaningDiff{to: to.Sealed(), Reach: newReach(), Settings: []fact.Setting{}, Letters: map[string]int{}}
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
func lettersOf(j *job.Job) (list []fold.Why) {
	kinds := strings.Split(j.Filter["letters"], ",")
	for why, kind := range workflows.RefoldLetters() {
		if slices.Contains(kinds, kind) {
			list = append(list, why)
		}
	}
	return list
}

// mapped are the connected accounts that settings map.
func mapped(settings []fact.Setting) (list []fact.Connected) {
	for _, set := range settings {
		if theirs, of := strings.CutPrefix(set.Name, "sources.accounts."); of && set.Is != "" {
			mode, id, _ := strings.Cut(theirs, "/")
			list = append(list, fact.Connected{Mode: mode, ID: id})
		}
	}
	return list
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
