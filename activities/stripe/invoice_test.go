package stripe

import (
	"reflect"
	"slices"
	"testing"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

func wantInvoice() *fact.Invoice {
	return &fact.Invoice{
		Status: "paid", Due: 4900, Paid: 4900, Currency: "usd", Reason: "subscription_cycle", Attempts: 1, Number: "A-1",
		Subscription: "sub_1", Account: "acme",
		Lines: []fact.Line{{
			Subscription: "sub_1", Price: "price_pro", Product: "prod_of_price_pro", Quantity: 2, Amount: 4900, PeriodStart: at(periodStart), PeriodEnd: at(periodEnd),
		}},
	}
}

func TestRead_Invoice_EveryVersion_SameFact(t *testing.T) {
	t.Parallel()
	for eventType, tt := range map[string]struct {
		status string
		rank   fact.Rank
	}{
		"invoice.created":                 {"draft", fact.RankCreated},
		"invoice.finalized":               {"open", fact.RankChange},
		"invoice.finalization_failed":     {"draft", fact.RankChange},
		"invoice.payment_failed":          {"open", fact.RankChange},
		"invoice.payment_action_required": {"open", fact.RankChange},
		"invoice.overdue":                 {"open", fact.RankNotice},
		"invoice.will_be_due":             {"open", fact.RankNotice},
		"invoice.marked_uncollectible":    {"uncollectible", fact.RankChange},
		"invoice.paid":                    {"paid", fact.RankEnd},
		"invoice.payment_succeeded":       {"paid", fact.RankEnd},
		"invoice.updated":                 {"paid", fact.RankEnd},
		"invoice.voided":                  {"void", fact.RankEnd},
		"invoice.deleted":                 {"deleted", fact.RankEnd},
	} {
		t.Run(eventType, func(t *testing.T) {
			t.Parallel()
			eachVersion(t, func(t *testing.T, version string) {
				event, want := invoiceEvent(t, version, eventType), wantInvoice()
				if objectOf(event)["status"] = tt.status; tt.status == "deleted" {
					objectOf(event)["status"] = "draft"
				}
				want.Status = tt.status
				if eventType == "invoice.finalization_failed" {
					objectOf(event)["last_finalization_error"] = document{"type": "invalid_request_error", "code": "customer_tax_location_invalid", "message": "Jane's address"}
					want.Stuck = "customer_tax_location_invalid"
				}
				want.Failed = slices.Contains([]string{"invoice.payment_failed", "invoice.payment_action_required", "invoice.overdue"}, eventType)
				same(t, read(t, event), about(fact.InvoiceSeen, "in_1", "cus_1", eventType, tt.rank, fact.Data{Invoice: want}))
			})
		})
	}
}

func TestRead_Invoice_Fields(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(event document, version string)
		want   func(*fact.Invoice)
	}{
		"open": {
			func(e document, _ string) {
				set(objectOf(e), document{
					"status": "open", "amount_paid": 900, "amount_remaining": 4000, "attempt_count": 3, "next_payment_attempt": periodEnd, "due_date": periodStart, "number": nil,
				})
			},
			func(i *fact.Invoice) {
				i.Status, i.Paid, i.Remaining, i.Attempts, i.NextAttempt, i.DueAt, i.Number = "open", 900, 4000, 3, at(periodEnd), at(periodStart), ""
			},
		},
		"tax": {
			func(e document, version string) {
				if version == before {
					objectOf(e)["tax"] = 782
					return
				}
				delete(objectOf(e), "tax")
				objectOf(e)["total_taxes"] = []any{document{"amount": 700, "type": "tax_rate_details"}, document{"amount": 82}}
			},
			func(i *fact.Invoice) { i.Tax = 782 },
		},
		"tax, of which the balance pays a part": {
			func(e document, version string) {
				set(objectOf(e), document{"total": 5831, "starting_balance": -5000, "amount_due": 831, "amount_paid": 831})
				if version == before {
					objectOf(e)["tax"] = 931
					return
				}
				objectOf(e)["total_taxes"] = []any{document{"amount": 931}}
			},
			func(i *fact.Invoice) { i.Due, i.Paid, i.Tax = 831, 831, 132 },
		},
		"expanded references": {
			func(e document, version string) {
				o, subscription := objectOf(e), document{"id": "sub_1", "object": "subscription"}
				o["customer"] = document{"id": "cus_1", "object": "customer", "email": "other@example.com"}
				if version == before {
					o["subscription"] = subscription
					return
				}
				o["parent"].(document)["subscription_details"].(document)["subscription"] = subscription
				details := lineOf(e)["pricing"].(document)["price_details"].(document)
				details["price"], details["product"] = document{"id": "price_pro", "product": "prod_of_price_pro"}, document{"id": "prod_pro"}
			},
			func(*fact.Invoice) {},
		},
		"by product": {
			func(e document, version string) {
				if version == before {
					set(lineOf(e)["price"].(document), document{"id": "price_x", "product": "prod_enterprise"})
					return
				}
				lineOf(e)["pricing"].(document)["price_details"] = document{"price": "price_x", "product": "prod_enterprise"}
			},
			func(i *fact.Invoice) { i.Lines[0].Price, i.Lines[0].Product = "price_x", "prod_enterprise" },
		},
		"subscription on the line only": {
			func(e document, version string) {
				if version == before {
					objectOf(e)["subscription"] = nil
					return
				}
				delete(objectOf(e)["parent"].(document)["subscription_details"].(document), "subscription")
			},
			func(*fact.Invoice) {},
		},
		"subscription not on the line": {
			func(e document, version string) {
				if version == before {
					lineOf(e)["subscription"] = nil
					return
				}
				lineOf(e)["parent"].(document)["subscription_item_details"].(document)["subscription"] = nil
			},
			func(*fact.Invoice) {},
		},
		"account of the invoice itself": {
			func(e document, version string) {
				objectOf(e)["metadata"] = document{"account": "umbrella"}
				if version == before {
					objectOf(e)["subscription_details"] = document{"metadata": nil}
					return
				}
				objectOf(e)["parent"].(document)["subscription_details"].(document)["metadata"] = document{}
			},
			func(i *fact.Invoice) { i.Account = "umbrella" },
		},
		"first lines only": {func(e document, _ string) { objectOf(e)["lines"].(document)["has_more"] = true }, func(i *fact.Invoice) { i.Partial = true }},
		"has_more as text": {func(e document, _ string) { objectOf(e)["lines"].(document)["has_more"] = "true" }, func(*fact.Invoice) {}},
		"no line":          {func(e document, _ string) { objectOf(e)["lines"].(document)["data"] = []any{} }, func(i *fact.Invoice) { i.Lines = nil }},
		"a line of nothing": {
			func(e document, _ string) { objectOf(e)["lines"].(document)["data"] = []any{document{"amount": 5}} },
			func(i *fact.Invoice) { i.Lines = []fact.Line{{Amount: 5}} },
		},
		"more paid than due": {func(e document, _ string) { objectOf(e)["amount_remaining"] = -5 }, func(i *fact.Invoice) { i.Remaining = -5 }},
		"unknown fields": {
			func(e document, _ string) {
				objectOf(e)["ID"], objectOf(e)["brand_new"] = "in_other", document{"id": 1}
			}, func(*fact.Invoice) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachVersion(t, func(t *testing.T, version string) {
				event, want := invoiceEvent(t, version, "invoice.updated"), wantInvoice()
				tt.change(event, version)
				tt.want(want)
				if got := read(t, event).Invoice; !reflect.DeepEqual(got, want) {
					t.Errorf("invoice\n got %s\nwant %s", encode(t, got), encode(t, want))
				}
			})
		})
	}
}

// Since API version basil, an invoice does not show whether it was paid through Stripe.
func TestRead_Invoice_How(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		version string
		field   document
		want    string
	}{
		{before, document{"paid_out_of_band": true}, "out_of_band"}, {before, document{"paid_out_of_band": false}, "charge"},
		{basil, nil, ""}, {dahlia, nil, ""}, {dahlia, document{"amount_paid_off_stripe": 4900}, "out_of_band"},
	} {
		event := invoiceEvent(t, tt.version, "invoice.paid")
		set(objectOf(event), tt.field)
		if got := read(t, event).Invoice.How; got != tt.want {
			t.Errorf("%s with %v was paid by %q, want %q", tt.version, tt.field, got, tt.want)
		}
	}
}

// Before basil, an invoice contains its payment, so pawl finds the invoice of a refund or a dispute without an event
// of the charge.
func TestRead_Invoice_TiesItsPayment(t *testing.T) {
	t.Parallel()
	event := invoiceEvent(t, before, "invoice.paid")
	for name, tt := range map[string]struct {
		names  document
		object string
		charge string
	}{
		"both":             {document{"charge": "ch_1", "payment_intent": "pi_1"}, "pi_1", "ch_1"},
		"the charge alone": {document{"charge": document{"id": "ch_1"}, "payment_intent": nil}, "ch_1", "ch_1"},
		"neither":          {document{"charge": nil, "payment_intent": nil}, "", ""},
		"nothing is paid":  {document{"charge": "ch_1", "payment_intent": "pi_1", "amount_paid": 0}, "", ""},
	} {
		set(objectOf(event), document{"amount_paid": 4900})
		set(objectOf(event), tt.names)
		facts, err := Read(encode(t, event), subjectOf(event))
		if want := 1; err != nil || tt.object == "" && len(facts) != want || tt.object != "" && len(facts) != want+1 {
			t.Fatalf("%s: %d facts, %v", name, len(facts), err)
		}
		if tt.object != "" {
			same(t, facts[1], about(fact.PaymentSeen, tt.object, "cus_1", "invoice.paid", fact.RankEnd, fact.Data{Payment: &fact.Payment{
				Invoice: "in_1", Charge: tt.charge, Currency: "usd"}}))
		}
	}
}

// In the customer's balance, a credit is negative: an amount that an invoice uses changes the balance towards 0.
func TestRead_Invoice_Balance(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		event := invoiceEvent(t, version, "invoice.paid")
		for _, tt := range []struct {
			starting, ending any
			want             int64
		}{{-3000, -1000, 2000}, {500, 0, -500}, {-3000, nil, 0}, {0, 0, 0}} {
			set(objectOf(event), document{"starting_balance": tt.starting, "ending_balance": tt.ending})
			if got := read(t, event).Invoice.Balance; got != tt.want {
				t.Errorf("from %v to %v: the balance has paid %d, want %d", tt.starting, tt.ending, got, tt.want)
			}
		}
	})
}

func TestRead_Invoice_NoSubscription_SaidSo(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for name, parent := range map[string]any{
			"none":  nil,
			"quote": document{"type": "quote_details", "quote_details": document{"quote": "qt_1"}, "subscription_details": nil},
		} {
			event := invoiceEvent(t, version, "invoice.paid")
			setLines(event, version, []sold{{kind: standalone, price: "price_week", amount: 900, start: periodStart, end: periodStart, quantity: 1}})
			set(objectOf(event), document{"subscription": nil, "parent": parent, "subscription_details": document{"metadata": nil}})
			got := read(t, event).Invoice
			if got.Subscription != "" || got.Account != "" {
				t.Errorf("%s: subscription %q, account %q", name, got.Subscription, got.Account)
			}
			want := []fact.Line{{
				Price: "price_week", Product: "prod_of_price_week", Quantity: 1, Amount: 900, PeriodStart: at(periodStart), PeriodEnd: at(periodStart),
			}}
			if !reflect.DeepEqual(got.Lines, want) {
				t.Errorf("%s: lines\n got %s\nwant %s", name, encode(t, got.Lines), encode(t, want))
			}
		}
	})
}

// A manual invoice with lines of several subscriptions has no subscription itself; its lines have subscriptions.
func TestRead_Invoice_LinesOfTwoSubscriptions(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		event := invoiceEvent(t, version, "invoice.paid")
		own, other := sold{kind: proration, price: "price_pro", amount: 300}, sold{kind: attached, price: "price_pro", amount: 100}
		own.start, own.end, other.start, other.end = periodStart, periodEnd, periodStart, periodEnd
		second := other.document(version)
		if version == before {
			second["subscription"] = "sub_2"
		} else {
			second["parent"].(document)["invoice_item_details"].(document)["subscription"] = "sub_2"
		}
		objectOf(event)["lines"].(document)["data"] = []any{own.document(version), second}
		if got := read(t, event).Invoice; got.Subscription != "sub_1" {
			t.Errorf("subscription %q; the invoice names it", got.Subscription)
		}
		set(objectOf(event), document{"subscription": nil, "parent": nil})
		got := read(t, event).Invoice
		if got.Subscription != "" || got.Lines[0].Subscription != "sub_1" || got.Lines[1].Subscription != "sub_2" {
			t.Errorf("got %s", encode(t, got))
		}
	})
}

func TestRead_Invoice_Lines_Kinds(t *testing.T) {
	t.Parallel()
	line := func(change func(*fact.Line)) fact.Line {
		l := fact.Line{Subscription: "sub_1", Price: "price_pro", Product: "prod_of_price_pro", Quantity: 1, Amount: 300, PeriodStart: at(periodStart), PeriodEnd: at(periodEnd)}
		change(&l)
		return l
	}
	one := sold{price: "price_pro", amount: 300, start: periodStart, end: periodEnd, quantity: 1}
	kind := func(kind string, amount int, credited bool) sold {
		s := one
		s.kind, s.amount, s.credited = kind, amount, credited
		return s
	}
	for name, tt := range map[string]struct {
		sold sold
		want fact.Line
	}{
		"recurring":                {kind(recurring, 300, false), line(func(*fact.Line) {})},
		"proration":                {kind(proration, 300, false), line(func(l *fact.Line) { l.Proration = true })},
		"credit":                   {kind(proration, -300, false), line(func(l *fact.Line) { l.Proration, l.Credit, l.Amount = true, true, -300 })},
		"credit of what was free":  {kind(proration, 0, true), line(func(l *fact.Line) { l.Proration, l.Credit, l.Amount = true, true, 0 })},
		"item of the subscription": {kind(attached, 300, false), line(func(*fact.Line) {})},
		"item of none":             {kind(standalone, 300, false), line(func(l *fact.Line) { l.Subscription = "" })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachVersion(t, func(t *testing.T, version string) {
				event := invoiceEvent(t, version, "invoice.paid")
				setLines(event, version, []sold{tt.sold})
				if got := read(t, event).Invoice.Lines; !reflect.DeepEqual(got, []fact.Line{tt.want}) {
					t.Errorf("lines\n got %s\nwant %s", encode(t, got), encode(t, tt.want))
				}
			})
		})
	}
}

// subscriptionDetails returns the part of an invoice that contains the subscription's metadata.
func subscriptionDetails(event document, version string) document {
	if version == before {
		return objectOf(event)["subscription_details"].(document)
	}
	return objectOf(event)["parent"].(document)["subscription_details"].(document)
}

func TestRead_InvoiceUpcoming_NoFact(t *testing.T) {
	t.Parallel()
	event := invoiceEvent(t, before, "invoice.upcoming")
	delete(objectOf(event), "id")
	if facts, err := Read(encode(t, event), subjectOf(event)); len(facts) != 0 || err != nil {
		t.Errorf("%v, %v", facts, err)
	}
}
