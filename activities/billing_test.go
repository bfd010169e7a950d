package activities_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/event"
)

// What a connected account says, its own metadata included, is about an account of ours only where the source that took
// it maps the one to the other. All else is left alone.
func TestLoadFacts_ConnectedAccount_AsItsSourceMapsIt(t *testing.T) {
	b := setup(t)
	body := strings.Replace(invoice("ada@example.com"), `"livemode":true`, `"account":"acct_9","livemode":true`, 1)
	id := b.keep(strings.Replace(body, `"id":"in_1"`, `"id":"in_1","object":"invoice","amount_due":4900,"amount_remaining":0,"billing_reason":"subscription_cycle"`, 1))
	for name, c := range map[string]struct {
		accounts map[string]map[string]string
		want     string // "" is left alone
	}{
		"mapped":                   {map[string]map[string]string{"stripe": {"acct_9": "umbrella"}}, "umbrella"},
		"another account is":       {map[string]map[string]string{"stripe": {"acct_8": "umbrella"}}, ""},
		"another source maps it":   {map[string]map[string]string{"other": {"acct_9": "umbrella"}}, ""},
		"a source that maps none":  {map[string]map[string]string{"stripe": nil}, ""},
		"nothing is mapped at all": {nil, ""},
	} {
		load := &activities.Billing{
			Receipts: b.receipts, Prices: stripe.Plans{Prices: map[string]stripe.Price{"price_pro": {Plan: "pro"}}},
			Accounts: c.accounts, Consumers: &activities.Consumers{},
		}
		got, err := load.LoadFacts(t.Context(), activities.LoadFactsInput{Ref: event.Ref{
			ReceiptID: id, Provider: "stripe", Account: "acct_9", EventID: "evt_1", Type: "invoice.paid", Mode: "live",
		}})
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" {
			if !got.Ignored || got.Code != activities.CodeAccountNotMapped || len(got.Facts) > 0 {
				t.Errorf("%s: %+v, want it left alone", name, got)
			}
			continue
		}
		if got.Ignored || len(got.Facts) == 0 || got.Facts[0].Account != c.want || got.Facts[0].ProviderAccount != "acct_9" {
			t.Errorf("%s: %+v, want facts about %s", name, got, c.want)
		}
	}
}
