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
	"github.com/pawlhq/pawl/workflows"
)

// HeldAccount is what an account may use once it is held, or released.
type HeldAccount struct {
	billing.Access
	Repeat
}

// HoldAccount holds back all access that an account has, or gives it back with held false: a person's fact, which is folded
// like any other. The workspace follows by a run of the clock. id names the account as for [ShowAccount]. Who and why stand
// in the audit trail in one commit with that. It returns what the account may use then; repeated with a request ID, it
// does nothing and returns what the account may use now.
func HoldAccount(ctx context.Context, pool *pgxpool.Pool, trail *audit.Store, id, mode string, held bool, p billing.Policy, by Decided) (*HeldAccount, error) {
	if err := by.check(); err != nil {
		return nil, err
	}
	shown, err := ShowAccount(ctx, pool, id, mode)
	if err != nil {
		return nil, err
	}
	verb := map[bool]string{true: "hold-account", false: "release-account"}[held]
	action := audit.Action{
		RequestID: by.id("account/" + shown.Mode + "/" + shown.ID), Actor: by.Who, Action: verb, Target: shown.ID, Reason: by.Why,
		Before: map[string]any{"mode": shown.Mode, "held": shown.Access.Held}, After: map[string]any{"held": held},
	}
	recorded, repeat, err := by.earlier(ctx, trail, action)
	switch {
	case err != nil:
		return nil, err
	case recorded != nil:
		a := shown.Access
		now := billing.Target{Version: a.Version, State: a.State, Plan: a.Plan, Quantity: a.Quantity, Features: a.Features}
		return &HeldAccount{billing.Access{Account: shown.ID, Target: now}, repeat}, nil
	}
	fact, err := holdFact(ctx, pool, shown, held, by.Who, by.Why)
	if err != nil {
		return nil, err
	}
	var change billing.Change
	added, err := trail.AppendWith(ctx, action, func(ctx context.Context, tx pgx.Tx) (err error) {
		change, err = billing.Apply(ctx, tx, []billing.Fact{fact}, p, verb+":"+fact.EventID, time.Time{}) // the database's time
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !added: // the same request, at this moment
		return HoldAccount(ctx, pool, trail, id, mode, held, p, by)
	}
	return &HeldAccount{Access: change.After.Access}, nil
}

// PreviewHold says what the account could use after [HoldAccount], and what the run that follows would do. It changes nothing.
func (d *Desk) PreviewHold(ctx context.Context, id, mode string, held bool) (*Preview, error) {
	shown, err := ShowAccount(ctx, d.DB, id, mode)
	if err != nil {
		return nil, err
	}
	fact, err := holdFact(ctx, d.DB, shown, held, "somebody", "a preview")
	if err != nil {
		return nil, err
	}
	r, err := FindEvent(ctx, d.DB, fact.ReceiptID)
	if err != nil {
		return nil, err
	}
	outlook, done, err := d.Outlook(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	change, err := workflows.Fold(ctx, outlook, fact)
	if err != nil {
		return nil, fmt.Errorf("preview of account %s: %w", shown.ID, err)
	}
	in := inputOf(r)
	in.Due = &workflows.DueInput{Account: shown.ID, At: time.Now()}
	made := &Preview{
		Verb: map[bool]string{true: "hold", false: "release"}[held], Receipt: *r, Access: &change.After.Access,
		Counts: map[workflows.Will]int{}, Money: []Sum{},
	}
	if made.Previewed, err = workflows.Preview(ctx, outlook, workflows.Asked{In: in}); err != nil {
		return nil, fmt.Errorf("preview of account %s: %w", shown.ID, err)
	}
	made.count()
	return made, nil
}

// holdFact is the fact of a decision about an account. What follows from it belongs to a receipt that the account has.
func holdFact(ctx context.Context, pool account.DB, of *account.Account, held bool, who, why string) (billing.Fact, error) {
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
	fact.Customer, fact.EventType, fact.EventID, fact.OccurredAt = "", "", "operator-"+uuid.NewString(), time.Now().UTC()
	return fact, nil
}
