package stripe

import (
	"reflect"
	"testing"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

func checkoutEvent(t testing.TB, version, eventType string) document {
	t.Helper()
	o := example(t, version, "checkout.session")
	set(o, document{
		"id": "cs_1", "customer": "cus_1", "client_reference_id": "acme", "mode": "subscription", "status": "complete", "payment_status": "paid",
		"subscription": "sub_1", "invoice": "in_1", "payment_intent": nil, "amount_total": 4900, "currency": "usd",
		"total_details": document{"amount_discount": 0, "amount_shipping": 0, "amount_tax": 782},
	})
	return eventOf(version, eventType, o)
}

func wantCheckout() *fact.Checkout {
	return &fact.Checkout{
		Mode: "subscription", Status: "complete", PaymentStatus: "paid", Subscription: "sub_1", Invoice: "in_1", Account: "acme",
		Amount: 4900, Currency: "usd", Tax: 782,
	}
}

func TestRead_Checkout_EveryVersion_SameFact(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for _, tt := range []struct {
			eventType, status, paid string
			rank                    fact.Rank
		}{
			{"checkout.session.completed", "complete", "paid", fact.RankEnd},
			{"checkout.session.completed", "complete", "no_payment_required", fact.RankEnd},
			{"checkout.session.completed", "complete", "unpaid", fact.RankChange},
			{"checkout.session.async_payment_succeeded", "complete", "paid", fact.RankEnd},
			{"checkout.session.async_payment_failed", "complete", "unpaid", fact.RankEnd},
			{"checkout.session.expired", "expired", "unpaid", fact.RankEnd},
		} {
			event, want := checkoutEvent(t, version, tt.eventType), wantCheckout()
			set(objectOf(event), document{"status": tt.status, "payment_status": tt.paid})
			want.Status, want.PaymentStatus = tt.status, tt.paid
			same(t, read(t, event), about(fact.CheckoutSeen, "cs_1", "cus_1", tt.eventType, tt.rank, fact.Data{Checkout: want}))
		}
	})
}

func TestRead_Checkout_Fields(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change document
		want   func(*fact.Checkout)
	}{
		"account by metadata": {document{"client_reference_id": nil, "metadata": document{"account": "umbrella"}}, func(c *fact.Checkout) { c.Account = "umbrella" }},
		"reference first":     {document{"metadata": document{"account": "umbrella"}}, func(*fact.Checkout) {}},
		"spaces around it":    {document{"client_reference_id": " acme\n"}, func(c *fact.Checkout) { c.Account = "acme" }},
		"no account":          {document{"client_reference_id": nil}, func(c *fact.Checkout) { c.Account = "" }},
		"payment": {
			document{"mode": "payment", "subscription": nil, "invoice": nil, "payment_intent": document{"id": "pi_1"}},
			func(c *fact.Checkout) {
				c.Mode, c.Subscription, c.Invoice, c.PaymentIntent = "payment", "", "", "pi_1"
			},
		},
		"what was bought, named by the metadata": {
			document{"metadata": document{"price": "price_week"}},
			func(c *fact.Checkout) {
				c.Price = "price_week"
			},
		},
		"what was bought, as a fetched session carries it": {
			document{"metadata": document{"price": "price_starter"}, "line_items": document{"data": []any{
				document{"price": document{"id": "price_week", "product": "prod_week"}, "quantity": 2, "amount_total": 4900},
			}}},
			func(c *fact.Checkout) {
				c.Price, c.Lines = "price_starter", []fact.Line{{Price: "price_week", Product: "prod_week", Quantity: 2, Amount: 4900}}
			},
		},
		"setup": {
			document{"mode": "setup", "subscription": nil, "invoice": nil, "currency": nil, "amount_total": nil, "total_details": nil, "payment_status": "no_payment_required"},
			func(c *fact.Checkout) {
				*c = fact.Checkout{Mode: "setup", Status: "complete", PaymentStatus: "no_payment_required", Account: "acme"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachVersion(t, func(t *testing.T, version string) {
				event, want := checkoutEvent(t, version, "checkout.session.completed"), wantCheckout()
				set(objectOf(event), tt.change)
				tt.want(want)
				if got := read(t, event).Checkout; !reflect.DeepEqual(got, want) {
					t.Errorf("checkout\n got %s\nwant %s", encode(t, got), encode(t, want))
				}
			})
		})
	}
}

func customerEvent(t testing.TB, version, eventType string) document {
	t.Helper()
	o := example(t, version, "customer")
	set(o, document{"id": "cus_1", "metadata": document{"account": "acme"}})
	return eventOf(version, eventType, o)
}

func TestRead_Customer_Linked(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for eventType, rank := range map[string]fact.Rank{"customer.created": fact.RankCreated, "customer.updated": fact.RankChange} {
			event := customerEvent(t, version, eventType)
			same(t, read(t, event), about(fact.Linked, "cus_1", "cus_1", eventType, rank, fact.Data{Link: &fact.Link{Account: "acme"}}))
			objectOf(event)["metadata"] = document{}
			if facts, err := Read(encode(t, event), subjectOf(event)); len(facts) != 0 || err != nil {
				t.Errorf("without an account: %v, %v", facts, err)
			}
		}
	})
}
