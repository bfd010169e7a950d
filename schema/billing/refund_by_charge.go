package billing

import (
	"context"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Before Stripe's API version 2024-10-28, no event reports a refund of a charge by itself. The charge contains only
// the sum of its refunds. pawl books the difference between this sum and the known refunds as a "refund by charge".
// pawl first waits for policy.subscription_wait, because events may still report the refunds with their IDs. The same
// refunds are therefore booked in every order of delivery. The ID of a refund by charge ends with a number, because
// the same sum can occur again after a refund has failed. If a later event reports a refund that is older than this
// fact, that refund is a part of the refund by charge. The ID of a refund by charge ends with a number, because the
// same sum can occur again after a refund has failed.

// tellRefunds applies the refunds of an account that only charges report, after the settle time. It adds them to the
// change, so that they are booked. It skips refunds of an unknown purchase until the purchase is known. It runs before
// the account is locked, because [Apply] locks the payment first.
func (a *applyingDue) tellRefunds(ctx context.Context, account string) error {
	charges, err := schema.Rows(ctx, a.tx, "read charges", ScanFact, untoldSQL, a.subject.Mode, account, a.at)
	for _, f := range charges {
		var change fold.Change
		one := applying{tx: a.tx, policy: a.policy, key: a.key, at: a.at, facts: []fact.Fact{f}, settles: true}
		if change, err = one.run(ctx); err != nil {
			break
		}
		if p := change.After.Payment; p != nil && p.Purchase == p.ID && p.SucceededBy != (fact.Cause{}) &&
			!p.SucceededBy.At.Before(a.policy.EffectsFrom) {
			// The refund changes when the action of its payment is due. Both are booked now.
			both := fold.Due{At: a.at, Kind: fold.DueBook, Object: p.ID, Cause: p.SucceededBy}
			if err = a.book(ctx, both); err != nil {
				break
			}
			continue
		}
		for _, r := range change.After.Refunds {
			if r.Purchase != "" && !r.Unbilled {
				a.change.Due = append(a.change.Due, fold.Due{At: r.SucceededAt, Kind: fold.DueBook, Object: r.ID,
					Cause: r.SucceededBy, Money: fold.State{Refunds: []fold.Refund{r}}})
			}
		}
	}
	return err
}

// untoldSQL returns one charge for each payment with a due action.
const untoldSQL = `
select ` + FactColumns + `
  from (select distinct object as due from due where mode = $1 and account = $2 and why = 'book' and at <= greatest($3, now())) d
 cross join lateral (
    select * from current_facts where object = due and mode = $1 and kind = 'payment_seen' and (data -> 'Payment' ->> 'ToldAlone')::bool
     order by id limit 1) f
 order by object`
