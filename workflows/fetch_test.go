package workflows_test

import (
	"encoding/json"
	"testing"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// done returns the answer of a completed effect with a value.
func done(t *testing.T, value any) answer {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return answer{result: effect.Result{State: effect.Done, Value: data}}
}

// Two payments of an invoice are fetched and applied one after another. Either payment can link a refund to the
// invoice. The refund is booked whichever payment is fetched first.
func TestFlow_TwoPaymentsFetched_RefundOfEither_Booked(t *testing.T) {
	for _, order := range [][]string{{"pi_1", "pi_2"}, {"pi_2", "pi_1"}} {
		t.Run(order[0], func(t *testing.T) {
			fetches := loaded()
			fetches.Fetches = true
			f := setup(t, fetches)
			subject := fact.Subject{Provider: "stripe", Mode: "live"}
			invoice := fold.Invoice{Ref: fold.Ref{ID: "in_1", Account: "acme"}, Status: "paid", Paid: 100, Unexplained: 100}
			f.answer("apply-facts", done(t, fold.Change{Subject: subject, After: fold.State{Invoice: &invoice}}))
			var shown []fact.Fact
			for _, id := range order {
				owner := fold.Ref{ID: id, Account: "acme", Invoice: "in_1", Purchase: "in_1"}
				after := fold.State{Payment: &fold.Payment{Ref: owner}}
				if id == "pi_2" {
					owner.ID, owner.Payment = "re_1", id
					after.Refunds = []fold.Refund{{Ref: owner, Amount: 40, Taxed: true, SucceededAt: began}}
				}
				f.answer("apply-facts", done(t, fold.Change{Subject: subject, After: after}))
				shown = append(shown, fact.Fact{Subject: subject, Kind: fact.PaymentSeen, Object: id})
			}
			f.answer("fetch-object", done(t, activities.FetchedObject{Facts: shown}))
			f.answer("apply-facts", done(t, fold.Change{Subject: subject}))
			if got := states(f.run()); got["refund-entry:stripe:live:re_1"] != "done" {
				t.Errorf("the refund is not booked: %v", got)
			}
		})
	}
}
