package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/workflows"
)

// apply returns the change that stores a person's fact with the database's time and folds it.
func (d *Decision) apply(decided fact.Fact) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := billing.Apply(ctx, tx, []fact.Fact{decided}, d.o.Policy, d.Verb+":"+decided.EventID, time.Time{})
		return err
	}
}

// forecastFact previews a person's fact: the change of the access, and the run of the scheduled actions that follow.
func (d *Decision) forecastFact(ctx context.Context, account string, fact fact.Fact, p *Preview) error {
	return d.forecastDue(ctx, fact.ReceiptID, p, func(outlook workflows.Outlook) (string, error) {
		changed, err := workflows.Fold(ctx, outlook, fact)
		if access := changed.After.Access; access.Account != "" {
			p.Access = &access
		}
		return account, err
	})
}

// forecastDue previews the run of a scheduled action, which belongs to the receipt. made makes the decision in the
// preview and returns its account.
func (d *Decision) forecastDue(ctx context.Context, receipt string, p *Preview,
	made func(workflows.Outlook) (account string, err error)) error {
	r, err := FindEvent(ctx, d.o.DB, receipt)
	if err != nil {
		return err
	}
	outlook, done, err := d.o.Outlook(ctx)
	if err != nil {
		return err
	}
	defer done()
	in := inputOf(r)
	in.Due = &workflows.DueInput{At: time.Now()}
	if in.Due.Account, err = made(outlook); err != nil {
		return err
	}
	if p.Previewed, err = workflows.Preview(ctx, outlook, workflows.Asked{In: in}); err != nil {
		return fmt.Errorf("preview %s of %s: %w", d.Verb, d.Target, err)
	}
	p.Receipt = *r
	p.count()
	return nil
}
