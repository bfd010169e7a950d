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

// The overview contains every figure of its charts as text.
func TestOverview_FiguresInWordsAndPictures(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	ada := s.as("ada", role.Viewer)
	for _, none := range []string{"No event has arrived", "No effect of the newest events is done yet"} {
		if got := ada.get("/overview"); got.StatusCode != http.StatusOK || !strings.Contains(got.text, none) {
			t.Errorf("without an event: %d, without %q", got.StatusCode, none)
		}
	}
	// In the hour before the last, one source had 600 deliveries and another 1,200.
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
	for _, says := range []string{"at most 30, in the hour from", ">505ms<", ">950ms<", ": 30 a minute</title>",
		"Receipt, 100 times: p50 505ms, p95 950ms", "a step failed"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not contain %q", says)
		}
	}
	if n := len(regexp.MustCompile(`<svg[^>]*role="img" aria-label="[^"]+"`).FindAllString(page, -1)); n != 2 {
		t.Errorf("%d charts refer to their text, want 2", n)
	}
}

// The pages of sources and sinks contain the deliveries, the rejections, expiring secrets, and the duration of calls.
func TestSourcesAndSinks_TrafficAndTimes(t *testing.T) {
	t.Parallel()
	ends := time.Date(2027, 2, 3, 0, 0, 0, 0, time.UTC)
	s := newStand(t, func(c *config.Config) {
		c.Sources = map[string]config.Source{"stripe": {Provider: "stripe", Mode: webhook.Live, Secrets: []config.Secret{{Label: "first", NotAfter: ends}}}}
		c.Sinks = config.Sinks{"finance": {Live: &config.Server{Endpoint: config.Endpoint{URL: "https://finance.example"}}, Test: &config.Server{Endpoint: config.Endpoint{URL: "https://test.example"}}}}
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
			t.Errorf("the sources do not contain %q", says)
		}
	}
	if strings.Contains(page, "clock: 5") {
		t.Error("the sources contain a rejection of nine days ago")
	}
	page = ada.get("/sinks").text
	for _, says := range []string{">finance:live<", ">50ms<", ">59ms<"} {
		if !strings.Contains(page, says) {
			t.Errorf("the sinks do not contain %q", says)
		}
	}
	if strings.Contains(page, "700ms") || strings.Contains(page, "9s") {
		t.Error("the sinks contain a call of another sink, or a call without a response")
	}
}

// absurdSQL parks two events, each with the largest amount that a column can store.
const absurdSQL = `
	with parked as (
		insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, updated_at, body_hash, status, reason)
		select ('01890000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'stripe', 'stripe', 'live', 'evt_' || n, 'id', 'invoice.paid', 'in_' || n, now(), now(), '\x01', 'dead', 'effect_failed: x'
		  from generate_series(1, 2) n returning id, object_id)
	insert into event_subjects (receipt_id, object, main, amount, currency) select id, object_id, true, 9223372036854775807, 'usd' from parked`

// If the sum of two amounts exceeds 64 bits, the sum is wrong, but no page fails.
func TestPages_AmountsBeyond64Bits_Served(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.exec(absurdSQL)
	ada := s.as("ada", role.Operator)
	for _, path := range []string{"/", "/overview", "/events?status=dead", "/decide/many?verb=retry&status=dead", "/decide/many?verb=retry&status=dead&preview=effects"} {
		got := ada.get(path)
		if got.StatusCode != http.StatusOK || !strings.Contains(got.text, "92,233,720,368,547,758.07 USD") {
			t.Errorf("%s: %d, without the sum:\n%s", path, got.StatusCode, got.text)
		}
	}
}

// Unbooked money is listed on the pages Now and Overview with its amount and a link to the decision that assigns it
// to an account.
func TestPages_UnassignedMoney_LeadsToAssign(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.exec(`insert into objects (mode, kind, id, state, updated_at)
		select mode, 'payment', id, jsonb_build_object('Status', 'succeeded', 'Amount', amount, 'Currency', 'usd'), now() - interval '1 hour' from (values ('live', 'pi_1', 1500), ('test', 'pi_2', 700)) t (mode, id, amount)`)
	s.exec(`with stored as (insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason)
		values (gen_random_uuid(), 'stripe', 'stripe', 'acct_9', 'live', 'evt_1', 'id', 'invoice.paid', 'in_1', now(), '\x01', 'ignored', 'account_not_mapped: x') returning id)
		insert into event_subjects (receipt_id, object, main, amount, currency) select id, 'in_1', true, 4900, 'usd' from stored`)
	ada := s.as("ada", role.Finance)
	for path, says := range map[string][]string{
		"/":                              {`<a href="/payments/unassigned?mode=live"><span class="sentence">1 payment in live mode not booked`, "15.00 USD", "connected account acct_9 is not mapped: 1 event ignored in live mode", "49.00 USD"},
		"/?mode=test":                    {`<a href="/payments/unassigned?mode=test"><span class="sentence">1 payment in test mode not booked`, "7.00 USD"},
		"/overview":                      {"1 payment in live mode not booked", "15.00 USD", "connected account acct_9 is not mapped", "49.00 USD"},
		"/payments/unassigned?mode=live": {"/decide?mode=live&amp;target=pi_1&amp;verb=assign", "15.00 USD"},
	} {
		page := ada.get(path)
		for _, words := range says {
			if page.StatusCode != http.StatusOK || !strings.Contains(page.text, words) {
				t.Errorf("%s answers %d without %s:\n%s", path, page.StatusCode, words, page.text)
			}
		}
	}
	if page := ada.get("/payments/unassigned?mode=live"); strings.Contains(page.text, "pi_2") {
		t.Error("the list of live money has a test payment")
	}
}

// If an account's workspace waits for a sink, or the account has an unmapped price, the account is not displayed as
// healthy, and its page shows the cause and the next step.
func TestAccount_Obstacle_NotGreen_WithCause(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.exec(`insert into accounts (mode, id, provider, target_version, target_state, target_plan) values ('live', 'acme', 'stripe', 2, 'active', 'pro'), ('live', 'globex', 'stripe', 0, '', ''), ('live', 'well', 'stripe', 0, 'active', 'pro')`)
	s.exec(`insert into breakers (sink, open, since, reason, probe_at) values ('workspaces:live', true, now(), 'w.test answered 503', now())`)
	s.exec(`insert into subscriptions (mode, id, account, status, state) values ('live', 'sub_1', 'globex', 'active', '{"ID":"sub_1","Status":"active","Asks":["price_x"]}')`)
	ada := s.as("ada", role.Viewer)
	for id, says := range map[string][]string{
		"acme":   {`<span class="badge wait" title="limited">Active, with a problem</span>`, "The workspace is not ready: the workspace system (live) has been down since"},
		"globex": {"No access: price price_x has no plan. Map the price in plans.prices, and apply the new rules."},
		"well":   {`<span class="badge good" title="active">Active</span>`},
	} {
		page := ada.get("/accounts/live/" + id)
		for _, words := range says {
			if page.StatusCode != http.StatusOK || !strings.Contains(page.text, words) {
				t.Errorf("%s: %d without %s:\n%s", id, page.StatusCode, words, page.text)
			}
		}
	}
}
