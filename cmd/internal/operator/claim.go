package operator

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/workflows"
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
	find: func(ctx context.Context, o *Operator, d *Decision) (billing.Money, string, error) {
		found, err := billing.New(o.DB).Money(ctx, d.Mode, d.Target)
		switch {
		case err != nil:
			return billing.Money{}, "", err
		case len(found) == 0:
			return billing.Money{}, "", unknown(d.Target,
				"%q is no payment, refund, dispute, credit note or checkout session that is known", d.Target)
		case len(found) > 1:
			return billing.Money{}, "", ambiguous(d.Target,
				"%q is there in both modes: add --mode live or --mode test", d.Target)
		}
		return found[0], "money/" + found[0].Mode + "/" + found[0].ID, nil
	},
	check: func(ctx context.Context, o *Operator, d *Decision, m billing.Money) (*change, error) {
		fact, err := claim(ctx, o, d, m)
		if err != nil {
			return nil, err
		}
		return &change{
			target: m.ID,
			before: map[string]any{"mode": m.Mode, "kind": m.Kind, "account": m.Account},
			after:  map[string]any{"account": d.Account},
			do: func(ctx context.Context, tx pgx.Tx) error {
				// the database's time
				_, err := billing.Apply(ctx, tx, []billing.Fact{fact}, o.Policy, d.Verb+":"+fact.EventID, time.Time{})
				return err
			},
		}, nil
	},
	answer: func(_ context.Context, _ *Operator, d *Decision, m billing.Money, _ recorded) (string, *ClaimResult,
		error) {
		when := "within seconds"
		if m.Session != "" {
			when += " with its checkout session, or once a review of that is answered"
		}
		return fmt.Sprintf("%s of %s is of %s, and is booked %s", m.Kind, stripe.Money(m.Amount, m.Currency), d.Account,
			when), &ClaimResult{m, d.Account}, nil
	},
	stake: func(_ context.Context, _ *Operator, _ *Decision, m billing.Money, s *stake) error {
		s.add(m.ID, m.Currency, m.Amount)
		return nil
	},
	forecast: func(ctx context.Context, o *Operator, d *Decision, m billing.Money, p *Preview) error {
		fact, err := claim(ctx, o, d, m)
		if err != nil {
			return err
		}
		return forecastDue(ctx, o, d.Account, fact, p)
	},
}

// claim is the fact of the decision, refused where the money has its account.
func claim(ctx context.Context, o *Operator, d *Decision, m billing.Money) (billing.Fact, error) {
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
	return billing.New(o.DB).Claim(ctx, m, d.Account, "operator-"+uuid.NewString(), time.Now().UTC())
}

// forecastDue says what a run of the clock would do about an account once a fact is there.
func forecastDue(ctx context.Context, o *Operator, account string, fact billing.Fact, p *Preview) error {
	r, err := FindEvent(ctx, o.DB, fact.ReceiptID)
	if err != nil {
		return err
	}
	outlook, done, err := openOutlook(ctx, o, r.ID)
	if err != nil {
		return err
	}
	defer done()
	changed, err := workflows.Fold(ctx, outlook, fact)
	if err != nil {
		return fmt.Errorf("preview of account %s: %w", account, err)
	}
	p.Receipt, p.Access = *r, &changed.After.Access
	in := inputOf(r)
	in.Due = &workflows.DueInput{Account: account, At: time.Now()}
	if p.Previewed, err = workflows.Preview(ctx, outlook, workflows.Asked{In: in}); err != nil {
		return fmt.Errorf("preview of account %s: %w", account, err)
	}
	p.count()
	return nil
}
