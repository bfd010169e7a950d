package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
)

// HoldAccount holds back all access that an account has, or gives it back with held false: a person's fact, which is folded
// like any other. The workspace follows by a run of the clock. id names the account as for [ShowAccount]. Who and why stand
// in the audit trail before anything is changed. It returns what the account may use then.
func HoldAccount(
	ctx context.Context, pool *pgxpool.Pool, trail *audit.Store, id, mode string, held bool, p billing.Policy, who, why string,
) (billing.Access, error) {
	if err := accountable(who, why); err != nil {
		return billing.Access{}, err
	}
	shown, err := ShowAccount(ctx, pool, id, mode)
	if err != nil {
		return billing.Access{}, err
	}
	fact, err := holdFact(ctx, pool, shown, held, who, why)
	if err != nil {
		return billing.Access{}, err
	}
	action := map[bool]string{true: "hold-account", false: "release-account"}[held]
	if err := trail.Append(ctx, audit.Action{
		RequestID: action + "/" + shown.Mode + "/" + shown.ID + "/" + uuid.NewString(), Actor: who, Action: action, Target: shown.ID, Reason: why,
		Before: map[string]any{"mode": shown.Mode, "held": shown.Access.Held}, After: map[string]any{"held": held},
	}); err != nil {
		return billing.Access{}, err
	}
	var change billing.Change
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		change, err = billing.Apply(ctx, tx, []billing.Fact{fact}, p, action+":"+fact.EventID, time.Time{}) // the database's time
		return err
	})
	return change.After.Access, err
}

// holdFact is the fact of a decision about an account. What follows from it belongs to a receipt that the account has.
func holdFact(ctx context.Context, pool *pgxpool.Pool, of *account.Account, held bool, who, why string) (billing.Fact, error) {
	last, err := billing.Scope{Mode: of.Mode, Account: of.ID}.LastFact(ctx, pool)
	if err != nil {
		return billing.Fact{}, err
	}
	if last == nil {
		return billing.Fact{}, fmt.Errorf("no event has told anything of account %q in mode %s: there is nothing to hold", of.ID, of.Mode)
	}
	fact := billing.Fact{
		Subject: last.Subject, Kind: billing.Released, Object: of.ID, Rank: billing.RankChange, Origin: billing.FromOperator,
		Data: billing.Data{Decision: &billing.DecisionFact{By: who, Why: why, Account: of.ID}},
	}
	if held {
		fact.Kind = billing.Held
	}
	fact.Customer, fact.Account, fact.EventType, fact.EventID, fact.OccurredAt = "", "", "", "operator-"+uuid.NewString(), time.Now().UTC()
	return fact, nil
}
