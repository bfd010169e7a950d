package plan

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

var refundedAt, failedAt = time.Date(2026, 3, 1, 0, 0, 10, 0, time.UTC), time.Date(2026, 3, 1, 0, 0, 20, 0, time.UTC)

func changeTo(after fold.State) fold.Change {
	return fold.Change{Subject: fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_1"}, After: after}
}

// entryOf returns the entry that a step sends to the finance sink.
func entryOf(s *Step) activities.Entry {
	return *s.Entry()
}

func keysOf(steps []*Step) (keys []string) {
	for _, s := range steps {
		keys = append(keys, s.Key)
	}
	return keys
}

// The keys contain the object, whichever event reports it, and the entries depend on all facts of the object
// together.
func TestBookings_KeysAndEntries(t *testing.T) {
	t.Parallel()
	entry := func(kind activities.EntryKind, object string, amount, tax int64, at time.Time, reverses string) activities.Entry {
		return activities.Entry{Kind: kind, Mode: "live", Account: "acme", Object: object, Invoice: "in_1", Subscription: "sub_1",
			Amount: amount, Tax: tax, Currency: "usd", OccurredAt: at, Reverses: reverses}
	}
	refund := fold.Refund{Ref: fold.Ref{ID: "re_1", Account: "acme", Payment: "pi_1", Invoice: "in_1", Purchase: "in_1", Subscription: "sub_1"}, Status: "succeeded", Amount: 30, Tax: 4, Currency: "usd", SucceededAt: refundedAt}
	both := refund
	both.Status, both.FailedAt = "failed", failedAt
	own := refund
	own.Invoice, own.Purchase = "", "pi_1"
	never := both
	never.SucceededAt = time.Time{}
	nobodys := both
	nobodys.Account = ""
	untaxed := refund
	untaxed.Unbilled = true
	within := both
	within.Within = "ch_1:1"
	dispute := fold.Dispute{Ref: fold.Ref{ID: "dp_1", Account: "acme", Payment: "pi_1", Invoice: "in_1", Purchase: "in_1", Subscription: "sub_1"}, Amount: 100, Currency: "usd", Movements: []fact.Movement{
		{ID: "txn_1", Amount: -100, Fee: 15, Currency: "usd", OccurredAt: refundedAt}, {ID: "txn_2", Amount: 90, Fee: -15, Currency: "usd", OccurredAt: failedAt},
	}}
	abroad := dispute
	abroad.Amount, abroad.Currency = 80, "eur"
	settled := func(e activities.Entry, amount, fee int64) activities.Entry {
		e.Settlement = fold.Settled(amount, fee, "usd")
		return e
	}
	inEuro := func(e activities.Entry) activities.Entry {
		e.Currency = "eur"
		return e
	}
	by := func(how string, e activities.Entry) activities.Entry {
		e.Method = how
		return e
	}
	credit := fold.Credit{Ref: fold.Ref{ID: "cn_1", Account: "acme", Invoice: "in_1", Subscription: "sub_1"}, Amount: 20, Tax: 3, Currency: "usd", IssuedAt: refundedAt}
	unbilledCredit := credit
	unbilledCredit.Unbilled = true
	unbilledDispute := dispute
	unbilledDispute.Unbilled = true
	void := credit
	void.VoidedAt = failedAt
	outside := credit
	outside.OutOfBand = 5
	none := credit
	none.Amount = 0
	for name, tt := range map[string]struct {
		after fold.State
		want  map[string]activities.Entry
	}{
		"a refund that succeeded": {fold.State{Refunds: []fold.Refund{refund}}, map[string]activities.Entry{
			"refund-entry:stripe:live:re_1": entry(activities.RefundEntry, "re_1", 30, 4, refundedAt, ""),
		}},
		"a refund that failed after all": {fold.State{Refunds: []fold.Refund{both}}, map[string]activities.Entry{
			"refund-entry:stripe:live:re_1":          entry(activities.RefundEntry, "re_1", 30, 4, refundedAt, ""),
			"refund-reversal-entry:stripe:live:re_1": entry(activities.RefundReversalEntry, "re_1", 30, 4, failedAt, "refund-entry:stripe:live:re_1"),
		}},
		"a refund that its charge has told before, and that failed": {fold.State{Refunds: []fold.Refund{within}}, map[string]activities.Entry{
			"refund-reversal-entry:stripe:live:re_1": entry(activities.RefundReversalEntry, "re_1", 30, 4, failedAt, "refund-entry:stripe:live:ch_1:1"),
		}},
		"a refund that never succeeded": {fold.State{Refunds: []fold.Refund{never}}, nil},
		"a refund of a payment that was for nothing that is known, which the clock books": {fold.State{Refunds: []fold.Refund{own},
			Payment: &fold.Payment{Ref: fold.Ref{ID: "pi_1", Account: "acme", Purchase: "pi_1"}, Status: "succeeded"}}, nil},
		"money of an unknown invoice":       {fold.State{Refunds: []fold.Refund{untaxed}, Disputes: []fold.Dispute{unbilledDispute}, Credits: []fold.Credit{unbilledCredit}}, nil},
		"a refund whose account is unknown": {fold.State{Refunds: []fold.Refund{nobodys}}, nil},
		"each balance transaction is booked": {fold.State{Disputes: []fold.Dispute{dispute}}, map[string]activities.Entry{
			"dispute-entry:stripe:live:txn_1": settled(entry(activities.DisputeEntry, "txn_1", -100, 0, refundedAt, ""), -100, 15),
			"dispute-entry:stripe:live:txn_2": settled(entry(activities.DisputeEntry, "txn_2", 90, 0, failedAt, ""), 90, -15),
		}},
		"a dispute of another currency than our balance's has what the charge was in": {fold.State{Disputes: []fold.Dispute{abroad}}, map[string]activities.Entry{
			"dispute-entry:stripe:live:txn_1": settled(inEuro(entry(activities.DisputeEntry, "txn_1", -80, 0, refundedAt, "")), -100, 15),
			"dispute-entry:stripe:live:txn_2": settled(inEuro(entry(activities.DisputeEntry, "txn_2", 80, 0, failedAt, "")), 90, -15),
		}},
		"a credit note": {fold.State{Credits: []fold.Credit{credit}}, map[string]activities.Entry{
			"credit-entry:stripe:live:cn_1": by("balance", entry(activities.CreditEntry, "cn_1", 20, 3, refundedAt, "")),
		}},
		"a credit note of which a part was given back outside": {fold.State{Credits: []fold.Credit{outside}}, map[string]activities.Entry{
			"credit-entry:stripe:live:cn_1":             by("balance", entry(activities.CreditEntry, "cn_1", 15, 2, refundedAt, "")),
			"credit-entry:stripe:live:cn_1:out_of_band": by("out_of_band", entry(activities.CreditEntry, "cn_1", 5, 0, refundedAt, "")),
		}},
		"a credit note that was voided": {fold.State{Credits: []fold.Credit{void}}, map[string]activities.Entry{
			"credit-entry:stripe:live:cn_1":          by("balance", entry(activities.CreditEntry, "cn_1", 20, 3, refundedAt, "")),
			"credit-reversal-entry:stripe:live:cn_1": by("balance", entry(activities.CreditReversalEntry, "cn_1", 20, 3, failedAt, "credit-entry:stripe:live:cn_1")),
		}},
		"a credit note that is all refunded": {fold.State{Credits: []fold.Credit{none}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got map[string]activities.Entry
			for _, s := range bookings(changeTo(tt.after)) {
				if got == nil {
					got = map[string]activities.Entry{}
				}
				got[s.Key] = entryOf(s)
				if s.Undo != nil {
					t.Errorf("%s can be undone: money that has moved cannot be taken back", s.Key)
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("entries\n got %s\nwant %s", asJSON(t, got), asJSON(t, tt.want))
			}
		})
	}
}

func TestCheckoutPaid(t *testing.T) {
	t.Parallel()
	order := fold.Checkout{Ref: fold.Ref{ID: "cs_1", Account: "acme"}, Mode: "payment", Status: "complete", PaymentStatus: "paid", Amount: 1000, Tax: 160, Currency: "usd", Sale: fact.Sale{Plan: "pro"}, PaidAt: refundedAt}
	unpaid, free, invoiced, nobodys := order, order, order, order
	unpaid.PaymentStatus, unpaid.PaidAt = "unpaid", time.Time{}
	free.Amount, invoiced.Invoice, nobodys.Account = 0, "in_1", ""
	for name, tt := range map[string]struct {
		order  fold.Checkout
		zero   bool
		want   []string
		review string
	}{
		"paid":                {order, false, []string{"finance-export:stripe:live:cs_1", "order-email:stripe:live:cs_1"}, ""},
		"not paid yet":        {unpaid, false, nil, ""},
		"for nothing":         {free, false, nil, ""},
		"for nothing, booked": {free, true, []string{"finance-export:stripe:live:cs_1"}, ""},
		"with an invoice":     {invoiced, false, nil, ""},
		"of nobody":           {nobodys, false, nil, "account_unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := CheckoutPaid(changeTo(fold.State{Checkout: &tt.order}), activities.Planning{BookZero: tt.zero})
			if got := keysOf(p.Steps); !slices.Equal(got, tt.want) {
				t.Errorf("steps %v, want %v", got, tt.want)
			}
			if p.Review != nil && p.Review.Code != tt.review || p.Review == nil && tt.review != "" {
				t.Errorf("review %+v, want %q", p.Review, tt.review)
			}
		})
	}
	steps := CheckoutPaid(changeTo(fold.State{Checkout: &order}), activities.Planning{}).Steps
	if got, want := entryOf(steps[0]), (activities.Entry{Kind: activities.PaymentEntry, Mode: "live", Account: "acme", Object: "cs_1", Plan: "pro",
		Amount: 1000, Tax: 160, Currency: "usd", Method: "charge", OccurredAt: refundedAt}); got != want {
		t.Errorf("entry\n got %+v\nwant %+v", got, want)
	}
	for i, want := range []string{"reverse-finance-entry:stripe:live:cs_1", "correction-notice:stripe:live:cs_1"} {
		if got := steps[i].Undo(effect.Result{}).Key; got != want {
			t.Errorf("%s is undone by %s, want %s", steps[i].Key, got, want)
		}
	}
}

// A workspace API may refuse a change that the policy causes. No other effect is compensated then.
func TestMoneyMoved_RefusalTakesNothingBack(t *testing.T) {
	t.Parallel()
	c := changeTo(fold.State{Access: fold.Access{Account: "acme", Target: fold.Target{Version: 3, State: fold.WorkspaceActive, Plan: "starter"}}})
	c.Before.Access = fold.Access{Account: "acme", Target: fold.Target{Version: 2, State: fold.WorkspaceActive, Plan: "pro"}}
	steps := MoneyMoved(c, activities.Planning{}).Steps
	if len(steps) != 1 || steps[0].Key != "provision-workspace:stripe:live:acme:v3" || steps[0].RefusalUndoesAll {
		t.Errorf("steps %v", keysOf(steps))
	}
	c.Before.Access.Target.Version = 3
	if steps := MoneyMoved(c, activities.Planning{}).Steps; len(steps) != 0 {
		t.Errorf("steps %v, where the target has not changed", keysOf(steps))
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The booked amount is the paid amount, which can differ from the due amount if an invoice was overpaid or partly
// paid by the customer's balance. An entry contains the ID of a charge only if the ID certainly belongs to a charge.
func TestPayment_IsWhatWasPaid(t *testing.T) {
	t.Parallel()
	paidAt := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		of   fold.Invoice
		want activities.Entry
		net  int64
	}{
		"paid":             {fold.Invoice{Due: 4900, Paid: 4900, Tax: 900, How: "charge"}, activities.Entry{Amount: 4900, Due: 4900, Tax: 900, Method: "charge"}, 4900},
		"overpaid":         {fold.Invoice{Due: 4900, Paid: 6000, Tax: 900, How: "charge"}, activities.Entry{Amount: 6000, Due: 4900, Tax: 900, Method: "charge"}, 6000},
		"by who knows":     {fold.Invoice{Due: 4900, Paid: 4900}, activities.Entry{Amount: 4900, Due: 4900, Method: "unknown"}, 4900},
		"outside":          {fold.Invoice{Due: 4900, Paid: 4900, How: "out_of_band"}, activities.Entry{Amount: 4900, Due: 4900, Method: "out_of_band"}, 4900},
		"with the balance": {fold.Invoice{Due: 2900, Paid: 2900, Balance: 2000, How: "charge"}, activities.Entry{Amount: 2900, Due: 2900, Balance: 2000, Method: "charge"}, 2900},
		"by the balance":   {fold.Invoice{Balance: 2000, How: "charge"}, activities.Entry{Balance: 2000, Method: "balance"}, 0},
	} {
		tt.of.Status, tt.of.Currency, tt.of.PaidSums = "paid", "usd", []int64{tt.of.Paid}
		tt.of.PaidTimes = []time.Time{paidAt}
		tt.want.Kind, tt.want.OccurredAt, tt.want.Currency = activities.PaymentEntry, paidAt, "usd"
		var got activities.Entry
		bookPayments(fact.Subject{}, tt.of, func(_ string, entry activities.Entry) { got = entry })
		if !reflect.DeepEqual(got, tt.want) || got.Net() != tt.net {
			t.Errorf("%s: entry\n got %+v of %d\nwant %+v of %d", name, got, got.Net(), tt.want, tt.net)
		}
	}
	credit := activities.Entry{Kind: activities.CreditEntry, Amount: 2000, Method: activities.ByBalance}
	if credit.Net() != 0 {
		t.Errorf("a credit to the balance nets %d: it counts when it is used, and then a second time", credit.Net())
	}
}

// If a purchase was compensated and then refunded, the entries add up to no cash.
func TestEntry_Net_ReversalMovesNoCash(t *testing.T) {
	t.Parallel()
	sum := int64(0)
	for _, kind := range []activities.EntryKind{activities.PaymentEntry, activities.ReversalEntry, activities.RefundEntry} {
		sum += activities.Entry{Kind: kind, Amount: 4900, Method: activities.ByCharge}.Net()
	}
	if sum != 0 {
		t.Errorf("payment, reversal and refund sum to %d, want 0", sum)
	}
}
