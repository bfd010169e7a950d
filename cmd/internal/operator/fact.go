package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/workflows"
)

// apply keeps a person's fact, which is folded like any other, at the database's time.
func (d *Decision) apply(fact billing.Fact) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := billing.Apply(ctx, tx, []billing.Fact{fact}, d.o.Policy, d.Verb+":"+fact.EventID, time.Time{})
		return err
	}
}

// forecastFact says what an account may use once a fact is there, and what the run of the clock would do.
func (d *Decision) forecastFact(ctx context.Context, account string, fact billing.Fact, p *Preview) error {
	return d.forecastDue(ctx, fact.ReceiptID, p, func(outlook workflows.Outlook) (string, error) {
		changed, err := workflows.Fold(ctx, outlook, fact)
		p.Access = &changed.After.Access
		return account, err
	})
}

// forecastDue says what the run of the clock would do, which belongs to a receipt. made makes the decision in the
// preview, and names the account that it is about.
func (d *Decision) forecastDue(ctx context.Context, receipt string, p *Preview,
	made func(workflows.Outlook) (account string, err error)) error {
	r, err := FindEvent(ctx, d.o.DB, receipt)
	if err != nil {
		return err
	}
	outlook, done, err := d.o.openOutlook(ctx, r.ID)
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
