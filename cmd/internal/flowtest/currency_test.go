package flowtest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/receipt"
)

// An amount in an unknown currency is booked in the provider's minor unit, and the purchase grants access. One task
// is opened per currency, unless the policy ignores unknown currencies.
func TestUnknownCurrency_Booked_AskedOnce(t *testing.T) {
	t.Parallel()
	for unknown, want := range map[string][]string{"open_task": {"unknown_currency zzz open"}, "ignore": {}} {
		r := newRig(t, func(c *config.Config) { c.Policy.OnUnknownPrice = unknown })
		seed := "currency-" + uuid.NewString()[:8]
		for _, buyer := range []string{"a", "b"} {
			e, err := forge.New(forge.Params{Provider: stripe.Provider, EventID: "evt_" + seed + buyer, Type: "invoice.paid", Seed: seed + buyer,
				Account: "acme-" + buyer, Plan: "starter", Live: true, At: time.Now().Add(-time.Hour)}, "")
			if err != nil {
				t.Fatal(err)
			}
			e.Body = bytes.ReplaceAll(e.Body, []byte(`"usd"`), []byte(`"zzz"`))
			r.receive(e)
			r.status(e, receipt.Processed)
		}
		if got := r.rows(`select concat_ws(' ', kind, object, state) from tasks`); !slices.Equal(got, want) {
			t.Errorf("%s: asked %q, want %q", unknown, got, want)
		}
		if got := r.rows(`select account || ' ' || currency from finance_entries order by 1`); !slices.Equal(got, []string{"acme-a zzz", "acme-b zzz"}) {
			t.Errorf("%s: booked %q", unknown, got)
		}
		if got := r.rows(`select id from accounts where target_state = 'active'`); len(got) != 2 {
			t.Errorf("%s: access of %q", unknown, got)
		}
	}
}
