package account

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Result is the access of an account after the decision.
type Result struct {
	Account string         `json:"account"`
	Mode    string         `json:"mode"`
	Access  account.Access `json:"access"`
}

// Hold implements `pawl accounts hold`.
var Hold = decide.Verb{
	Name: "hold-account", Command: "accounts hold", Target: "ID", Rule: holdRule(true),
	Flags:    []decide.Flag{decide.FlagMode},
	Previews: true, Short: "Suspend an account, even if it has paid",
	Long: `Suspend an account, even if it has paid, for example after suspected fraud. pawl suspends its workspace within seconds.
Its subscriptions and invoices continue at the provider, and no task asks to restore the workspace. pawl accounts
release restores the access that the account has paid for by then.` + ofAccount,
}

const ofAccount = `

ID is the ID of the account, the provider's ID of a customer, subscription, invoice, payment or charge, an invoice
number, or an e-mail address. The audit trail contains your name and the reason.`

// holdRule returns the rule that puts the access of an account on hold or releases it. The decision is stored as a
// fact. A scheduled action updates the workspace.
func holdRule(hold bool) decide.Rule[*account.Account, *Result] {
	return decide.Rule[*account.Account, *Result]{
		Find: func(ctx context.Context, d *decide.Decision) (*account.Account, string, error) {
			shown, err := Show(ctx, d.Operator.DB, d.Target, d.Mode)
			if err != nil {
				return nil, "", err
			}
			return shown, "account/" + shown.Mode + "/" + shown.ID, nil
		},
		Check: func(ctx context.Context, d *decide.Decision, a *account.Account) (*decide.Change, error) {
			fact, err := holdFact(ctx, d, a, hold)
			if err != nil {
				return nil, err
			}
			return &decide.Change{
				Target: a.ID,
				Before: map[string]any{"mode": a.Mode, "held": a.Access.Held},
				After:  map[string]any{"held": hold},
				Do:     ApplyFact(d, fact),
			}, nil
		},
		Act: func(ctx context.Context, d *decide.Decision, a *account.Account, _ decide.Recorded) (string, *Result,
			error) {
			now, err := account.Show(ctx, d.Operator.DB, account.Name{ID: a.ID, Mode: a.Mode})
			if err != nil {
				return "", nil, err
			}
			return fmt.Sprintf("%s may use %s; pawl updates its workspace", now.ID, Uses(now.Access.Plan,
					now.Access.Quantity)),
				&Result{now.ID, now.Mode, now.Access}, nil
		},
		Forecast: func(ctx context.Context, d *decide.Decision, a *account.Account, p *decide.Preview) error {
			fact, err := holdFact(ctx, d, a, hold)
			if err != nil {
				return err
			}
			return ForecastFact(ctx, d, a.ID, fact, p)
		},
	}
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
func holdFact(ctx context.Context, d *decide.Decision, a *account.Account, hold bool) (fact.Fact, error) {
	last, err := billing.Scope{Mode: a.Mode, Account: a.ID}.LastFact(ctx, d.Operator.DB)
	if err == nil && last == nil {
		err = d.Refuse("does not exist in mode %s: no event contains it", a.Mode)
	}
	if err != nil {
		return fact.Fact{}, err
	}
	release := fact.Fact{
		Subject: last.Subject, Kind: fact.Released, Object: a.ID, Rank: fact.RankChange,
		Origin: fact.FromOperator,
		Data:   fact.Data{Decision: &fact.Decision{By: d.Actor, Reason: d.Reason, Account: a.ID}},
	}
	if hold {
		release.Kind = fact.Held
	}
	release.Customer, release.EventType, release.EventID, release.OccurredAt = "", "", "operator-"+uuid.NewString(),
		time.Now().UTC()
	return release, nil
}
