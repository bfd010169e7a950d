package billing_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/schematest"
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
		refunds []*billing.Refund
		want    int64
	}{
		"both":                   {[]billing.Fact{charge(0, 0), charge(9, 30)}, []*billing.Refund{{Status: "succeeded", Amount: 10}, {Status: "succeeded", Amount: 20}}, 30},
		"the charge alone":       {[]billing.Fact{charge(0, 0), charge(9, 30)}, nil, 30},
		"the refunds are ahead":  {[]billing.Fact{charge(0, 0), charge(9, 10)}, []*billing.Refund{{Status: "succeeded", Amount: 10}, {Status: "succeeded", Amount: 20}}, 30},
		"one is not yet through": {[]billing.Fact{charge(0, 0)}, []*billing.Refund{{Status: "succeeded", Amount: 10}, {Status: "pending", Amount: 20}}, 10},
	} {
		orders(events(c.charges, false), func(delivered []billing.Fact) {
			if got := billing.FoldPayment("ch_1", delivered, c.refunds); got.Refunded != c.want || got.Invoice != "in_1" || got.Customer != "cus_1" {
				t.Errorf("%s, after %s: got %+v, want %d refunded", name, told(delivered), got, c.want)
			}
		})
	}
}

// toldAlone is what a charge says in a version in which nothing else tells of its refunds.
func toldAlone(second int, refunded int64) billing.Fact {
	f := charge(second, refunded)
	f.Payment.ToldAlone = true
	return f
}

// made is a refund that was made in a second, which an event tells of later.
func made(id string, created, told int, status string, amount int64) billing.Fact {
	f := refund(id, told, status, amount)
	f.Customer, f.Refund.CreatedAt = "", at(created)
	return f
}

// Where a charge alone tells of its refunds, what is booked comes to what it says, whatever is told of the refunds
// besides, and in which order.
func TestApply_RefundsToldByCharge_EveryOrder_AddUp(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for name, c := range map[string]struct {
		facts          []billing.Fact
		booked, failed int64
		announced      int
	}{
		"the charge alone":         {[]billing.Fact{toldAlone(10, 30), toldAlone(20, 100)}, 100, 0, 0},
		"both, and its refunds":    {[]billing.Fact{toldAlone(10, 30), toldAlone(20, 100), made("re_1", 10, 11, "succeeded", 30), made("re_2", 20, 21, "succeeded", 70)}, 100, 0, 2},
		"one that is not through":  {[]billing.Fact{toldAlone(10, 30), made("re_1", 10, 11, "pending", 30), made("re_1", 10, 12, "succeeded", 30)}, 30, 0, 1},
		"refunds of a new version": {[]billing.Fact{toldAlone(10, 30), charge(20, 100), made("re_2", 20, 20, "succeeded", 70)}, 100, 0, 2},
		"one that failed":          {[]billing.Fact{toldAlone(10, 30), made("re_1", 10, 15, "succeeded", 30), made("re_1", 10, 30, "failed", 30)}, 30, 30, 0},
		"another after a failure":  {[]billing.Fact{toldAlone(10, 30), made("re_1", 10, 30, "failed", 30), toldAlone(40, 20)}, 50, 30, 0},
		"the same sum twice, and both failed": {[]billing.Fact{
			toldAlone(10, 30), made("re_1", 10, 30, "failed", 30), toldAlone(40, 30), made("re_2", 40, 50, "failed", 30),
		}, 60, 60, 0},
	} {
		ordersOfRows(events(append(c.facts, paid(1, 1, "pro")), true), func(delivered []billing.Fact) {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				for n, f := range delivered {
					if _, err := billing.Apply(t.Context(), tx, []billing.Fact{f}, policy, fmt.Sprintf("apply:%d", n), at(1000)); err != nil {
						return err
					}
				}
				var booked, failed int64
				var announced int
				if err := tx.QueryRow(t.Context(), `
select coalesce(sum((state->>'Amount')::bigint) filter (where state ? 'SucceededAt' and not state ? 'Within'), 0),
       coalesce(sum((state->>'Amount')::bigint) filter (where state ? 'FailedAt' and (state ? 'SucceededAt' or state ? 'Within')), 0), (select count(*) from outbox where type = 'refund.succeeded')
  from objects where kind = 'refund' and account = 'acme'`).Scan(&booked, &failed, &announced); err != nil {
					return err
				}
				// a refund of which the failure alone is told is not booked at all
				if booked-failed != c.booked-c.failed || booked > c.booked || c.announced > 0 && announced > c.announced {
					t.Errorf("%s, after %s: booked %d, of that failed %d, announced %d; want %d, %d, at most %d", name, told(delivered), booked, failed, announced, c.booked, c.failed, c.announced)
				}
				return errUndo
			})
			if !errors.Is(err, errUndo) {
				t.Fatal(err)
			}
		})
	}
}

// What a charge has told is a fact, and so the rows can be folded anew.
func TestCheck_RefundsToldByCharge_NoDifference(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	deliver(t, pool, events([]billing.Fact{
		paid(1, 1, "pro"), made("re_1", 10, 11, "succeeded", 30), toldAlone(20, 100), made("re_2", 20, 30, "failed", 70), toldAlone(10, 30),
		toldAlone(40, 100), made("re_3", 40, 50, "failed", 70),
	}, true), at(1000))
	if lines := check(t, pool, billing.Scope{}, at(1000)); len(lines) > 0 {
		t.Error(strings.Join(lines, "\n"))
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
		o, grants := got.Order(), got.Order().Granted()
		if got.Status != "complete" || got.PaymentStatus != "paid" || got.Named != "acme" || !grants || o.Plan != "pro" || !o.PaidAt.Equal(at(20)) || o.For != day {
			t.Errorf("after %s: got %+v, order %+v %v", told(delivered), got, o, grants)
		}
	})
	if billing.FoldCheckout("cs_1", facts[:2], policy).Order().Granted() {
		t.Error("grants before it is paid")
	}
}
