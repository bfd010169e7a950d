package activities_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// The objects of a connected account, including its metadata, belong to an account only if their source maps the
// connected account to it. pawl ignores all other objects of connected accounts.
func TestLoadFacts_ConnectedAccount_AsItsSourceMapsIt(t *testing.T) {
	b := setup(t)
	body := strings.Replace(invoice("ada@example.com"), `"livemode":true`, `"account":"acct_9","livemode":true`, 1)
	id := b.keepOf("acct_9", strings.Replace(body, `"id":"in_1"`, `"id":"in_1","object":"invoice","amount_due":4900,"amount_remaining":0,"billing_reason":"subscription_cycle"`, 1))
	for name, c := range map[string]struct {
		accounts map[fact.Connected]string
		mapped   bool
	}{
		"mapped":                   {map[fact.Connected]string{{Mode: "live", ID: "acct_9"}: "umbrella"}, true},
		"another account is":       {map[fact.Connected]string{{Mode: "live", ID: "acct_8"}: "umbrella"}, false},
		"in another mode":          {map[fact.Connected]string{{Mode: "test", ID: "acct_9"}: "umbrella"}, false},
		"nothing is mapped at all": {nil, false},
	} {
		load := &activities.Billing{
			Receipts: b.receipts, Facts: billing.New(b.pool), Policy: fact.Policy{Accounts: c.accounts},
			Destinations: &activities.Destinations{},
		}
		held, err := b.receipts.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := load.LoadFacts(t.Context(), activities.LoadFactsInput{Ref: held.Ref()})
		if err != nil {
			t.Fatal(err)
		}
		if !c.mapped {
			if !got.Ignored || got.Code != activities.CodeAccountNotMapped || len(got.Facts) > 0 {
				t.Errorf("%s: %+v, want it left alone", name, got)
			}
			continue
		}
		if got.Ignored || len(got.Facts) == 0 || got.Facts[0].ProviderAccount != "acct_9" {
			t.Errorf("%s: %+v, want facts", name, got)
		}
	}
}

// A body that was changed after it was received is not the body that the provider signed, so it needs a review.
func TestLoadFacts_BodyChanged_Parked(t *testing.T) {
	b := setup(t)
	id := b.keep(invoice("ada@example.com"))
	held, err := b.receipts.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.pool.Exec(t.Context(), `update receipt_bodies set body = convert_to(replace(convert_from(body, 'UTF8'), '4900', '1'), 'UTF8') where receipt_id = $1`, id); err != nil {
		t.Fatal(err)
	}
	load := &activities.Billing{Receipts: b.receipts, Destinations: &activities.Destinations{}}
	got, err := load.LoadFacts(t.Context(), activities.LoadFactsInput{Ref: held.Ref()})
	if err != nil || got.Code != activities.CodeBodyChanged || len(got.Facts) > 0 {
		t.Errorf("%+v, %v; want it parked", got, err)
	}
}
