package stripe

import (
	"reflect"
	"testing"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

func wantSubscription() *fact.Subscription {
	return &fact.Subscription{
		Status: "active", Start: at(periodStart), CollectionMethod: "charge_automatically", Account: "acme",
		Items: []fact.Item{{ID: "si_1", Price: "price_pro", Product: "prod_pro", Quantity: 2, PeriodStart: at(periodStart), PeriodEnd: at(periodEnd)}},
	}
}

func TestRead_Subscription_EveryVersion_SameFact(t *testing.T) {
	t.Parallel()
	for eventType, rank := range map[string]fact.Rank{
		"customer.subscription.created":                fact.RankCreated,
		"customer.subscription.updated":                fact.RankChange,
		"customer.subscription.paused":                 fact.RankChange,
		"customer.subscription.resumed":                fact.RankChange,
		"customer.subscription.deleted":                fact.RankEnd,
		"customer.subscription.trial_will_end":         fact.RankNotice,
		"customer.subscription.pending_update_applied": fact.RankChange,
		"customer.subscription.pending_update_expired": fact.RankNotice,
	} {
		t.Run(eventType, func(t *testing.T) {
			t.Parallel()
			eachVersion(t, func(t *testing.T, version string) {
				same(t, read(t, subscriptionEvent(t, version, eventType)),
					about(fact.SubscriptionSeen, "sub_1", "cus_1", eventType, rank, fact.Data{Subscription: wantSubscription()}))
			})
		})
	}
}

// The test applies each change to the event and to the expected fact.
func TestRead_Subscription_Fields(t *testing.T) {
	t.Parallel()
	field := func(name string, value any) func(document) { return func(e document) { objectOf(e)[name] = value } }
	for name, tt := range map[string]struct {
		change func(event document)
		want   func(*fact.Subscription)
	}{
		"trial": {field("trial_end", periodEnd), func(s *fact.Subscription) { s.TrialEnd = at(periodEnd) }},
		"a trial that ends without a card": {
			field("trial_settings", document{"end_behavior": document{"missing_payment_method": "pause"}}),
			func(s *fact.Subscription) { s.MissingPayment = "pause" },
		},
		"a card": {field("default_payment_method", "pm_1"), func(s *fact.Subscription) { s.PaymentMethod = true }},
		"the customer's card": {
			field("customer", document{"id": "cus_1", "invoice_settings": document{"default_payment_method": "pm_1"}}),
			func(s *fact.Subscription) { s.PaymentMethod = true },
		},
		"ends at the period's end": {
			field("cancel_at_period_end", true), func(s *fact.Subscription) { s.CancelAtPeriodEnd = true },
		},
		"ends at": {field("cancel_at", periodEnd), func(s *fact.Subscription) { s.CancelAt = at(periodEnd) }},
		"canceled": {
			func(e document) {
				set(objectOf(e), document{"status": "canceled", "canceled_at": periodStart, "ended_at": periodEnd})
			},
			func(s *fact.Subscription) {
				s.Status, s.CanceledAt, s.EndedAt = "canceled", at(periodStart), at(periodEnd)
			},
		},
		"collection paused": {
			field("pause_collection", document{"behavior": "void", "resumes_at": nil}), func(s *fact.Subscription) { s.CollectionPaused = true },
		},
		"by invoice":       {field("collection_method", "send_invoice"), func(s *fact.Subscription) { s.CollectionMethod = "send_invoice" }},
		"no account":       {field("metadata", document{}), func(s *fact.Subscription) { s.Account = "" }},
		"expanded":         {field("customer", document{"id": "cus_1", "object": "customer", "email": "x@example.com"}), func(*fact.Subscription) {}},
		"account for a v2": {func(e document) { set(objectOf(e), document{"customer": nil, "customer_account": "cus_1"}) }, func(*fact.Subscription) {}},
		"metered": {
			func(e document) { itemOf(e)["price"].(document)["recurring"].(document)["usage_type"] = "metered" },
			func(s *fact.Subscription) { s.Items[0].Metered = true },
		},
		"no quantity": {func(e document) { delete(itemOf(e), "quantity") }, func(s *fact.Subscription) { s.Items[0].Quantity = 0 }},
		"by lookup key": {func(e document) {
			set(itemOf(e)["price"].(document), document{"id": "price_x", "lookup_key": "pro_monthly"})
		}, func(s *fact.Subscription) { s.Items[0].Price, s.Items[0].LookupKey = "price_x", "pro_monthly" }},
		"by product": {func(e document) {
			set(itemOf(e)["price"].(document), document{"id": "price_x", "product": "prod_enterprise"})
		}, func(s *fact.Subscription) { s.Items[0].Price, s.Items[0].Product = "price_x", "prod_enterprise" }},
		"plan of before": {func(e document) { i := itemOf(e); i["plan"] = i["price"]; delete(i, "price") }, func(*fact.Subscription) {}},
		"plan by metadata": {
			func(e document) { objectOf(e)["metadata"].(document)["plan"] = "gold" }, func(s *fact.Subscription) { s.Plan = "gold" },
		},
		"no items": {func(e document) { objectOf(e)["items"].(document)["data"] = []any{} }, func(s *fact.Subscription) { s.Items = nil }},
		"items in any order": {
			func(e document) {
				objectOf(e)["items"].(document)["data"] = []any{
					document{"id": "si_3", "price": document{"id": "price_seat"}, "quantity": 7},
					document{"id": "si_1", "price": document{"id": "price_storage"}, "quantity": 1},
					document{"id": "si_2", "price": document{"id": "price_base"}, "quantity": 1},
				}
				delete(objectOf(e), "current_period_start")
				delete(objectOf(e), "current_period_end")
			},
			func(s *fact.Subscription) {
				s.Items = []fact.Item{
					{ID: "si_1", Price: "price_storage", Quantity: 1},
					{ID: "si_2", Price: "price_base", Quantity: 1},
					{ID: "si_3", Price: "price_seat", Quantity: 7},
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachVersion(t, func(t *testing.T, version string) {
				event, want := subscriptionEvent(t, version, "customer.subscription.updated"), wantSubscription()
				tt.change(event)
				tt.want(want)
				got := read(t, event)
				if !reflect.DeepEqual(got.Subscription, want) || got.Customer != "cus_1" {
					t.Errorf("customer %s\n got %s\nwant %s", got.Customer, encode(t, got.Subscription), encode(t, want))
				}
			})
		})
	}
}

// If an object has ended, its fact sorts as the end within its second, whatever the event type is: incomplete_expired
// is sent as updated.
func TestRead_Subscription_Ended_RankOfAnEnd(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"canceled", "incomplete_expired"} {
		event := subscriptionEvent(t, dahlia, "customer.subscription.updated")
		objectOf(event)["status"] = status
		if got := read(t, event); got.Rank != fact.RankEnd {
			t.Errorf("%s: rank %d", status, got.Rank)
		}
	}
}

// previous_attributes contains the changed fields of nested objects, but complete arrays.
func TestRead_Subscription_Before(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		previous any
		want     func(*fact.Subscription)
	}{
		"status":              {document{"status": "past_due"}, func(s *fact.Subscription) { s.Status = "past_due" }},
		"a time that was not": {document{"trial_end": nil, "cancel_at": periodEnd}, func(s *fact.Subscription) { s.CancelAt = at(periodEnd) }},
		"one field of metadata": {
			document{"metadata": document{"plan": "gold", "account": "umbrella"}}, func(s *fact.Subscription) { s.Account, s.Plan = "umbrella", "gold" },
		},
		"another field of metadata": {document{"metadata": document{"note": "old"}}, func(*fact.Subscription) {}},
		"metadata that was not":     {document{"metadata": document{"account": nil}}, func(s *fact.Subscription) { s.Account = "" }},
		"collection was paused": {
			document{"pause_collection": document{"behavior": "void"}}, func(s *fact.Subscription) { s.CollectionPaused = true },
		},
		"items, whole": {
			document{"items": document{"data": []any{
				document{
					"id": "si_1", "price": document{"id": "price_starter"}, "quantity": 1,
					"current_period_start": periodStart, "current_period_end": periodEnd,
				},
			}}},
			func(s *fact.Subscription) {
				s.Items = []fact.Item{{ID: "si_1", Price: "price_starter", Quantity: 1, PeriodStart: at(periodStart), PeriodEnd: at(periodEnd)}}
			},
		},
		"what is not kept": {document{"latest_invoice": "in_0"}, func(*fact.Subscription) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachVersion(t, func(t *testing.T, version string) {
				event, want := subscriptionEvent(t, version, "customer.subscription.updated"), wantSubscription()
				event["data"].(document)["previous_attributes"] = tt.previous
				tt.want(want)
				now := wantSubscription()
				now.Before = want
				same(t, read(t, event), about(fact.SubscriptionSeen, "sub_1", "cus_1", "customer.subscription.updated", fact.RankChange, fact.Data{Subscription: now}))
			})
		})
	}
}

func TestRead_Subscription_BeforeUnknown_LeftOut(t *testing.T) {
	t.Parallel()
	for name, previous := range map[string]any{
		"null": nil, "nothing": document{}, "no object": "status", "unreadable": document{"status": 7},
		"what this very change mends": document{"metadata": document{"account": "a\x00b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event := subscriptionEvent(t, dahlia, "customer.subscription.updated")
			event["data"].(document)["previous_attributes"] = previous
			if got := read(t, event); !reflect.DeepEqual(got.Subscription, wantSubscription()) {
				t.Errorf("got %s", encode(t, got.Subscription))
			}
		})
	}
}

// A quantity of 0 is kept; a metered item and some invoice lines have no quantity.
func TestRead_QuantityZero_IsNotAbsent(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for quantity, want := range map[any]bool{0: true, nil: false, 2: false} {
			event := subscriptionEvent(t, version, "customer.subscription.updated")
			itemOf(event)["quantity"] = quantity
			if got := read(t, event).Subscription.Items[0]; got.None != want {
				t.Errorf("an item of quantity %v: %+v", quantity, got)
			}
			event = invoiceEvent(t, version, "invoice.paid")
			lineOf(event)["quantity"] = quantity
			if got := read(t, event).Invoice.Lines[0]; got.None != want {
				t.Errorf("a line of quantity %v: %+v", quantity, got)
			}
		}
	})
}
