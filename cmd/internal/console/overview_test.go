package console_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/role"
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
	s.exec(`insert into effects (key, kind, state, receipt_id, event_id, workflow_id, run_id, lease_until, claimed_at, done_at)
		select 'mail:' || n, 'receipt-email', 'done', id, event_id, '', '', now(), now(), received_at + n * interval '10 milliseconds'
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
