package account

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// ApplyFact returns a function that stores a person's decision as a fact, with the time of the database, and
// recomputes the account.
func ApplyFact(d *decide.Decision, decided fact.Fact) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := billing.Apply(ctx, tx, []fact.Fact{decided}, d.Operator.Policy, d.Verb+":"+decided.EventID,
			time.Time{})
		return err
	}
}

// ForecastFact previews a decision that is stored as a fact: the change of the access, and the run of the scheduled
// actions that follow.
func ForecastFact(ctx context.Context, d *decide.Decision, account string, fact fact.Fact, p *decide.Preview) error {
	return ForecastDue(ctx, d, fact.ReceiptID, p, func(outlook workflows.Outlook) (string, error) {
		changed, err := workflows.Fold(ctx, outlook, fact)
		if access := changed.After.Access; access.Account != "" {
			p.Access = &access
		}
		return account, err
	})
}

// ForecastDue previews the run of a scheduled action that belongs to the receipt. made makes the decision inside the
// preview's transaction and returns the account.
func ForecastDue(ctx context.Context, d *decide.Decision, receipt string, p *decide.Preview,
	made func(workflows.Outlook) (account string, err error)) error {
	found, err := timeline.Find(ctx, d.Operator.DB, receipt)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return decide.Unknownf("no receipt %s", receipt)
	}
	r := &found[0]
	outlook, done, err := d.Operator.Outlook(ctx)
	if err != nil {
		return err
	}
	defer done()
	in := decide.InputOf(r)
	in.Due = &workflows.DueInput{At: time.Now()}
	if in.Due.Account, err = made(outlook); err != nil {
		return err
	}
	if p.Previewed, err = workflows.Preview(ctx, outlook, workflows.Asked{In: in}); err != nil {
		return fmt.Errorf("preview %s of %s: %w", d.Verb, d.Target, err)
	}
	p.Receipt = *r
	p.Count()
	return nil
}
