package forge_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/shopify"
	ingress "github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

var update = flag.Bool("update", false, "rewrite testdata")

var at = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// The golden files contain each Stripe body in both shapes, so that a reviewer can read them.
func TestNew_Stripe_Golden(t *testing.T) {
	t.Parallel()
	for _, version := range []string{forge.Before, forge.Basil} {
		for _, typ := range forge.StripeTypes() {
			t.Run(version+"/"+typ, func(t *testing.T) {
				t.Parallel()
				e, err := forge.New(forge.Params{Provider: ingress.Provider, EventID: "evt_golden", Type: typ, APIVersion: version, At: at}, "")
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				if err := json.Indent(&got, e.Body, "", "  "); err != nil {
					t.Fatal(err)
				}
				got.WriteByte('\n')
				path := filepath.Join("testdata", version, typ+".json")
				if *update {
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got.Bytes(), want) {
					t.Errorf("body differs from %s (rewrite with -update):\n%s", path, got.Bytes())
				}
			})
		}
	}
}

// The events of each type can be parsed in both shapes.
func TestNew_Stripe_ReadIntoFacts(t *testing.T) {
	t.Parallel()
	for _, version := range []string{forge.Before, forge.Basil} {
		for _, typ := range forge.StripeTypes() {
			e, err := forge.New(forge.Params{Provider: ingress.Provider, EventID: "evt_golden", Type: typ, APIVersion: version, Account: "acme", At: at}, "")
			if err != nil {
				t.Fatal(err)
			}
			facts, err := stripe.Read(e.Body, fact.Subject{Provider: "stripe", EventType: typ})
			if err != nil {
				t.Errorf("%s %s: %v", version, typ, err)
				continue
			}
			// an invoice of the old shape contains its payment
			ties := version == forge.Before && strings.HasPrefix(typ, "invoice.")
			if len(facts) == 0 || len(facts) > 1 && !strings.HasPrefix(typ, "checkout.") && !ties || !slices.Contains([]any{dig(t, e.Body, "data.object.id"), dig(t, e.Body, "data.object.payment_intent"), dig(t, e.Body, "data.object.payment.payment_intent")}, any(facts[0].Object)) {
				t.Errorf("%s %s: facts %v, want one about its object, or the payment intent of it", version, typ, facts)
			}
		}
	}
}

// dig returns the value at a path of keys, or nil if a key is missing.
func dig(t *testing.T, body []byte, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func TestNew_Shapes_DifferByVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]struct{ there, gone string }{
		"2023-10-16":        {"data.object.subscription", "data.object.parent"},
		"2025-03-31.basil":  {"data.object.parent.subscription_details.subscription", "data.object.subscription"},
		"2026-08-26.dahlia": {"data.object.parent.subscription_details.metadata.account", "data.object.paid"},
		"2026-11-18.endive": {"data.object.parent.subscription_details.metadata.account", "data.object.paid"},
	} {
		e, err := forge.New(forge.Params{Provider: ingress.Provider, Type: "invoice.paid", APIVersion: version, At: at}, "")
		if err != nil {
			t.Fatal(err)
		}
		if dig(t, e.Body, want.there) == nil || dig(t, e.Body, want.gone) != nil {
			t.Errorf("%s: want %s and not %s:\n%s", version, want.there, want.gone, e.Body)
		}
	}
}

func TestNew_OneSeed_OnePurchase(t *testing.T) {
	t.Parallel()
	made := func(typ, seed, account string) []byte {
		e, err := forge.New(forge.Params{Provider: ingress.Provider, Type: typ, Seed: seed, Account: account, At: at}, "")
		if err != nil {
			t.Fatal(err)
		}
		return e.Body
	}
	paid, succeeded := made("invoice.paid", "s", ""), made("invoice.payment_succeeded", "s", "")
	for _, path := range []string{"data.object.id", "data.object.customer", "data.object.parent.subscription_details.subscription"} {
		if dig(t, paid, path) != dig(t, succeeded, path) {
			t.Errorf("%s differs between two events of one seed", path)
		}
	}
	if dig(t, paid, "id") == dig(t, succeeded, "id") {
		t.Error("two events share an event ID")
	}
	january, february := made("invoice.paid", "", "acme"), made("invoice.paid", "", "acme")
	if dig(t, january, "data.object.customer") != dig(t, february, "data.object.customer") {
		t.Error("one account has two customers")
	}
	if dig(t, january, "data.object.id") == dig(t, february, "data.object.id") {
		t.Error("two payments of one account share an invoice")
	}
}

func TestNew_Hostile_StaysJSON(t *testing.T) {
	t.Parallel()
	e, err := forge.New(forge.Params{Provider: ingress.Provider, Account: `a"b\`, Email: "x\"@y\n", EventID: `evt_"1`, At: at}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := dig(t, e.Body, "data.object.parent.subscription_details.metadata.account"); got != `a"b\` {
		t.Errorf("account = %v, want it as given", got)
	}
}

// Every Shopify delivery contains its shop, and Shopify's own library rejects deliveries without one.
func TestNew_Shopify_NamesAShop(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"": "pawl.myshopify.com", "one.myshopify.com": "one.myshopify.com"} {
		e, err := forge.New(forge.Params{Provider: shopify.Provider, ConnectedAccount: given, At: at}, "")
		if err != nil || e.Account != want {
			t.Errorf("account %q, %v; want %s", e.Account, err, want)
		}
	}
}

// Paddle's own library fails if the lists of a transaction are missing.
func TestNew_Paddle_HasTheListsOfATransaction(t *testing.T) {
	t.Parallel()
	e, err := forge.New(forge.Params{Provider: hmac.Paddle, At: at}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"data.items", "data.payments"} {
		if _, ok := dig(t, e.Body, path).([]any); !ok {
			t.Errorf("%s is no list:\n%s", path, e.Body)
		}
	}
}

func TestNew_OwnTemplate(t *testing.T) {
	t.Parallel()
	e, err := forge.New(forge.Params{Provider: hmac.Provider, EventID: "e1", Amount: 7}, `{"n": {{.Amount}}, "id": {{json .EventID}}}`)
	if err != nil || string(e.Body) != `{"n":7,"id":"e1"}` {
		t.Errorf("body = %s, %v", e.Body, err)
	}
	for _, bad := range []string{`{{.Nothing}}`, `{"a": }`, `{{`} {
		if _, err := forge.New(forge.Params{Provider: hmac.Provider}, bad); err == nil {
			t.Errorf("template %q was accepted", bad)
		}
	}
	if _, err := forge.New(forge.Params{Provider: ingress.Provider, Type: "no.such"}, ""); err == nil || !strings.Contains(err.Error(), "invoice.paid") {
		t.Errorf("unknown Stripe type: %v, want an error that lists the known ones", err)
	}
}
