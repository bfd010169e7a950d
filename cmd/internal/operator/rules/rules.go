// Package rules compares and activates billing rules, and recomputes accounts from their facts: after a change of the
// rules, of the parser, or of the rows.
package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// Diff lists the effects of a change of the billing rules. Rows and facts are read at one instant.
type Diff struct {
	At time.Time `json:"compared_at"`
	// Active is the hash of the active rules, or empty if none are active. To is the hash of the proposed rules.
	Active string `json:"active"`
	To     string `json:"proposed"`
	// Settings lists the settings with different values.
	Settings []fact.Setting `json:"settings"`
	Reach

	to fact.Policy
}

// Compare compares the rules with the given hash with the active rules; see [rebuild.Request]. If hash is empty, it
// compares the rules in own. It changes nothing.
func Compare(ctx context.Context, pool *pgxpool.Pool, own fact.Policy, hash string,
	told rebuild.Progress) (*Diff, error) {
	to, err := billing.WithLinks(ctx, pool, own)
	if hash != "" {
		if to, err = billing.RulesByHash(ctx, pool, hash); errors.Is(err, billing.ErrNoRules) {
			err = decide.Unknownf("no billing rules %q: pawl rules show lists the proposed rules", hash)
		}
	}
	if err != nil {
		return nil, err
	}
	return diffTo(ctx, pool, to, told)
}

// Propose stores the proposed rules, so that a person can apply them by their hash, for example in the console.
func (d *Diff) Propose(ctx context.Context, pool *pgxpool.Pool, by string) error {
	_, _, err := billing.Propose(ctx, pool, d.to, by)
	return err
}

// CompareLink compares the active rules with the same rules plus a link from a connected account to an account.
func CompareLink(ctx context.Context, pool *pgxpool.Pool, own fact.Policy, of fact.Connected, account string,
	told rebuild.Progress) (*Diff, error) {
	switch ours, mapped := own.Accounts[of]; {
	case mapped:
		return nil, fmt.Errorf("the configuration maps %s to %s: change it there, or remove it and link", of.ID, ours)
	case !slices.Contains(own.Linked, of.Mode):
		return nil, fmt.Errorf("no source of mode %s accepts links of connected accounts: add accounts: {table: true} "+
			"to it in the configuration", of.Mode)
	}
	now, err := billing.ActiveRules(ctx, pool, own)
	if err != nil {
		return nil, err
	}
	return diffTo(ctx, pool, now.With(of, account), told)
}

// diffTo compares the rules with the active rules.
func diffTo(ctx context.Context, pool *pgxpool.Pool, to fact.Policy, told rebuild.Progress) (*Diff, error) {
	d := &Diff{to: to.Sealed(), Reach: newReach(), Settings: []fact.Setting{}}
	var err error
	if d.Active, err = billing.ActiveRulesHash(ctx, pool); err != nil {
		return nil, err
	}
	now, err := billing.ActiveRules(ctx, pool, d.to)
	if err != nil {
		return nil, err
	}
	d.At, d.To, d.Settings = time.Now(), d.to.Hash(), append(d.Settings, d.to.Changes(now)...)
	if d.To == d.Active {
		return d, nil
	}
	return d, d.foresee(ctx, pool, rebuild.Request{Rules: d.to, From: &now, At: d.At}, told)
}

// previewed is the number of accounts that a preview lists.
const previewed = 20

// preview returns the changes for the preview of a decision.
func (d *Diff) preview() *decide.RulesPreview {
	p := &decide.RulesPreview{Settings: d.Settings, Affected: len(d.Accounts), Accounts: []decide.AffectedAccount{}}
	for _, i := range d.Accounts[:min(previewed, len(d.Accounts))] {
		one := decide.AffectedAccount{Mode: i.Mode, Account: i.Account, Change: cmp.Or(i.Message(), string(i.Change))}
		if i.Change != rebuild.ChangesRows {
			one.Before, one.After = access(i.Before), access(i.After)
		}
		p.Accounts = append(p.Accounts, one)
	}
	return p
}

// access describes the access of an account.
func access(t fold.Target) string {
	if t.State != fold.WorkspaceActive {
		return "no access"
	}
	return account.Uses(t.Plan, t.Quantity)
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
