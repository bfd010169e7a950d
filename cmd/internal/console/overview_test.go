package console_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// The overview says in words all that it draws.
func TestOverview_FiguresInWordsAndPictures(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	ada := s.as("ada", role.Viewer)
	for _, none := range []string{"No event has come", "have no effects that are done"} {
		if got := ada.get("/overview"); got.StatusCode != http.StatusOK || !strings.Contains(got.text, none) {
			t.Errorf("without an event: %d, without %q", got.StatusCode, none)
		}
	}
	// The hour before the last had 600 of one source and 1,200 of another.
	s.exec(`insert into source_hours (source, hour, count)
		select source, date_trunc('hour', now()) - interval '2 hours', n from (values ('a', 600), ('b', 1200)) s (source, n)
		union all select 'a', now() - interval '3 days', 600000`)
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason)
		select ('01890000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'a', 'stripe', 'live', 'evt_' || n, 'id', 'invoice.paid', now(), '', 
		       case when n = 1 then 'dead' else 'processed' end, case when n = 1 then 'effect_failed: x' else '' end from generate_series(1, 100) n`)
	s.exec(`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, claimed_at, done_at)
		select 'mail:' || n, 'receipt-email', 'done', id, event_id, '', now(), now(), received_at + n * interval '10 milliseconds'
		  from (select *, substring(event_id from 5)::int as n from receipts) r`)
	page := ada.get("/overview").text
	for _, says := range []string{"at most 30, in the hour from", "receipt-email: half within 505ms, 19 of 20 within 950ms", ": 30 a minute</title>",
		"receipt-email, 100 effects: half within", "effect_failed"} {
		if !strings.Contains(page, says) {
			t.Errorf("it does not say %q", says)
		}
	}
	if n := len(regexp.MustCompile(`<svg[^>]*role="img" aria-label="[^"]+"`).FindAllString(page, -1)); n != 2 {
		t.Errorf("%d pictures that say where their words are, want 2", n)
	}
}

// The pages of sources and sinks say what comes, what is refused, what ends, and how long calls take.
func TestSourcesAndSinks_TrafficAndTimes(t *testing.T) {
	t.Parallel()
	ends := time.Date(2027, 2, 3, 0, 0, 0, 0, time.UTC)
	s := newStand(t, func(c *config.Config) {
		c.Sources = map[string]config.Source{"stripe": {Provider: "stripe", Mode: webhook.Live, Secrets: []config.Secret{{Label: "first", NotAfter: ends}}}}
		c.Sinks.Finance = config.HTTPSink{Live: &config.Endpoint{URL: "https://finance.example"}, Test: &config.Endpoint{URL: "https://test.example"}}
	})
	s.exec(`insert into source_hours (source, hour, count) values ('stripe', date_trunc('hour', now()) - interval '1 hour', 90)`)
	s.exec(`insert into source_counts (source, what, name, day, count, last)
		values ('stripe', 'refused', 'signature', (now() at time zone 'utc')::date, 7, now()), ('stripe', 'refused', 'clock', (now() at time zone 'utc')::date - 9, 5, now())`)
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
		values ('01890000-0000-7000-8000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '', 'processed')`)
	s.exec(`insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, ended_at)
		select kind || ':stripe:live:in_1', 1, '01890000-0000-7000-8000-000000000001', '', 1, outcome, now() - n * interval '1 millisecond', now()
		  from (values ('finance-export', 'done', 40), ('finance-export', 'done', 60), ('finance-export', 'failed', 9000), ('receipt-email', 'done', 700)) a (kind, outcome, n)`)
	ada := s.as("ada", role.Viewer)
	page := ada.get("/sources").text
	for _, says := range []string{">1.5<", ">90<", "signature: 7<", `datetime="2027-02-03T00:00:00Z"`} {
		if !strings.Contains(page, says) {
			t.Errorf("the sources do not say %q", says)
		}
	}
	if strings.Contains(page, "clock: 5") {
		t.Error("the sources tell of what was refused nine days ago")
	}
	page = ada.get("/sinks").text
	for _, says := range []string{">finance:live<", ">50ms<", ">59ms<"} {
		if !strings.Contains(page, says) {
			t.Errorf("the sinks do not say %q", says)
		}
	}
	if strings.Contains(page, "700ms") || strings.Contains(page, "9s") {
		t.Error("the sinks tell of another's call, or of one that had no answer")
	}
}
