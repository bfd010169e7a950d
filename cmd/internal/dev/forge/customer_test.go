package forge_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	ingress "github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

var (
	starter = forge.Plan{Name: "starter", Price: "price_starter", Amount: 3000, Days: 30}
	pro     = forge.Plan{Name: "pro", Price: "price_pro", Amount: 6000, Days: 30}
)

// happened returns the facts in a customer's events by event type, in both shapes of Stripe's API.
func happened(t *testing.T, happens func(c *forge.Customer, on func(day int))) map[string][]map[string]fact.Fact {
	t.Helper()
	out := map[string][]map[string]fact.Fact{}
	for _, version := range []string{forge.Before, forge.Basil} {
		c := forge.NewCustomer(forge.Params{Account: "acme", APIVersion: version}, 24*time.Hour)
		var days []map[string]fact.Fact
		happens(c, func(day int) {
			if day > 0 {
				days = append(days, facts(t, c))
			}
			c.At(at.AddDate(0, 0, day))
		})
		out[version] = append(days, facts(t, c))
	}
	return out
}

func facts(t *testing.T, c *forge.Customer) map[string]fact.Fact {
	t.Helper()
	events, err := c.Events()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]fact.Fact{}
	for _, e := range events {
		read, err := stripe.Read(e.Body, fact.Subject{Provider: "stripe", EventType: e.Type})
		if err != nil {
			t.Fatalf("%s: %v\n%s", e.Type, err, e.Body)
		}
		if len(read) > 0 {
			found[e.Type] = read[0]
		}
	}
	return found
}

// Half of the month is left: the upgrade costs half of the price difference, and the credit of a downgrade reduces
// the renewal by the same amount.
func TestCustomer_Change_Prorates(t *testing.T) {
	t.Parallel()
	for version, days := range happened(t, func(c *forge.Customer, on func(int)) {
		on(0)
		c.Subscribe(starter, 2, 0)
		on(15)
		c.Change(pro, 2)
		on(20)
		c.Change(starter, 2)
		on(30)
		c.Renew()
	}) {
		first, upgrade, downgrade, renewal := days[0], days[1], days[2], days[3]
		if got := first["invoice.paid"].Invoice; got.Paid != 6000 || got.Reason != "subscription_create" || got.Lines[0].Price != "price_starter" || got.Lines[0].Quantity != 2 {
			t.Errorf("%s: the first invoice is %+v", version, got)
		}
		got := upgrade["invoice.paid"].Invoice
		if got.Paid != 3000 || len(got.Lines) != 2 || got.Lines[0].Amount != -3000 || !got.Lines[0].Credit || !got.Lines[1].Proration || got.Lines[1].Price != "price_pro" {
			t.Errorf("%s: the upgrade's invoice is %+v", version, got)
		}
		changed := upgrade["customer.subscription.updated"].Subscription
		if changed.Items[0].Price != "price_pro" || changed.Before == nil || changed.Before.Items[0].Price != "price_starter" || !changed.Items[0].PeriodEnd.Equal(at.AddDate(0, 0, 30)) {
			t.Errorf("%s: the upgrade shows %+v", version, changed)
		}
		if _, billed := downgrade["invoice.paid"]; billed || downgrade["customer.subscription.updated"].Subscription.Items[0].Price != "price_starter" {
			t.Errorf("%s: the downgrade is invoiced at once, or does not show: %v", version, downgrade)
		}
		// The downgrade credits a third of 12000 and charges a third of 6000.
		if got := renewal["invoice.paid"].Invoice; got.Paid != 6000-4000+2000 || len(got.Lines) != 3 || got.Remaining != 0 {
			t.Errorf("%s: the renewal is %+v", version, got)
		}
		if got := renewal["customer.subscription.updated"].Subscription; !got.Items[0].PeriodEnd.Equal(at.AddDate(0, 0, 60)) {
			t.Errorf("%s: the renewal ends %s", version, got.Items[0].PeriodEnd)
		}
	}
}

func TestCustomer_Money_AddsUp(t *testing.T) {
	t.Parallel()
	for version, days := range happened(t, func(c *forge.Customer, on func(int)) {
		on(0)
		c.Subscribe(starter, 1, 0)
		on(1)
		c.Refund(1000)
		on(2)
		c.Refund(0)
		on(3)
		c.RefundFails()
		on(4)
		c.Dispute()
		on(5)
		c.LoseDispute()
	}) {
		intent := days[0]["charge.succeeded"].Object
		first, rest, failed := days[1]["refund.updated"], days[2]["refund.updated"], days[3]["refund.failed"]
		if version == forge.Before {
			_, told := days[1]["refund.created"]
			if failed = days[3]["charge.refund.updated"]; told || !failed.Refund.Returned || !days[1]["charge.refunded"].LacksRefunds() {
				t.Errorf("%s: refunds of charges have events of their own: %+v", version, days[1])
			}
			continue
		}
		if first.Refund.Amount != 1000 || rest.Refund.Amount != 2000 || first.Object == rest.Object || failed.Object != rest.Object || failed.Refund.Status != "failed" {
			t.Errorf("%s: refunds %+v, %+v, %+v", version, first, rest, failed)
		}
		if got := *days[2]["charge.refunded"].Payment.Refunded; got != 3000 {
			t.Errorf("%s: %d of the charge are refunded", version, got)
		}
		if first.Refund.PaymentIntent != intent {
			t.Errorf("%s: the refund is of %s, the payment is %s", version, first.Refund.PaymentIntent, intent)
		}
		if version == forge.Basil && days[0]["invoice_payment.paid"].Payment.Invoice != days[0]["invoice.paid"].Object {
			t.Errorf("nothing ties the payment to its invoice: %+v", days[0])
		}
		opened, lost := days[4]["charge.dispute.funds_withdrawn"], days[5]["charge.dispute.closed"]
		if len(days[4]["charge.dispute.created"].Dispute.Movements) != 0 || opened.Dispute.Movements[0].Amount != -3000 || lost.Dispute.Status != "lost" || lost.Object != opened.Object {
			t.Errorf("%s: the dispute is %+v, then %+v", version, opened.Dispute, lost.Dispute)
		}
	}
}

func TestCustomer_Trial_Dunning_End(t *testing.T) {
	t.Parallel()
	for version, days := range happened(t, func(c *forge.Customer, on func(int)) {
		on(0)
		c.Subscribe(starter, 1, 14)
		on(11)
		c.TrialEndsSoon()
		on(14)
		c.RenewInVain()
		on(17)
		c.RetryInVain()
		on(18)
		c.Pay()
		on(20)
		c.CancelAtPeriodEnd()
		on(44)
		c.End()
	}) {
		trial := days[0]["customer.subscription.created"].Subscription
		if trial.Status != "trialing" || !trial.TrialEnd.Equal(at.AddDate(0, 0, 14)) || days[0]["invoice.paid"].Invoice.Due != 0 {
			t.Errorf("%s: the trial is %+v, its invoice %+v", version, trial, days[0]["invoice.paid"].Invoice)
		}
		if _, charged := days[0]["charge.succeeded"]; charged {
			t.Errorf("%s: a trial was charged for", version)
		}
		past := days[2]["customer.subscription.updated"].Subscription
		if past.Status != "past_due" || past.Before.Status != "trialing" || days[2]["invoice.payment_failed"].Invoice.Attempts != 1 || days[3]["invoice.payment_failed"].Invoice.Attempts != 2 {
			t.Errorf("%s: past due is %+v", version, past)
		}
		paid := days[4]["invoice.paid"]
		if paid.Object != days[3]["invoice.payment_failed"].Object || paid.Invoice.Attempts != 3 || days[4]["customer.subscription.updated"].Subscription.Status != "active" {
			t.Errorf("%s: paid is %+v", version, paid.Invoice)
		}
		if got := days[5]["customer.subscription.updated"].Subscription; !got.CancelAt.Equal(at.AddDate(0, 0, 44)) || got.Before == nil || !got.Before.CancelAt.IsZero() {
			t.Errorf("%s: the planned end is %+v", version, got)
		}
		if got := days[6]["customer.subscription.deleted"].Subscription; got.Status != "canceled" || !got.EndedAt.Equal(at.AddDate(0, 0, 44)) {
			t.Errorf("%s: the end is %+v", version, got)
		}
	}
}

// If two customers have the same events, their IDs differ only by the token, which every ID contains.
func TestCustomer_IDs_InOneOrder(t *testing.T) {
	t.Parallel()
	of := func(account string) (bodies []string) {
		c := forge.NewCustomer(forge.Params{Account: account, Email: "same@example.com"}, time.Second)
		c.At(at)
		c.Subscribe(starter, 1, 0)
		c.Refund(0)
		events, err := c.Events()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if !strings.Contains(e.ID, c.Token()) || !json.Valid(e.Body) {
				t.Errorf("event %s of token %s", e.ID, c.Token())
			}
			bodies = append(bodies, strings.NewReplacer(c.Token(), "TOKEN", account, "account", strings.ToUpper(account), "ACCOUNT").Replace(string(e.Body)))
		}
		return bodies
	}
	if a, b := of("acme"), of("umbrella"); !slices.Equal(a, b) {
		t.Errorf("\n%s\n%s", a, b)
	}
}

func TestNew_CheckoutOnce_SellsWithoutInvoice(t *testing.T) {
	t.Parallel()
	e, err := forge.New(forge.Params{Provider: ingress.Provider, Type: "checkout.session.completed", Once: true, Price: "price_week", At: at}, "")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{"mode": "payment", "invoice": nil, "subscription": nil, "payment_status": "paid"} {
		if got := dig(t, e.Body, "data.object."+path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if dig(t, e.Body, "data.object.metadata.price") != "price_week" || dig(t, e.Body, "data.object.payment_intent") == nil {
		t.Errorf("no price, or no payment: %s", e.Body)
	}
}
