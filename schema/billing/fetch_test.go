package billing

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestBehind(t *testing.T) {
	t.Parallel()
	second := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sub := func(seconds int, status, before string) Fact {
		s := &SubscriptionFact{Status: status}
		if before != "" {
			s.Before = &SubscriptionFact{Status: before}
		}
		return Fact{
			Subject: Subject{EventID: status + before, OccurredAt: second.Add(time.Duration(seconds) * time.Second)},
			Kind:    SubscriptionSeen, Rank: RankChange, Data: Data{Subscription: s},
		}
	}
	invoice := func(seconds int, status string) Fact {
		f := sub(seconds, status, "")
		f.Kind, f.Data = InvoiceSeen, Data{Invoice: &InvoiceFact{Status: status}}
		return f
	}
	known := []Fact{sub(-9, "trialing", ""), sub(0, "active", "incomplete"), sub(0, "past_due", "incomplete")}
	for name, tt := range map[string]struct {
		fetched Fact
		known   []Fact
		behind  bool
	}{
		"one of the second's":         {sub(3, "past_due", ""), known, false},
		"what came after":             {sub(3, "canceled", ""), known, false},
		"from before the second":      {sub(3, "trialing", ""), known, true},
		"come back to it since":       {sub(61, "trialing", ""), known, false},
		"what the second has left":    {sub(3, "incomplete", ""), known, true},
		"answered within the second":  {sub(0, "past_due", ""), known, true},
		"gone there and back":         {sub(3, "active", ""), append([]Fact{sub(-9, "active", "")}, known...), false},
		"nothing is known":            {sub(3, "active", ""), nil, false},
		"an invoice as it is":         {invoice(3, "paid"), []Fact{invoice(0, "paid")}, false},
		"an invoice before it's paid": {invoice(3, "open"), []Fact{invoice(0, "paid")}, true},
		"a payment":                   {Fact{Kind: PaymentSeen, Data: Data{Payment: &PaymentFact{}}}, known, false},
	} {
		if got := Behind(tt.fetched, tt.known); got != tt.behind {
			t.Errorf("%s: Behind() = %t", name, got)
		}
	}
}

// Two events of one refund ask for its invoice. The answer is new to the first; the second, whose own facts had left the
// refund to the customer, books it for the same account all the same.
func TestChange_Decided(t *testing.T) {
	t.Parallel()
	customers, invoices := Ref{ID: "re_1", Payment: "pi_1", Account: "cus_1", Customer: "cus_1", Announced: []string{"refund.succeeded"}}, Ref{ID: "re_1", Payment: "pi_1", Account: "acme", Invoice: "in_1", Customer: "cus_1", Announced: []string{"refund.succeeded"}}
	of := func(r Ref, id, payment string) Ref { r.ID, r.Payment = id, payment; return r }
	open := Change{After: State{
		Payment:  &Payment{Ref: Ref{ID: "pi_1", Account: "cus_1", Customer: "cus_1"}},
		Refunds:  []Refund{{Ref: customers}, {Ref: of(customers, "re_2", "pi_2")}},
		Disputes: []Dispute{{Ref: of(customers, "dp_1", "pi_1")}}, Warnings: []Warning{{Ref: of(customers, "issfr_1", "pi_1")}},
	}}
	paid := &Payment{Ref: Ref{ID: "pi_1", Account: "acme", Invoice: "in_1", Customer: "cus_1"}}
	for name, tt := range map[string]struct {
		by   State
		want Ref
	}{
		"the answer is new":           {State{Payment: paid, Refunds: []Refund{{Ref: invoices}}}, invoices},
		"another event had it before": {State{Payment: paid}, invoices},
		"the invoice is not known":    {State{Payment: &Payment{Ref: Ref{ID: "pi_1", Invoice: "in_1", Customer: "cus_1"}}}, Ref{ID: "re_1", Payment: "pi_1", Invoice: "in_1", Customer: "cus_1", Announced: customers.Announced}},
		"it is of no payment":         {State{}, customers},
	} {
		got := open.Decided(Change{After: tt.by}).After
		for _, o := range []Ref{got.Refunds[slices.IndexFunc(got.Refunds, func(r Refund) bool { return r.ID == "re_1" })].Ref, of(got.Disputes[0].Ref, "re_1", "pi_1"), of(got.Warnings[0].Ref, "re_1", "pi_1")} {
			if !reflect.DeepEqual(o, tt.want) {
				t.Errorf("%s: the owner is %+v, want %+v", name, o, tt.want)
			}
		}
		if other := got.Refunds[slices.IndexFunc(got.Refunds, func(r Refund) bool { return r.ID == "re_2" })].Ref; !reflect.DeepEqual(other, of(customers, "re_2", "pi_2")) {
			t.Errorf("%s: a refund of another payment is %+v's now", name, other)
		}
		if was := open.After.Refunds[0].Ref; !reflect.DeepEqual(was, customers) {
			t.Fatalf("%s: the change itself was changed: %+v", name, was)
		}
	}
}

func TestChange_AsksInvoice(t *testing.T) {
	t.Parallel()
	moved := Change{After: State{Payment: &Payment{Ref: Ref{ID: "pi_1"}, Charge: "ch_1"}, Refunds: []Refund{{Ref: Ref{ID: "re_1", Payment: "pi_1"}}}}}
	with := func(edit func(*State)) Change {
		c := moved
		p := *c.After.Payment
		c.After.Payment = &p
		edit(&c.After)
		return c
	}
	for name, tt := range map[string]struct {
		change Change
		want   bool
	}{
		"a refund":                    {moved, true},
		"a dispute":                   {with(func(s *State) { s.Refunds, s.Disputes = nil, []Dispute{{Ref: Ref{Payment: "pi_1"}}} }), true},
		"what the charge says in sum": {with(func(s *State) { s.Refunds, s.Payment.Refunded = nil, 5 }), true},
		"nothing has moved":           {with(func(s *State) { s.Refunds = nil }), false},
		"the invoice is known":        {with(func(s *State) { s.Payment.Invoice = "in_1" }), false},
		"it was paid in a session":    {with(func(s *State) { s.Checkout = &Checkout{Ref: Ref{ID: "cs_1"}} }), false},
		"a charge without an intent": {with(func(s *State) {
			s.Payment.ID, s.Refunds = "ch_1", []Refund{{Ref: Ref{Payment: "ch_1"}, Charge: "ch_1"}}
		}), false},
		"nothing about a payment at all": {Change{}, false},
	} {
		if got := tt.change.AsksInvoice(); got != tt.want {
			t.Errorf("%s: AsksInvoice() = %t", name, got)
		}
	}
}
