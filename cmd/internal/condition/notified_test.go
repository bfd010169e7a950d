package condition_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/endpoint"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/schematest"
)

// Two weeks before the last secret of a source expires, the condition is a ticket, and on the last day it is a page.
// A source with a secret that does not expire has no such condition.
func TestReader_SecretEnds(t *testing.T) {
	t.Parallel()
	in := func(days float64) config.Secret {
		return config.Secret{NotAfter: time.Now().Add(time.Duration(days * 24 * float64(time.Hour)))}
	}
	cfg := &config.Config{Sources: map[string]config.Source{
		"far": {Mode: webhook.Live, Secrets: []config.Secret{in(15)}}, "soon": {Mode: webhook.Live, Secrets: []config.Secret{in(0.5), in(13)}},
		"now": {Mode: webhook.Live, Secrets: []config.Secret{in(0.5), in(-1)}}, "test": {Mode: webhook.Test, Secrets: []config.Secret{in(0.5)}},
		"followed": {Mode: webhook.Live, Secrets: []config.Secret{in(0.5), {}}}, "endless": {Mode: webhook.Live, Secrets: []config.Secret{{}, in(0.5)}},
	}}
	got := told(t, cfg, &decide.Operator{Verbs: operator.Verbs, DB: schematest.New(t)}, "secret")
	if want := "now page, soon ticket, test ticket"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// An API version that no parser was tested with is notified once.
func TestReader_UnknownVersion_Once(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(file, []byte("database: env:URL\nsources: {stripe: {provider: stripe, mode: live, api_key: env:KEY, secrets: [{label: a, value: env:SECRET}]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, func(name string) (string, bool) {
		return map[string]string{"URL": "postgres://localhost/pawl", "KEY": "rk_live_0123456789abcdef", "SECRET": "whsec_0123456789abcdef0123456789abcdef"}[name], true
	}, map[string]webhook.Provider{"stripe": stripe.Provider})
	if err != nil {
		t.Fatal(err)
	}
	found := []endpoint.Finding{{Kind: endpoint.Version, About: "2027-03-31.fennel"}, {Kind: endpoint.Gone}}
	if _, _, err := endpoint.Keep(t.Context(), db, "stripe", found, time.Now()); err != nil {
		t.Fatal(err)
	}
	all, err := condition.Reader{Operator: &decide.Operator{Verbs: operator.Verbs, DB: db}, Config: cfg}.ReadAll(t.Context(), "endpoint")
	if err != nil {
		t.Fatal(err)
	}
	once := map[string]bool{}
	for _, c := range all {
		once[c.Name] = c.Once
	}
	if v, lasts := once["endpoint:stripe:version:2027-03-31.fennel"], once["endpoint:stripe:gone"]; !v || lasts || len(once) != 2 {
		t.Errorf("notified once: %v", once)
	}
}

// told returns the conditions of a kind that operators are notified about, with their severities.
func told(t *testing.T, cfg *config.Config, o *decide.Operator, kind string) string {
	t.Helper()
	all, err := condition.Reader{Operator: o, Config: cfg}.ReadAll(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]notice.Severity{}
	for _, c := range condition.Notified(all) {
		found[c.Subject()] = c.Severity
	}
	return strings.NewReplacer("map[", "", "]", "", ":", " ", " ", ", ").Replace(fmt.Sprint(found))
}

// If the sum of two amounts exceeds 64 bits, the sum is wrong, but the notification is sent.
func TestReader_AmountsBeyond64Bits_Told(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	for _, mode := range []string{"live", "test"} {
		if _, err := db.Exec(t.Context(), `with parked as (
				insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason)
				select gen_random_uuid(), 'stripe', 'stripe', $1, 'evt_' || n, 'id', 'invoice.paid', 'in_' || n, now(), '\x01', 'dead', 'effect_failed: x'
				  from generate_series(1, 2) n returning id, object_id)
			insert into event_subjects (receipt_id, object, main, amount, currency) select id, object_id, true, 9223372036854775807, 'usd' from parked`, mode); err != nil {
			t.Fatal(err)
		}
	}
	found, err := condition.Reader{Operator: &decide.Operator{Verbs: operator.Verbs, DB: db}, Config: &config.Config{}}.ReadAll(t.Context(), "parked")
	if err != nil || len(found) != 2 {
		t.Fatalf("%v, %+v, want a condition for each mode", err, found)
	}
	for _, c := range found {
		if c.Count != 2 || c.Money["usd"] != math.MaxInt64 {
			t.Errorf("%s: %d events with %v, want 2 with the largest sum", c.Name, c.Count, c.Money)
		}
	}
}
