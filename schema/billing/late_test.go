package billing_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

// lateMoney reads the payments, and the refunds with their booked amounts.
const lateMoney = `
select concat_ws(' ', id, account, state->>'Refunded', state->>'Status', state->>'Tax', state ? 'SucceededAt', state ? 'FailedAt', state->>'Within') from objects order by id`

// A company ends its subscription, signs up again, and gets a refund. Its objects are fetched late: the API returns
// each object in its current state. The time of the fact is the time of the response, unless the object contains a
// time. The rows are the same for every order of the fetches.
func TestApply_FetchedLate_SignsUpAgain_EveryOrder_SameRows(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	const today = 300 * aDay
	second := of("sub_2", "acme", "cus_1")
	during := func(from int) change {
		return func(f *fact.Fact) {
			f.Invoice.Lines[0].PeriodStart, f.Invoice.Lines[0].PeriodEnd = at(from), at(from+month)
		}
	}
	ended := deleted(10*aDay, "pro", with(func(s *fact.Subscription) { s.Start, s.EndedAt = at(0), at(10*aDay) }))
	again := updated(today, "active", "starter", second, with(func(s *fact.Subscription) {
		s.Start, s.Items[0].PeriodStart, s.Items[0].PeriodEnd = at(280*aDay), at(280*aDay), at(310*aDay)
	}))
	first, renewed := paid(1, 1, "pro", during(0)), paid(2, 280*aDay, "starter", during(280*aDay), func(f *fact.Fact) {
		f.Invoice.Subscription, f.Invoice.Lines[0].Subscription = "sub_2", "sub_2"
	})
	failed := made("re_1", 5*aDay, today, "failed", 100)
	failed.Refund.Returned = true
	failed30 := made("re_1", 5*aDay, today, "failed", 30)
	failed30.Refund.Returned = true
	for name, facts := range map[string][]fact.Fact{
		"ends and signs up again":       {ended, again, first, renewed},
		"and a refund failed":           {ended, again, first, charge(today, 0), failed},
		"and one of two refunds failed": {ended, first, charge(today, 70), made("re_2", 5*aDay, 5*aDay, "succeeded", 70), failed30},
		"and a refund succeeded":        {ended, again, first, charge(today, 100), made("re_1", 5*aDay, 5*aDay, "succeeded", 100)},
	} {
		for policyName, tune := range map[string]func(*fact.Policy){
			"default": func(*fact.Policy) {},
			"strict":  func(p *fact.Policy) { p.EndAtPeriodEnd, p.EndOnFullRefund, p.GrantOnPayment = true, true, true },
		} {
			p := policy
			tune(&p)
			var want, wantDue []string
			for i := range facts {
				facts[i].Origin = fact.FromFetch
			}
			ordersOfRows(events(facts, false), func(delivered []fact.Fact) {
				delivered = slices.Clone(delivered)
				for n := range delivered {
					if delivered[n].OccurredAt.Equal(at(today)) {
						delivered[n].OccurredAt = at(today + 60*n)
					}
				}
				var got, due []string
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					for n, f := range delivered {
						if _, err := billing.Apply(t.Context(), tx, append(fact.LinksOf(f), f), p, fmt.Sprintf("apply:%d", n), at(today+hour)); err != nil {
							return err
						}
					}
					got, due = append(rows(t, tx), texts(t, tx, lateMoney)...), dueRows(t, tx)
					return errUndo
				})
				if !errors.Is(err, errUndo) {
					t.Fatal(err)
				}
				if want == nil {
					want, wantDue = got, ofFacts(due)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, %s, after %s\n got %q\nwant %q", name, policyName, told(delivered), got, want)
				}
				if due = ofFacts(due); !slices.Equal(due, wantDue) {
					t.Errorf("%s, %s, after %s due\n got %q\nwant %q", name, policyName, told(delivered), due, wantDue)
				}
			})
		}
	}
}
