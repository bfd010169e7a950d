package fold_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

func TestBehind(t *testing.T) {
	t.Parallel()
	second := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sub := func(seconds int, status, before string) fact.Fact {
		s := &fact.Subscription{Status: status}
		if before != "" {
			s.Before = &fact.Subscription{Status: before}
		}
		return fact.Fact{
			Subject: fact.Subject{EventID: status + before, OccurredAt: second.Add(time.Duration(seconds) * time.Second)},
			Kind:    fact.SubscriptionSeen, Rank: fact.RankChange, Data: fact.Data{Subscription: s},
		}
	}
	invoice := func(seconds int, status string) fact.Fact {
		f := sub(seconds, status, "")
		f.Kind, f.Data = fact.InvoiceSeen, fact.Data{Invoice: &fact.Invoice{Status: status}}
		return f
	}
	known := []fact.Fact{sub(-9, "trialing", ""), sub(0, "active", "incomplete"), sub(0, "past_due", "incomplete")}
	for name, tt := range map[string]struct {
		fetched fact.Fact
		known   []fact.Fact
		behind  bool
	}{
		"one of the second's":         {sub(3, "past_due", ""), known, false},
		"what came after":             {sub(3, "canceled", ""), known, false},
		"from before the second":      {sub(3, "trialing", ""), known, true},
		"come back to it since":       {sub(61, "trialing", ""), known, false},
		"what the second has left":    {sub(3, "incomplete", ""), known, true},
		"answered within the second":  {sub(0, "past_due", ""), known, true},
		"ended before the second":     {sub(-3, "canceled", ""), known, false},
		"gone there and back":         {sub(3, "active", ""), append([]fact.Fact{sub(-9, "active", "")}, known...), false},
		"nothing is known":            {sub(3, "active", ""), nil, false},
		"an invoice as it is":         {invoice(3, "paid"), []fact.Fact{invoice(0, "paid")}, false},
		"an invoice before it's paid": {invoice(3, "open"), []fact.Fact{invoice(0, "paid")}, true},
		"a payment":                   {fact.Fact{Kind: fact.PaymentSeen, Data: fact.Data{Payment: &fact.Payment{}}}, known, false},
	} {
		if got := fact.Behind(tt.fetched, tt.known); got != tt.behind {
			t.Errorf("%s: Behind() = %t", name, got)
		}
	}
}

// Two events of the same refund fetch its invoice. The response contains a new fact only for the first event. The
// second event's own facts had assigned the refund to the customer; now it is assigned to the same account. The
// second event does not book the refund, because it does not have the tax.
func TestChange_Decided(t *testing.T) {
	t.Parallel()
	customers, invoices := fold.Ref{ID: "re_1", Payment: "pi_1", Account: "cus_1", Customer: "cus_1", Announced: []string{"billing.refund.succeeded"}}, fold.Ref{ID: "re_1", Payment: "pi_1", Account: "acme", Invoice: "in_1", Customer: "cus_1", Announced: []string{"billing.refund.succeeded"}}
	of := func(r fold.Ref, id, payment string) fold.Ref { r.ID, r.Payment = id, payment; return r }
	open := fold.Change{After: fold.State{
		Payment:  &fold.Payment{Ref: fold.Ref{ID: "pi_1", Account: "cus_1", Customer: "cus_1"}},
		Refunds:  []fold.Refund{{Ref: customers}, {Ref: of(customers, "re_2", "pi_2")}},
		Disputes: []fold.Dispute{{Ref: of(customers, "dp_1", "pi_1")}}, Warnings: []fold.Warning{{Ref: of(customers, "issfr_1", "pi_1")}},
	}}
	paid := &fold.Payment{Ref: fold.Ref{ID: "pi_1", Account: "acme", Invoice: "in_1", Customer: "cus_1"}}
	for name, tt := range map[string]struct {
		by   fold.State
		want fold.Ref
		left bool // whether another run books the refund
	}{
		"the answer is new":           {fold.State{Payment: paid, Refunds: []fold.Refund{{Ref: invoices, Taxed: true}}}, invoices, false},
		"another event had it before": {fold.State{Payment: paid}, invoices, true},
		"the invoice is not known":    {fold.State{Payment: &fold.Payment{Ref: fold.Ref{ID: "pi_1", Invoice: "in_1", Customer: "cus_1"}}}, fold.Ref{ID: "re_1", Payment: "pi_1", Invoice: "in_1", Customer: "cus_1", Announced: customers.Announced}, true},
		"it is of no payment":         {fold.State{}, customers, false},
	} {
		got := open.Decided(fold.Change{After: tt.by}).After
		refund := got.Refunds[slices.IndexFunc(got.Refunds, func(r fold.Refund) bool { return r.ID == "re_1" })].Ref
		if refund.Unbilled != tt.left {
			t.Errorf("%s: the refund is left to another run: %t", name, refund.Unbilled)
		}
		refund.Unbilled = false
		for _, o := range []fold.Ref{refund, of(got.Disputes[0].Ref, "re_1", "pi_1"), of(got.Warnings[0].Ref, "re_1", "pi_1")} {
			if !reflect.DeepEqual(o, tt.want) {
				t.Errorf("%s: the owner is %+v, want %+v", name, o, tt.want)
			}
		}
		if other := got.Refunds[slices.IndexFunc(got.Refunds, func(r fold.Refund) bool { return r.ID == "re_2" })].Ref; !reflect.DeepEqual(other, of(customers, "re_2", "pi_2")) {
			t.Errorf("%s: a refund of another payment is %+v's now", name, other)
		}
		if was := open.After.Refunds[0].Ref; !reflect.DeepEqual(was, customers) {
			t.Fatalf("%s: the change itself was changed: %+v", name, was)
		}
	}
}

func TestChange_AsksInvoice(t *testing.T) {
	t.Parallel()
	moved := fold.Change{After: fold.State{Payment: &fold.Payment{Ref: fold.Ref{ID: "pi_1"}, Charge: "ch_1"}, Refunds: []fold.Refund{{Ref: fold.Ref{ID: "re_1", Payment: "pi_1"}}}}}
	with := func(edit func(*fold.State)) fold.Change {
		c := moved
		p := *c.After.Payment
		c.After.Payment = &p
		edit(&c.After)
		return c
	}
	for name, tt := range map[string]struct {
		change fold.Change
		want   bool
	}{
		"a refund":                    {moved, true},
		"a dispute":                   {with(func(s *fold.State) { s.Refunds, s.Disputes = nil, []fold.Dispute{{Ref: fold.Ref{Payment: "pi_1"}}} }), true},
		"what the charge says in sum": {with(func(s *fold.State) { s.Refunds, s.Payment.Refunded = nil, 5 }), true},
		"nothing has moved":           {with(func(s *fold.State) { s.Refunds = nil }), false},
		"the invoice is known":        {with(func(s *fold.State) { s.Payment.Invoice = "in_1" }), false},
		"it was paid in a session":    {with(func(s *fold.State) { s.Checkout = &fold.Checkout{Ref: fold.Ref{ID: "cs_1"}} }), false},
		"a charge without an intent": {with(func(s *fold.State) {
			s.Payment.ID, s.Refunds = "ch_1", []fold.Refund{{Ref: fold.Ref{Payment: "ch_1"}, Charge: "ch_1"}}
		}), false},
		"nothing about a payment at all": {fold.Change{}, false},
	} {
		if got := tt.change.AsksInvoice(); got != tt.want {
			t.Errorf("%s: AsksInvoice() = %t", name, got)
		}
	}
}
