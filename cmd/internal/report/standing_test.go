package report_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/endpoint"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The end of a source's last secret is told two weeks before, and is a page on its last day; a source with one that
// does not end has none.
func TestCauses_SecretEnds(t *testing.T) {
	t.Parallel()
	in := func(days float64) config.Secret {
		return config.Secret{NotAfter: time.Now().Add(time.Duration(days * 24 * float64(time.Hour)))}
	}
	cfg := &config.Config{Sources: map[string]config.Source{
		"far": {Mode: webhook.Live, Secrets: []config.Secret{in(15)}}, "soon": {Mode: webhook.Live, Secrets: []config.Secret{in(0.5), in(13)}},
		"now": {Mode: webhook.Live, Secrets: []config.Secret{in(0.5), in(-1)}}, "test": {Mode: webhook.Test, Secrets: []config.Secret{in(0.5)}},
		"followed": {Mode: webhook.Live, Secrets: []config.Secret{in(0.5), {}}}, "endless": {Mode: webhook.Live, Secrets: []config.Secret{{}, in(0.5)}},
	}}
	got := told(t, cfg, &operator.Operator{DB: schematest.New(t)}, "secret:")
	if want := "now page, soon ticket, test ticket"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// An API version that no reader is tested with is a message once, and no lasting concern.
func TestCauses_UnknownVersion_Once(t *testing.T) {
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
	o := &operator.Operator{DB: db}
	causes, _ := report.Causes(t.Context(), cfg, o)
	once := map[string]bool{}
	for _, c := range causes {
		once[c.Name] = c.Once
	}
	if v, lasts := once["endpoint:stripe:version:2027-03-31.fennel"], once["endpoint:stripe:gone"]; !v || lasts || len(once) != 2 {
		t.Errorf("told once: %v", once)
	}
	concerns, err := report.Concerns(t.Context(), cfg, o, nil)
	if err != nil || len(concerns) != 1 || concerns[0].What != "endpoint" {
		t.Errorf("%v, concerns %+v, want the endpoint that is gone", err, concerns)
	}
}

// told is the causes of a kind that people are told, by name and severity.
func told(t *testing.T, cfg *config.Config, o *operator.Operator, kind string) string {
	t.Helper()
	causes, unread := report.Causes(t.Context(), cfg, o)
	if err := unread[strings.TrimSuffix(kind, ":")]; err != nil {
		t.Fatal(err)
	}
	found := map[string]notice.Severity{}
	for _, c := range causes {
		if name, is := strings.CutPrefix(c.Name, kind); is {
			found[name] = c.Severity
		}
	}
	return strings.NewReplacer("map[", "", "]", "", ":", " ", " ", ", ").Replace(fmt.Sprint(found))
}

// That nobody works is told of an event that waits, when Temporal answers and has seen no worker lately.
func TestCauses_NobodyWorks(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	ask := func(q polledAt) string {
		return told(t, &config.Config{}, &operator.Operator{DB: db, Temporal: q, TaskQueue: "pawl"}, "idle:")
	}
	long, now := polledAt{at: time.Now().Add(-2 * time.Minute)}, polledAt{at: time.Now()}
	if got := ask(long); got != "" {
		t.Errorf("told %s while no event waits", got)
	}
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, updated_at, dispatch_at)
		values (gen_random_uuid(), 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now() - interval '4 minutes', '\x01', $1, '', now(), now())`, receipt.Processing); err != nil {
		t.Fatal(err)
	}
	if got := ask(long); got != "pawl page" {
		t.Errorf("told %q, want that nobody works", got)
	}
	if got := ask(now) + ask(polledAt{at: long.at, err: context.DeadlineExceeded}); got != "" {
		t.Errorf("told %s while a worker polls, or Temporal does not answer", got)
	}
}

// Two amounts whose sum has more than 64 bits falsify the sum and fail no notification.
func TestCauses_AmountsBeyond64Bits_Told(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	for _, mode := range []string{"live", "test"} {
		if _, err := db.Exec(t.Context(), `with parked as (
				insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason)
				select gen_random_uuid(), 'stripe', 'stripe', $1, 'evt_' || n, 'id', 'invoice.paid', 'in_' || n, now(), '\x01', 'dead', 'effect_failed: x'
				  from generate_series(1, 2) n returning id, event_id, object_id)
			insert into facts (provider, mode, kind, object, event_id, receipt_id, occurred_at, rank, origin, data)
			select 'stripe', $1, 'invoice_seen', object_id, event_id, id, now(), 3, 'event', '{"Invoice":{"Paid":9223372036854775807,"Currency":"usd"}}' from parked`, mode); err != nil {
			t.Fatal(err)
		}
	}
	found, unread := report.Causes(t.Context(), &config.Config{}, &operator.Operator{DB: db})
	if unread["parked"] != nil {
		t.Fatal(unread["parked"])
	}
	told := 0
	for _, c := range found {
		if strings.HasPrefix(c.Name, "parked:") {
			told++
			if c.Count != 2 || c.Money["usd"] != math.MaxInt64 {
				t.Errorf("%s: %d events with %v, want 2 with the largest sum", c.Name, c.Count, c.Money)
			}
		}
	}
	if told != 2 {
		t.Errorf("%d causes of parked events, want one for each mode", told)
	}
}
