package operator

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// ClaimResult is the money of a claim.
type ClaimResult struct {
	billing.Money
	// For is the account of the claim.
	For string `json:"for"`
}

// claimRule assigns money without an account to one. The decision is a fact, which is folded like any other, and the
// run of a scheduled action books the money.
var claimRule = rule[billing.Money, *ClaimResult]{
	find: func(ctx context.Context, d *Decision) (billing.Money, string, error) {
		found, err := billing.New(d.o.DB).Money(ctx, d.Mode, d.Target)
		m, err := only(d.Target, found, err, fmt.Sprintf("%q is no payment, refund, dispute, credit note or checkout session that is known", d.Target), bothModes)
		return m, "money/" + m.Mode + "/" + m.ID, err
	},
	check: func(ctx context.Context, d *Decision, m billing.Money) (*change, error) {
		fact, err := claim(ctx, d, m)
		if err != nil {
			return nil, err
		}
		return &change{
			target: m.ID,
			before: map[string]any{"mode": m.Mode, "kind": m.Kind, "account": m.Account, "amount": m.Amount,
				"currency": m.Currency},
			judges: m.Mode == live,
			money:  map[string]int64{m.Currency: m.Amount},
			after:  map[string]any{"account": d.Account},
			do:     d.apply(fact),
		}, nil
	},
	answer: func(_ context.Context, d *Decision, m billing.Money, _ recorded) (string, *ClaimResult, error) {
		when := "within seconds"
		if m.Session != "" {
			when += " with its checkout session, or once a review of that is answered"
		}
		return fmt.Sprintf("%s of %s is of %s, and is booked %s", m.Kind, stripe.Money(m.Amount, m.Currency), d.Account,
			when), &ClaimResult{m, d.Account}, nil
	},
	forecast: func(ctx context.Context, d *Decision, m billing.Money, p *Preview) error {
		fact, err := claim(ctx, d, m)
		if err == nil {
			p.Warning, err = unseen(ctx, d.o.DB, m.Mode, d.Account)
		}
		if err != nil {
			return err
		}
		return d.forecastFact(ctx, d.Account, fact, p)
	},
}

// unseen returns a warning if pawl knows nothing of the account in the mode: a mistyped name becomes a new account.
func unseen(ctx context.Context, db *pgxpool.Pool, mode, id string) (string, error) {
	last, err := billing.Scope{Mode: mode, Account: id}.LastFact(ctx, db)
	if err != nil || last != nil {
		return "", err
	}
	names, err := account.Find(ctx, db, id, mode)
	warning := fmt.Sprintf("No event of account %s has arrived in %s mode so far. ", id, mode)
	for _, n := range names {
		warning += fmt.Sprintf("%s belongs to account %s. ", id, n.ID)
	}
	return warning + "Check the name: a claim cannot be moved to another account.", err
}

// claim returns the fact of the decision. It refuses the decision if the money has an account.
func claim(ctx context.Context, d *Decision, m billing.Money) (fact.Fact, error) {
	if why := stripe.Unusable(d.Account, 200); why != "" || strings.TrimSpace(d.Account) == "" {
		return fact.Fact{}, d.refuse("needs an account: --account NAME, as your application calls it")
	}
	if m.Untold > 0 {
		return fact.Fact{}, d.refuse("is refunded by what no event has told: pawl reconcile %s asks Stripe for it",
			cmp.Or(m.Account, m.Customer))
	}
	if !m.Unclaimed && m.Account == "" {
		return fact.Fact{}, d.refuse("has moved no money yet: there is nothing to book")
	}
	if !m.Unclaimed {
		return fact.Fact{}, d.refuse("is of %s: what is booked stays there", m.Account)
	}
	return billing.New(d.o.DB).Claim(ctx, m, d.Account, "operator-"+uuid.NewString(), time.Now().UTC())
}
