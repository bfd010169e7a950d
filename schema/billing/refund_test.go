package billing_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/billing"
)

func refund(id string, second int, status string, amount int64) billing.Fact {
	return fact(billing.RefundSeen, id, second, billing.RankChange, billing.Data{Refund: &billing.RefundFact{Status: status, Charge: "ch_1", Amount: amount, Currency: "usd"}})
}

func charge(second int, refunded int64) billing.Fact {
	return fact(billing.PaymentSeen, "ch_1", second, billing.RankChange, billing.Data{Payment: &billing.PaymentFact{
		Status: "succeeded", Charge: "ch_1", Invoice: "in_1", Amount: 100, Currency: "usd", Refunded: &refunded,
	}})
}

func dispute(second int, rank billing.Rank, status string, movements ...billing.Movement) billing.Fact {
	return fact(billing.DisputeSeen, "dp_1", second, rank, billing.Data{Dispute: &billing.DisputeFact{Status: status, Charge: "ch_1", Amount: 100, Currency: "usd", Movements: movements}})
}

// Case 14: a refund that succeeded and then failed is both.
func TestFoldRefund_SucceededThenFailed_EveryOrder(t *testing.T) {
	t.Parallel()
	facts := events([]billing.Fact{refund("re_1", 5, "pending", 100), refund("re_1", 10, "succeeded", 100), refund("re_1", 20, "failed", 100)}, false)
	orders(facts, func(delivered []billing.Fact) {
		got := billing.FoldRefund("re_1", delivered)
		if got.Status != "failed" || !got.SucceededAt.Equal(at(10)) || !got.FailedAt.Equal(at(20)) || got.Charge != "ch_1" || got.Amount != 100 {
			t.Errorf("after %s: got %+v", told(delivered), got)
		}
	})
	// The failure is known first, and by an older clock: it is still what the refund came to.
	facts = events([]billing.Fact{refund("re_1", 30, "succeeded", 100), refund("re_1", 20, "failed", 100)}, false)
	if got := billing.FoldRefund("re_1", facts); got.Status != "failed" {
		t.Errorf("a refund that failed is revived: %+v", got)
	}
}

// Case 15: what the charge says in sum, and what its refunds say each, is not added up.
func TestFoldPayment_RefundedOnce_EveryOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		charges []billing.Fact
		refunds []billing.Refund
		want    int64
	}{
		"both":                   {[]billing.Fact{charge(0, 0), charge(9, 30)}, []billing.Refund{{Status: "succeeded", Amount: 10}, {Status: "succeeded", Amount: 20}}, 30},
		"the charge alone":       {[]billing.Fact{charge(0, 0), charge(9, 30)}, nil, 30},
		"the refunds are ahead":  {[]billing.Fact{charge(0, 0), charge(9, 10)}, []billing.Refund{{Status: "succeeded", Amount: 10}, {Status: "succeeded", Amount: 20}}, 30},
		"one is not yet through": {[]billing.Fact{charge(0, 0)}, []billing.Refund{{Status: "succeeded", Amount: 10}, {Status: "pending", Amount: 20}}, 10},
	} {
		orders(events(c.charges, false), func(delivered []billing.Fact) {
			if got := billing.FoldPayment("ch_1", delivered, c.refunds); got.Refunded != c.want || got.Invoice != "in_1" || got.Customer != "cus_1" {
				t.Errorf("%s, after %s: got %+v, want %d refunded", name, told(delivered), got, c.want)
			}
		})
	}
}

// What ties a payment to its invoice may come behind, and say nothing of how the payment stands.
func TestFoldPayment_TiedLater_KeepsStatus(t *testing.T) {
	t.Parallel()
	tie := fact(billing.PaymentSeen, "ch_1", 5, billing.RankChange, billing.Data{Payment: &billing.PaymentFact{Invoice: "in_2", Amount: 100, Currency: "usd"}})
	paid := charge(0, 0)
	paid.Payment.Invoice = ""
	if got := billing.FoldPayment("ch_1", events([]billing.Fact{paid, tie}, false), nil); got.Status != "succeeded" || got.Invoice != "in_2" {
		t.Errorf("got %+v", got)
	}
}

// Case 16: the last word counts, and all money that moved.
func TestFoldDispute_EveryOrder_LastStatusAndAllMovements(t *testing.T) {
	t.Parallel()
	out, back := billing.Movement{ID: "txn_1", Amount: -100, Currency: "usd"}, billing.Movement{ID: "txn_2", Amount: 100, Currency: "usd"}
	facts := events([]billing.Fact{
		dispute(10, billing.RankCreated, "needs_response"), dispute(10, billing.RankChange, "needs_response", out),
		dispute(20, billing.RankEnd, "lost", out), dispute(30, billing.RankChange, "won", out, back),
	}, true)
	orders(facts[:3], func(delivered []billing.Fact) {
		if got := billing.FoldDispute("dp_1", delivered); got.Status != "lost" || got.AwaitsEvidence() || len(got.Movements) != 1 {
			t.Errorf("after %s: got %+v", told(delivered), got)
		}
	})
	orders(facts, func(delivered []billing.Fact) {
		if got := billing.FoldDispute("dp_1", delivered); got.Status != "won" || len(got.Movements) != 2 || got.Movements[1].ID != back.ID {
			t.Errorf("after %s: got %+v", told(delivered), got)
		}
	})
	if got := billing.FoldDispute("dp_1", facts[:1]); !got.AwaitsEvidence() || got.Warning() {
		t.Errorf("created: got %+v", got)
	}
}

// An entry says when the money moved, whichever event was the first to tell of it; what does not say so moved when it was
// first told of.
func TestFoldDispute_Movement_HasItsOwnTime(t *testing.T) {
	t.Parallel()
	own := billing.Movement{ID: "txn_1", Amount: -100, Currency: "usd", OccurredAt: at(7)}
	without := billing.Movement{ID: "txn_2", Amount: 100, Currency: "usd"}
	got := billing.FoldDispute("dp_1", events([]billing.Fact{dispute(20, billing.RankEnd, "lost", own, without)}, true)).Movements
	if len(got) != 2 || !got[0].OccurredAt.Equal(at(7)) || !got[1].OccurredAt.Equal(at(20)) {
		t.Errorf("got %+v", got)
	}
}

func TestFoldCheckout_EveryOrder_TerminalIsAbsorbing(t *testing.T) {
	t.Parallel()
	session := func(second int, status, payment string) billing.Fact {
		f := checkout("cs_1", second, "acme", "")
		f.Checkout.Mode, f.Checkout.Status, f.Checkout.PaymentStatus = "payment", status, payment
		f.Checkout.Lines = []billing.Line{{Price: once("pro", day), Quantity: 1}}
		return f
	}
	facts := events([]billing.Fact{session(0, "open", "unpaid"), session(10, "complete", "unpaid"), session(20, "complete", "paid")}, true)
	orders(facts, func(delivered []billing.Fact) {
		got := billing.FoldCheckout("cs_1", delivered, policy)
		o, grants := got.Order()
		if got.Status != "complete" || got.PaymentStatus != "paid" || got.Named != "acme" || !grants || o.Plan != "pro" || !o.PaidAt.Equal(at(20)) || o.For != day {
			t.Errorf("after %s: got %+v, order %+v %v", told(delivered), got, o, grants)
		}
	})
	if _, grants := billing.FoldCheckout("cs_1", facts[:2], policy).Order(); grants {
		t.Error("grants before it is paid")
	}
}
