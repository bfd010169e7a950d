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
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/workflows"
)

// MeaningDiff lists the effects of a switch to another meaning. Rows and facts are read at one instant.
type MeaningDiff struct {
	At time.Time `json:"at"`
	// InForce is the hash of the meaning in force, or empty if none is in force. To is the hash of the new meaning.
	InForce string `json:"in_force"`
	To      string `json:"to"`
	// Settings lists the settings with different values.
	Settings []fact.Setting `json:"settings"`
	Reach
	// Letters counts the letters by kind that the switch could send. They are sent only on request.
	Letters map[string]int `json:"letters"`

	to fact.Policy
}

// DiffMeaning compares the meaning with the hash with the meaning in force, see [rebuild.CheckRules]. If hash is
// empty, it uses own. It changes nothing.
func DiffMeaning(ctx context.Context, pool *pgxpool.Pool, own fact.Policy, hash string,
	told rebuild.Progress) (*MeaningDiff, error) {
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

// Propose stores the meaning, so that it can be brought into force by its hash, for example in the console.
func (d *MeaningDiff) Propose(ctx context.Context, pool *pgxpool.Pool, by string) error {
	_, _, err := billing.Propose(ctx, pool, d.to, by)
	return err
}

// DiffLink compares the meaning in force with itself plus a link from a connected account to one of our accounts.
func DiffLink(ctx context.Context, pool *pgxpool.Pool, own fact.Policy, of fact.Connected, account string,
	told rebuild.Progress) (*MeaningDiff, error) {
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

// diffTo compares the meaning with the meaning in force.
func diffTo(ctx context.Context, pool *pgxpool.Pool, to fact.Policy, told rebuild.Progress) (*MeaningDiff, error) {
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
	if err := d.foresee(ctx, pool, func(conn *pgx.Conn) (rebuild.Forecast, error) {
		return rebuild.CheckRules(ctx, conn, now, d.to, d.At, told)
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
			d.Tasks = append(d.Tasks, rebuild.TaskChange{Kind: billing.TaskAccount, Reason: of.ID, Closes: 1})
		}
	}
	for _, hit := range d.Accounts {
		for _, why := range hit.Letters {
			d.Letters[workflows.RefoldLetters()[why]]++
		}
	}
	return d, nil
}

// CheckLetters refuses kinds of letters that a switch cannot send.
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

// lettersOf returns the scheduled actions that send the letters of the job.
func lettersOf(j *job.Job) (list []fold.Why) {
	kinds := strings.Split(j.Filter["letters"], ",")
	for why, kind := range workflows.RefoldLetters() {
		if slices.Contains(kinds, kind) {
			list = append(list, why)
		}
	}
	return list
}

// mapped returns the connected accounts that the settings map to an account.
func mapped(settings []fact.Setting) (list []fact.Connected) {
	for _, set := range settings {
		if theirs, of := strings.CutPrefix(set.Name, "sources.accounts."); of && set.Is != "" {
			mode, id, _ := strings.Cut(theirs, "/")
			list = append(list, fact.Connected{Mode: mode, ID: id})
		}
	}
	return list
}

// targetOf returns the target of an item that is an account.
func targetOf(of billing.Scope) string { return of.Mode + "/" + of.Account }

// findScope parses the target of an item that is an account.
func findScope(_ context.Context, d *Decision) (of billing.Scope, key string, err error) {
	var found bool
	if of.Mode, of.Account, found = strings.Cut(d.Target, "/"); !found {
		return of, "", fmt.Errorf("%q names no account after its mode", d.Target)
	}
	return of, d.Verb + "/" + d.Target, nil
}

// refoldRule folds an account by the meaning in force and the newest facts of each event. It decides the items of a
// job.
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
		how := billing.Recompute{Cause: billing.CauseRules, Policy: d.o.Policy, Job: d.Request, Money: stripe.Money}
		if d.Verb == job.Reread {
			how.Cause = billing.CauseParser
		}
		if j, ok := d.Found.(*job.Job); ok {
			how.Job, how.Letters = j.ID, lettersOf(j)
		}
		n, err := rebuild.Account(ctx, d.o.DB, of, how)
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

// usedBy describes the access of an account.
func usedBy(ctx context.Context, o *Operator, of billing.Scope) (string, error) {
	t, err := billing.New(o.DB).Target(ctx, of.Mode, of.Account)
	return Uses(t.Plan, t.Quantity), err
}
