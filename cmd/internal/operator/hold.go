package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

const verbHold = "hold-account"

// AccountResult is the access of an account after the decision.
type AccountResult struct {
	Account string         `json:"account"`
	Mode    string         `json:"mode"`
	Access  account.Access `json:"access"`
}

// holdRule puts the access of an account on hold or releases it. The decision is stored as a fact. A scheduled action
// updates the workspace.
var holdRule = rule[*account.Account, *AccountResult]{
	find: func(ctx context.Context, d *Decision) (*account.Account, string, error) {
		shown, err := ShowAccount(ctx, d.o.DB, d.Target, d.Mode)
		if err != nil {
			return nil, "", err
		}
		return shown, "account/" + shown.Mode + "/" + shown.ID, nil
	},
	check: func(ctx context.Context, d *Decision, a *account.Account) (*change, error) {
		fact, err := holdFact(ctx, d, a)
		if err != nil {
			return nil, err
		}
		return &change{
			target: a.ID,
			before: map[string]any{"mode": a.Mode, "held": a.Access.Held},
			after:  map[string]any{"held": d.Verb == verbHold},
			do:     d.apply(fact),
		}, nil
	},
	answer: func(ctx context.Context, d *Decision, a *account.Account, _ recorded) (string, *AccountResult, error) {
		now, err := account.Show(ctx, d.o.DB, account.Name{ID: a.ID, Mode: a.Mode})
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprintf("%s may use %s; its workspace follows", now.ID, Uses(now.Access.Plan, now.Access.Quantity)),
			&AccountResult{now.ID, now.Mode, now.Access}, nil
	},
	forecast: func(ctx context.Context, d *Decision, a *account.Account, p *Preview) error {
		fact, err := holdFact(ctx, d, a)
		if err != nil {
			return err
		}
		return d.forecastFact(ctx, a.ID, fact, p)
	},
}

// Uses describes a plan, with its quantity if it is greater than 1.
func Uses(plan string, quantity int64) string {
	switch {
	case plan == "":
		return "nothing"
	case quantity > 1:
		return fmt.Sprintf("%s × %d", plan, quantity)
	}
	return plan
}

// holdFact returns the fact of the decision. Its effects belong to the receipt of the account's last fact.
func holdFact(ctx context.Context, d *Decision, a *account.Account) (fact.Fact, error) {
	last, err := billing.Scope{Mode: a.Mode, Account: a.ID}.LastFact(ctx, d.o.DB)
	if err == nil && last == nil {
		err = d.refuse("in mode %s has nothing to hold: no event has told anything of it", a.Mode)
	}
	if err != nil {
		return fact.Fact{}, err
	}
	release := fact.Fact{
		Subject: last.Subject, Kind: fact.Released, Object: a.ID, Rank: fact.RankChange,
		Origin: fact.FromOperator,
		Data:   fact.Data{Decision: &fact.Decision{By: d.Who, Why: d.Why, Account: a.ID}},
	}
	if d.Verb == verbHold {
		release.Kind = fact.Held
	}
	release.Customer, release.EventType, release.EventID, release.OccurredAt = "", "", "operator-"+uuid.NewString(),
		time.Now().UTC()
	return release, nil
}
