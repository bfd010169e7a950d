package flowtest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/obstacle"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/receipt"
)

// A customer without a known account pays for a price without a plan: by a subscription, or once at a checkout. A task
// opens, and the event and the customer's page state the price, the amount and the task.
func TestUnmappedPrice_OfAGuest_HasReasonAndTask(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Policy.AccountFrom, c.Policy.SubscriptionWait = "named", time.Second })
	for name, p := range map[string]forge.Params{
		"subscription": {Type: "invoice.paid"}, "checkout": {Type: "checkout.session.completed", Once: true},
	} {
		p.Provider, p.EventID, p.At = stripe.Provider, "evt_guest_"+uuid.NewString()[:8], time.Now().Add(-time.Minute)
		p.Account, p.Plan, p.Price, p.Amount, p.Live = "nobody-"+name, "none", "price_gold", 29900, true
		e, err := forge.New(p, "")
		if err != nil {
			t.Fatal(err)
		}
		e.Body = bytes.ReplaceAll(e.Body, []byte(`"`+p.Account+`"`), []byte(`null`))
		r.receive(e)
		r.status(e, receipt.Processed)
		shown, err := event.Examine(t.Context(), r.operator(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		customer := shown.Subject.Customer
		opened := r.rows(`select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') from tasks
			where kind = 'unknown_price' and state = 'open' and object = $1 and account = $2`, customer+":price_gold", customer)
		if len(opened) != 1 {
			t.Fatalf("%s: %d tasks are open for %s; all: %q", name, len(opened), customer, r.rows(`select concat_ws(' ', kind, object, state) from tasks`))
		}
		want := "No access: price price_gold has no plan. 299.00 USD paid. Task open since " + opened[0] + " UTC. Map the price in plans.prices, and apply the new rules."
		if !strings.HasPrefix(shown.Verdict, want) || shown.Receipt.ReasonCode != receipt.UnknownPrice || !event.NotGranted(&shown.Receipt) {
			t.Errorf("%s: the event says %q (%s), want %q", name, shown.Verdict, shown.Receipt.Reason, want)
		}
		acc, err := account.Show(t.Context(), r.Pool, account.Name{Mode: "live", ID: customer})
		if err != nil {
			t.Fatal(err)
		}
		obstacle.Explain(acc, func(id string) string { return id })
		if want := "No access: price price_gold has no plan. 299.00 USD paid. "; len(acc.Obstacles) != 1 || !strings.HasPrefix(acc.Obstacles[0].Message, want) || len(acc.Tasks) == 0 {
			t.Errorf("%s: the account has %+v and tasks %+v, want %q", name, acc.Obstacles, acc.Tasks, want)
		}
	}
}
