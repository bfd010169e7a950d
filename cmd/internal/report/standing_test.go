package report_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/ingress/webhook"
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
