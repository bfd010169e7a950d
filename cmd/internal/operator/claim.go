package operator

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
)

// ClaimResult is money that was given to an account.
type ClaimResult struct {
	billing.Money
	// For is the account that it was given to.
	For string `json:"for"`
}

// claimRule gives money that nobody has to an account: a person's fact, which is folded like any other. A run of the
// clock books it.
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
			before: map[string]any{"mode": m.Mode, "kind": m.Kind, "account": m.Account},
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
	stake: func(_ context.Context, _ *Decision, m billing.Money, s *stake) error {
		s.add(m.ID, m.Currency, m.Amount)
		return nil
	},
	forecast: func(ctx context.Context, d *Decision, m billing.Money, p *Preview) error {
		fact, err := claim(ctx, d, m)
		if err != nil {
			return err
		}
		return d.forecastFact(ctx, d.Account, fact, p)
	},
}

// claim is the fact of the decision, refused where the money has its account.
func claim(ctx context.Context, d *Decision, m billing.Money) (billing.Fact, error) {
	if why := stripe.Unusable(d.Account, 200); why != "" || strings.TrimSpace(d.Account) == "" {
		return billing.Fact{}, d.refuse("needs an account: --account NAME, as your application calls it")
	}
	if m.Untold > 0 {
		return billing.Fact{}, d.refuse("is refunded by what no event has told: pawl reconcile %s asks Stripe for it",
			cmp.Or(m.Account, m.Customer))
	}
	if !m.Unclaimed && m.Account == "" {
		return billing.Fact{}, d.refuse("has moved no money yet: there is nothing to book")
	}
	if !m.Unclaimed {
		return billing.Fact{}, d.refuse("is of %s: what is booked stays there", m.Account)
	}
	return billing.New(d.o.DB).Claim(ctx, m, d.Account, "operator-"+uuid.NewString(), time.Now().UTC())
}
