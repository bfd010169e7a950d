package rebuild_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A switch shows which letters it calls for. The clock sends those that were chosen, and no others; once, however often
// the accounts are folded anew.
func TestRefold_Letters_AsShownAndChosen(t *testing.T) {
	t.Parallel()
	all := []fold.Why{fold.DueChanged, fold.DueEnded, fold.DueTaken}
	for _, chosen := range [][]fold.Why{nil, all[:1], all[1:2], all} {
		t.Run(fmt.Sprint(chosen), func(t *testing.T) {
			t.Parallel()
			pool := schematest.New(t)
			now := at(3 * aDay)
			old, newer := policy, mapped("price_new", fact.Price{Plan: "pro"})
			old.EndAtPeriodEnd, newer.Grace = true, day
			delete(newer.Prices, "price_enterprise")
			old, newer = old.Sealed(), newer.Sealed()
			propose(t, pool, old)
			propose(t, pool, newer)
			deliverWith(t, pool, old, now, events([]fact.Fact{
				created(0, "active", "new"), // gains a plan
				created(1, "active", "pro", of("sub_2", "umbrella", "cus_2")),
				updated(2, "past_due", "pro", of("sub_2", "umbrella", "cus_2")), // loses it with the grace
				created(3, "active", "pro", of("sub_3", "hooli", "cus_3")),
				paid(1, 3, "pro", of("in_1", "hooli", "cus_3"), func(f *fact.Fact) {
					f.Invoice.Subscription, f.Invoice.Lines[0].Subscription = "sub_3", "sub_3"
				}),
				deleted(4, "pro", of("sub_3", "hooli", "cus_3")),                    // loses it with its end
				created(5, "active", "enterprise", of("sub_4", "initech", "cus_4")), // loses it by the map
				created(6, "active", "pro", of("sub_5", "globex", "cus_5")),         // stays
			}, false)...)
			shown := map[string]fold.Why{}
			for _, hit := range rebuild.Impacts(forecast(t, pool, old, newer, now).Differences) {
				for _, why := range hit.Letters {
					shown[hit.Account] = why
				}
			}
			want := map[string]fold.Why{"acme": fold.DueChanged, "umbrella": fold.DueTaken, "hooli": fold.DueEnded}
			if !maps.Equal(shown, want) {
				t.Errorf("shown: %v, want %v", shown, want)
			}
			switchTo(t, pool, newer)
			how := recompute(billing.CauseRules, "meaning-1", old, now)
			how.Letters = chosen
			for range 2 {
				for _, account := range []string{"acme", "umbrella", "hooli", "initech", "globex"} {
					if _, err := rebuild.Account(t.Context(), pool, billing.Scope{Mode: "live", Account: account}, how); err != nil {
						t.Fatal(err)
					}
				}
			}
			rows, _ := pool.Query(t.Context(), `select account, why from due where why in ('changed', 'ended', 'taken')`)
			sent, account, why := map[string]fold.Why{}, "", fold.Why("")
			if _, err := pgx.ForEachRow(rows, []any{&account, &why}, func() error { sent[account] = why; return nil }); err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(want, func(_ string, why fold.Why) bool { return !slices.Contains(chosen, why) })
			if !maps.Equal(sent, want) {
				t.Errorf("the clock is to send %v, want %v", sent, want)
			}
		})
	}
}
