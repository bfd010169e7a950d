package billing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

// Case 14 of the billing model: a refund that succeeded and then failed is booked twice, as a refund and as its
// reversal.
func TestFoldRefund_SucceededThenFailed_EveryOrder(t *testing.T) {
	t.Parallel()
	facts := events([]fact.Fact{refund("re_1", 5, "pending", 100), refund("re_1", 10, "succeeded", 100), refund("re_1", 20, "failed", 100)}, false)
	orders(facts, func(delivered []fact.Fact) {
		got := fold.RefundOf("re_1", delivered)
		if got.Status != "failed" || !got.SucceededAt.Equal(at(10)) || !got.FailedAt.Equal(at(20)) || got.Charge != "ch_1" || got.Amount != 100 {
			t.Errorf("after %s: got %+v", told(delivered), got)
		}
	})
	// The failure arrives first and has an earlier time. The final status of the refund is failed.
	facts = events([]fact.Fact{refund("re_1", 30, "succeeded", 100), refund("re_1", 20, "failed", 100)}, false)
	if got := fold.RefundOf("re_1", facts); got.Status != "failed" {
		t.Errorf("a refund that failed is revived: %+v", got)
	}
}

// Case 15: the refunded sum in a charge and the amounts of its refunds are not added up.
func TestFoldPayment_RefundedOnce_EveryOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		charges []fact.Fact
		refunds []*fold.Refund
		want    int64
	}{
		"both":                   {[]fact.Fact{charge(0, 0), charge(9, 30)}, []*fold.Refund{{Status: "succeeded", Amount: 10}, {Status: "succeeded", Amount: 20}}, 30},
		"the charge alone":       {[]fact.Fact{charge(0, 0), charge(9, 30)}, nil, 30},
		"the refunds are ahead":  {[]fact.Fact{charge(0, 0), charge(9, 10)}, []*fold.Refund{{Status: "succeeded", Amount: 10}, {Status: "succeeded", Amount: 20}}, 30},
		"one is not yet through": {[]fact.Fact{charge(0, 0)}, []*fold.Refund{{Status: "succeeded", Amount: 10}, {Status: "pending", Amount: 20}}, 10},
	} {
		orders(events(c.charges, false), func(delivered []fact.Fact) {
			if got := fold.PaymentOf("ch_1", delivered, c.refunds); got.Refunded != c.want || got.Invoice != "in_1" || got.Customer != "cus_1" {
				t.Errorf("%s, after %s: got %+v, want %d refunded", name, told(delivered), got, c.want)
			}
		})
	}
}

// toldAlone returns a charge of an API version in which only charges report refunds.
func toldAlone(second int, refunded int64) fact.Fact {
	f := charge(second, refunded)
	f.Payment.ToldAlone = true
	return f
}

// made returns a refund that an event reports some time after its creation.
func made(id string, created, told int, status string, amount int64) fact.Fact {
	f := refund(id, told, status, amount)
	f.Customer, f.Refund.CreatedAt = "", at(created)
	return f
}

// settleRefunds executes the scheduled actions after all are due, and adds the booked refunds.
func settleRefunds(ctx context.Context, tx ledger.Tx, key string) (refunds []fold.Refund, err error) {
	subject := fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_0", ReceiptID: "00000000-0000-7000-8000-000000000001"}
	change, err := billing.ApplyDue(ctx, tx, subject, "acme", at(years(0)), policy, key)
	for _, d := range change.Due {
		refunds = append(refunds, d.Money.Refunds...)
	}
	return refunds, err
}

// If only charges report refunds, the booked sum equals the sum in the charge, with any additional refund events, in
// every order, and at any time of the scheduled action.
func TestApply_RefundsToldByCharge_EveryOrder_AddUp(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for name, c := range map[string]struct {
		facts          []fact.Fact
		booked, failed int64
		announced      int
	}{
		"the charge alone":         {[]fact.Fact{toldAlone(10, 30), toldAlone(20, 100)}, 100, 0, 0},
		"both, and its refunds":    {[]fact.Fact{toldAlone(10, 30), toldAlone(20, 100), made("re_1", 10, 11, "succeeded", 30), made("re_2", 20, 21, "succeeded", 70)}, 100, 0, 2},
		"one that is not through":  {[]fact.Fact{toldAlone(10, 30), made("re_1", 10, 11, "pending", 30), made("re_1", 10, 12, "succeeded", 30)}, 30, 0, 1},
		"refunds of a new version": {[]fact.Fact{toldAlone(10, 30), charge(20, 100), made("re_2", 20, 20, "succeeded", 70)}, 100, 0, 2},
		"one that failed":          {[]fact.Fact{toldAlone(10, 30), made("re_1", 10, 15, "succeeded", 30), made("re_1", 10, 30, "failed", 30)}, 30, 30, 0},
		"another after a failure":  {[]fact.Fact{toldAlone(10, 30), made("re_1", 10, 30, "failed", 30), toldAlone(40, 20)}, 50, 30, 0},
		"the same sum twice, and both failed": {[]fact.Fact{
			toldAlone(10, 30), made("re_1", 10, 30, "failed", 30), toldAlone(40, 30), made("re_2", 40, 50, "failed", 30),
		}, 60, 60, 0},
	} {
		ordersOfRows(events(append(c.facts, paid(1, 1, "pro")), true), func(delivered []fact.Fact) {
			for settledAfter := range len(delivered) {
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					for n, f := range delivered {
						if _, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, fmt.Sprintf("apply:%d", n), at(1000)); err != nil {
							return err
						}
						if n != settledAfter && n != len(delivered)-1 {
							continue
						}
						if _, err := settleRefunds(t.Context(), tx, fmt.Sprintf("apply-due:%d", n)); err != nil {
							return err
						}
					}
					var booked, failed int64
					var announced int
					if err := tx.QueryRow(t.Context(), `
select coalesce(sum((state->>'Amount')::bigint) filter (where state ? 'SucceededAt' and not state ? 'Within'), 0),
       coalesce(sum((state->>'Amount')::bigint) filter (where state ? 'FailedAt' and (state ? 'SucceededAt' or state ? 'Within')), 0), (select count(*) from outbox where type = 'billing.refund.succeeded')
  from objects where kind = 'refund' and account = 'acme'`).Scan(&booked, &failed, &announced); err != nil {
						return err
					}
					// if only the failure of a refund is reported, the refund is not booked at all
					if booked-failed != c.booked-c.failed || booked > c.booked || c.announced > 0 && announced > c.announced {
						t.Errorf("%s, after %s, with the clock after %d: booked %d, of that failed %d, announced %d; want %d, %d, at most %d",
							name, told(delivered), settledAfter, booked, failed, announced, c.booked, c.failed, c.announced)
					}
					return errUndo
				})
				if !errors.Is(err, errUndo) {
					t.Fatal(err)
				}
			}
		})
	}
}

// The wait for a refund that only its charge reports ends while a scheduled run of the account is in progress: this
// run or the next run books the refund. The time passes between the two moments at which [billing.ApplyDue] reads it.
func TestApplyDue_RefundToldByCharge_DueMeanwhile_Booked(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for n, f := range events([]fact.Fact{paid(1, 1, "pro"), toldAlone(10, 30)}, true) {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, fmt.Sprintf("apply:%d", n), at(1000))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var booked []fold.Refund
	run := func(key string, meanwhile string) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `select now()`); err != nil { // fixes the transaction's time
				return err
			}
			if _, err := pool.Exec(t.Context(), meanwhile); err != nil {
				return err
			}
			subject := fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_0", ReceiptID: "00000000-0000-7000-8000-000000000001"}
			change, err := billing.ApplyDue(t.Context(), tx, subject, "acme", at(1000), policy, key)
			for _, d := range change.Due {
				booked = append(booked, d.Money.Refunds...)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	run("apply-due:1", `update due set at = clock_timestamp() where why = 'book'`)
	run("apply-due:2", `select 1`)
	if len(booked) != 1 || booked[0].Amount != 30 || booked[0].Account != "acme" {
		t.Errorf("booked %+v, want the refund of 30", booked)
	}
	run("apply-due:3", `select 1`)
	if left := texts(t, pool, `select object from due where why = 'book'`); len(booked) != 1 || len(left) != 0 {
		t.Errorf("booked %d refunds, and %q are due", len(booked), left)
	}
}

// The charge, the refund itself and an update report a refund, and the largest refund fails later. The entries have
// the same keys and amounts in every order. They contain the IDs of the refunds if events report the refunds.
func TestApply_RefundToldInThreeWays_EveryOrder_SameEntries(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for name, c := range map[string]struct {
		facts []fact.Fact
		want  []string
	}{
		"each by itself": {
			[]fact.Fact{toldAlone(20, 100), made("re_1", 10, 11, "succeeded", 70), made("re_2", 20, 21, "succeeded", 30), made("re_2", 20, 60, "failed", 30)},
			[]string{"re_1 refund 70", "re_2 refund 30", "re_2 refund_reversal 30"},
		},
		"one by the charge alone": {
			[]fact.Fact{toldAlone(10, 70), toldAlone(20, 100), made("re_2", 20, 21, "succeeded", 30), made("re_2", 20, 60, "failed", 30)},
			[]string{"ch_1:1 refund 70", "re_2 refund 30", "re_2 refund_reversal 30"},
		},
		"the failure alone": {
			[]fact.Fact{toldAlone(10, 70), toldAlone(20, 100), made("re_2", 20, 60, "failed", 30)},
			[]string{"ch_1:1 refund 70"},
		},
		"by the charge alone": {
			[]fact.Fact{toldAlone(10, 30), toldAlone(20, 60), toldAlone(30, 100)},
			[]string{"ch_1:1 refund 30", "ch_1:2 refund 30", "ch_1:3 refund 40"},
		},
	} {
		ordersOfRows(events(append(c.facts, paid(1, 1, "pro")), true), func(delivered []fact.Fact) {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				booked := map[string]bool{}
				book := func(refunds []fold.Refund) {
					for _, r := range refunds {
						if r.Account != "" && r.Purchase != "" && r.Succeeded() && r.Within == "" {
							booked[fmt.Sprint(r.ID, " refund ", r.Amount)] = true
						}
						if r.Failed() && (r.Succeeded() || r.Within != "") {
							booked[fmt.Sprint(r.ID, " refund_reversal ", r.Amount)] = true
						}
					}
				}
				for n, f := range delivered {
					change, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, fmt.Sprintf("apply:%d", n), at(1000))
					if err != nil {
						return err
					}
					book(change.After.Refunds)
				}
				refunds, err := settleRefunds(t.Context(), tx, "apply-due")
				if err != nil {
					return err
				}
				book(refunds)
				if got := slices.Sorted(maps.Keys(booked)); !slices.Equal(got, c.want) {
					t.Errorf("%s, after %s\n got %q\nwant %q", name, told(delivered), got, c.want)
				}
				return errUndo
			})
			if !errors.Is(err, errUndo) {
				t.Fatal(err)
			}
		})
	}
}

// The refunds that a charge reports are stored as facts, so the rows can be recomputed.
func TestCheck_RefundsToldByCharge_NoDifference(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for n, f := range events([]fact.Fact{
		paid(1, 1, "pro"), made("re_1", 10, 11, "succeeded", 30), toldAlone(20, 100), made("re_2", 20, 30, "failed", 70), toldAlone(10, 30),
		toldAlone(40, 100), made("re_3", 40, 50, "failed", 70),
	}, true) {
		deliver(t, pool, []fact.Fact{f}, at(1000))
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := settleRefunds(t.Context(), tx, fmt.Sprint("apply-due:", n))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, pool, `select count(*) from facts where object like 'ch_1:%'`); n == 0 {
		t.Error("no refund by the charge")
	}
	if lines := check(t, pool, billing.Scope{}, at(1000)); len(lines) > 0 {
		t.Error(strings.Join(lines, "\n"))
	}
}

// The object that connects a payment to its invoice may arrive late and without the status of the payment.
func TestFoldPayment_TiedLater_KeepsStatus(t *testing.T) {
	t.Parallel()
	tie := makeFact(fact.PaymentSeen, "ch_1", 5, fact.RankChange, fact.Data{Payment: &fact.Payment{Invoice: "in_2", Amount: 100, Currency: "usd"}})
	paid := charge(0, 0)
	paid.Payment.Invoice = ""
	if got := fold.PaymentOf("ch_1", events([]fact.Fact{paid, tie}, false), nil); got.Status != "succeeded" || got.Invoice != "in_2" {
		t.Errorf("got %+v", got)
	}
}

// Case 16: the last status applies, and all movements of money are booked.
func TestFoldDispute_EveryOrder_LastStatusAndAllMovements(t *testing.T) {
	t.Parallel()
	out, back := fact.Movement{ID: "txn_1", Amount: -100, Currency: "usd"}, fact.Movement{ID: "txn_2", Amount: 100, Currency: "usd"}
	facts := events([]fact.Fact{
		dispute(10, fact.RankCreated, "needs_response"), dispute(10, fact.RankChange, "needs_response", out),
		dispute(20, fact.RankEnd, "lost", out), dispute(30, fact.RankChange, "won", out, back),
	}, true)
	orders(facts[:3], func(delivered []fact.Fact) {
		if got := fold.DisputeOf("dp_1", delivered); got.Status != "lost" || got.AwaitsEvidence() || len(got.Movements) != 1 {
			t.Errorf("after %s: got %+v", told(delivered), got)
		}
	})
	orders(facts, func(delivered []fact.Fact) {
		if got := fold.DisputeOf("dp_1", delivered); got.Status != "won" || len(got.Movements) != 2 || got.Movements[1].ID != back.ID {
			t.Errorf("after %s: got %+v", told(delivered), got)
		}
	})
	if got := fold.DisputeOf("dp_1", facts[:1]); !got.AwaitsEvidence() || got.Warning() {
		t.Errorf("created: got %+v", got)
	}
}

// An entry has the time when the money moved, whichever event reports it first. If a movement has no time, its first
// event determines the time.
func TestFoldDispute_Movement_HasItsOwnTime(t *testing.T) {
	t.Parallel()
	own := fact.Movement{ID: "txn_1", Amount: -100, Currency: "usd", OccurredAt: at(7)}
	without := fact.Movement{ID: "txn_2", Amount: 100, Currency: "usd"}
	got := fold.DisputeOf("dp_1", events([]fact.Fact{dispute(20, fact.RankEnd, "lost", own, without)}, true)).Movements
	if len(got) != 2 || !got[0].OccurredAt.Equal(at(7)) || !got[1].OccurredAt.Equal(at(20)) {
		t.Errorf("got %+v", got)
	}
}

func TestFoldCheckout_EveryOrder_TerminalIsAbsorbing(t *testing.T) {
	t.Parallel()
	session := func(second int, status, payment string) fact.Fact {
		f := checkout("cs_1", second, "acme", "")
		f.Checkout.Mode, f.Checkout.Status, f.Checkout.PaymentStatus = "payment", status, payment
		f.Checkout.Lines = []fact.Line{{Price: once("pro", day), Quantity: 1}}
		return f
	}
	facts := events([]fact.Fact{session(0, "open", "unpaid"), session(10, "complete", "unpaid"), session(20, "complete", "paid")}, true)
	orders(facts, func(delivered []fact.Fact) {
		got := fold.CheckoutOf("cs_1", delivered, policy)
		o, grants := got.Order(), got.Order().Granted()
		if got.Status != "complete" || got.PaymentStatus != "paid" || got.Named != "acme" || !grants || o.Plan != "pro" || !o.PaidAt.Equal(at(20)) || o.For != day {
			t.Errorf("after %s: got %+v, order %+v %v", told(delivered), got, o, grants)
		}
	})
	if fold.CheckoutOf("cs_1", facts[:2], policy).Order().Granted() {
		t.Error("grants before it is paid")
	}
}
