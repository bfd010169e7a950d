package timeline_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

// mailed creates e-mails of three events in live mode and one in test mode. The account acme has
// an e-mail in each outcome, and a reminder that belongs to the event of the subscription.
func mailed(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db := schematest.New(t)
	exec(t, db, `insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, received_at, body_hash, status, waits) values
		($1, 'stripe', 'stripe', '', 'live', 'evt_1', 'id', 'invoice.paid', 'in_1', '2026-10-01', '\x01', 'needs_review',
		 '{"decisions": ["resend", "skip"], "effects": [{"key": "order-email:stripe:live:in_1", "kind": "order-email", "uncertain": true}]}'),
		($2, 'stripe', 'stripe', '', 'live', 'evt_2', 'id', 'customer.subscription.updated', 'sub_1', '2026-10-01', '\x01', 'processed', null),
		($3, 'stripe', 'stripe', 'acct_9', 'live', 'evt_3', 'id', 'invoice.paid', 'in_3', '2026-10-01', '\x01', 'processed', null)`, first, second, other)
	exec(t, db, `insert into event_subjects (receipt_id, object, main, account, number) values
		($1, 'in_1', true, 'acme', 'A-1'), ($1, 'sub_1', false, 'acme', ''), ($2, 'sub_1', true, 'acme', ''), ($3, 'in_3', true, 'beta', 'B-3')`, first, second, other)
	for key, fields := range map[string]string{
		"receipt-email:stripe:live:in_1":             `'done', '', '', 1, '2026-10-01 09:00Z', '2026-10-01 10:00Z', '` + first + `', 'evt_1'`,
		"order-email:stripe:live:in_1":               `'uncertain', 'no answer to the final dot – <ada@example.com>', 'uncertain', 1, '2026-10-01 10:00Z', null, '` + first + `', 'evt_1'`,
		"action-required-notice:stripe:live:in_1:1":  `'failed', 'mail server answered 550 to the recipient', 'permanent', 1, '2026-10-01 11:00Z', null, '` + first + `', 'evt_1'`,
		"action-required-notice:stripe:live:in_1:2":  `'failed', 'mail server: cannot be reached', 'transient', 1, '2026-10-01 12:00Z', null, '` + first + `', 'evt_1'`,
		"trial-ending-notice:stripe:live:sub_1:17":   `'claimed', '', '', 1, '2026-10-01 13:00Z', null, '` + second + `', 'evt_2'`,
		"dunning-notice:stripe:live:in_1:2":          `'skipped', 'skipped by ada: wrong address', '', 1, '2026-10-01 13:30Z', '2026-10-01 14:00Z', '` + second + `', 'evt_2'`,
		"correction-notice:stripe:live:in_1":         `'compensated', '', '', 1, '2026-10-01 15:00Z', null, '` + first + `', 'evt_1'`,
		"access-ended-notice:stripe:live:acme:v3":    `'compensated', '', '', 2, '2026-10-01 15:00Z', '2026-10-01 16:00Z', '` + second + `', 'evt_2'`,
		"receipt-email:stripe:live:acct_9:in_3":      `'done', '', '', 2, '2026-10-01 16:30Z', '2026-10-01 17:00Z', '` + other + `', 'evt_3'`,
		"receipt-email:stripe:test:in_1":             `'done', '', '', 1, '2026-10-01 18:00Z', '2026-10-01 18:00Z', '` + first + `', 'evt_1'`,
		"finance-export:stripe:live:in_1":            `'done', '', '', 1, '2026-10-01 18:00Z', '2026-10-01 18:00Z', '` + first + `', 'evt_1'`,
		"subscription-ended-notice:stripe:live:same": `'done', '', '', 1, '2026-10-01 10:00Z', '2026-10-01 10:00Z', gen_random_uuid(), 'evt_9'`,
	} {
		kind, _, _ := strings.Cut(key, ":")
		exec(t, db, `insert into effects (key, kind, run_id, lease_until, state, error, error_class, generation, claimed_at, done_at, receipt_id, event_id)
			values ($1, $2, 'r', now(), `+fields+`)`, key, kind)
	}
	exec(t, db, `insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, ended_at) values
		('receipt-email:stripe:live:acct_9:in_3', 1, $1, 'r', 1, 'uncertain', '2026-10-01 16:30Z', '2026-10-01 16:31Z'),
		('action-required-notice:stripe:live:in_1:2', 1, $2, 'r', 1, 'failed', '2026-10-01 12:30Z', '2026-10-01 12:31Z'),
		('action-required-notice:stripe:live:in_1:2', 1, $2, 'r', 0, 'already_done', '2026-10-01 19:00Z', '2026-10-01 19:00Z')`, other, first)
	return db
}

func hour(h int) time.Time { return time.Date(2026, 10, 1, h, 0, 0, 0, time.UTC) }

func TestEmails_FiltersAndPages(t *testing.T) {
	t.Parallel()
	db := mailed(t)
	keys := func(f timeline.EmailFilter) (keys []string) {
		t.Helper()
		if f.Limit == 0 {
			f.Limit = 50
		}
		found, err := timeline.Emails(t.Context(), db, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			keys = append(keys, strings.NewReplacer(":stripe:live:", " ", "-notice", "", "-email", "").Replace(e.Key))
		}
		return keys
	}
	acme := []string{"access-ended acme:v3", "correction in_1", "dunning in_1:2", "trial-ending sub_1:17", "action-required in_1:2", "action-required in_1:1",
		"receipt in_1", "order in_1"} // the last two, and another one, have the same time
	all := slices.Concat([]string{"receipt acct_9:in_3"}, acme[:6], []string{"subscription-ended same"}, acme[6:])
	for _, tt := range []struct {
		f    timeline.EmailFilter
		want []string
	}{
		{timeline.EmailFilter{Mode: "live"}, all},
		{timeline.EmailFilter{Mode: "test"}, []string{"receipt:stripe:test:in_1"}},
		{timeline.EmailFilter{Mode: "live", Kind: "action-required-notice"}, []string{"action-required in_1:2", "action-required in_1:1"}},
		{timeline.EmailFilter{Mode: "live", Outcome: "sent"}, []string{"receipt acct_9:in_3", "access-ended acme:v3", "subscription-ended same", "receipt in_1"}},
		{timeline.EmailFilter{Mode: "live", Outcome: "unclear"}, []string{"order in_1"}},
		{timeline.EmailFilter{Mode: "live", Outcome: "failed"}, []string{"action-required in_1:1"}},
		{timeline.EmailFilter{Mode: "live", Outcome: "waiting"}, []string{"trial-ending sub_1:17", "action-required in_1:2"}},
		{timeline.EmailFilter{Mode: "live", Outcome: "skipped"}, []string{"dunning in_1:2"}},
		{timeline.EmailFilter{Mode: "live", Outcome: "taken_back"}, []string{"correction in_1"}},
		{timeline.EmailFilter{Mode: "live", Account: "acme"}, acme},
		{timeline.EmailFilter{Mode: "test", Account: "acme"}, []string{"receipt:stripe:test:in_1"}},
		{timeline.EmailFilter{Mode: "live", Account: "beta"}, []string{"receipt acct_9:in_3"}},
		{timeline.EmailFilter{Mode: "live", Account: "unknown"}, nil},
		{timeline.EmailFilter{Mode: "live", Account: "acme", Kind: "receipt-email"}, []string{"receipt in_1"}},
		{timeline.EmailFilter{Mode: "live", Account: "acme", Outcome: "skipped"}, []string{"dunning in_1:2"}},
		{timeline.EmailFilter{Mode: "live", Since: hour(12), Until: hour(14)}, []string{"trial-ending sub_1:17", "action-required in_1:2"}},
		{timeline.EmailFilter{Mode: "live", Account: "acme", Since: hour(14), Until: hour(16)}, []string{"correction in_1", "dunning in_1:2"}},
	} {
		if got := keys(tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("Emails(%+v) = %q, want %q", tt.f, got, tt.want)
		}
	}
	for account, want := range map[string][]string{"": all, "acme": acme} {
		var paged []string
		f := timeline.EmailFilter{Mode: "live", Account: account, Limit: 1}
		for {
			found, err := timeline.Emails(t.Context(), db, f)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) == 0 {
				break
			}
			paged, f.After = append(paged, keys(f)...), found[0]
		}
		if !slices.Equal(paged, want) {
			t.Errorf("one by one: %q, want %q", paged, want)
		}
	}
}

func TestEmails_SubjectAndOutcome(t *testing.T) {
	t.Parallel()
	found, err := timeline.Emails(t.Context(), mailed(t), timeline.EmailFilter{Mode: "live", Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]timeline.Email{}
	for _, e := range found {
		by[e.Kind+" "+e.Object] = e
	}
	type about struct{ account, number, event string }
	for name, want := range map[string]about{
		"receipt-email in_1":             {"acme", "A-1", "evt_1"},
		"receipt-email in_3":             {"beta", "B-3", "evt_3"}, // of a connected account
		"dunning-notice in_1":            {"acme", "A-1", "evt_2"}, // its event is about the subscription
		"access-ended-notice acme":       {"acme", "", "evt_2"},
		"subscription-ended-notice same": {"", "", "evt_9"},
	} {
		if e := by[name]; (about{e.Account, e.Number, e.Event}) != want {
			t.Errorf("%s is about %+v, want %+v", name, e, want)
		}
	}
	if e := by["receipt-email in_1"]; e.SentAt == nil || !e.SentAt.Equal(hour(10)) || e.Corrected || e.PossiblyTwice || e.Parked {
		t.Errorf("sent: %+v", e)
	}
	if e := by["receipt-email in_3"]; !e.PossiblyTwice {
		t.Errorf("sent again after an unclear attempt: %+v", e)
	}
	if e := by["access-ended-notice acme"]; !e.Corrected || e.PossiblyTwice {
		t.Errorf("taken back later: %+v", e)
	}
	if e := by["correction-notice in_1"]; e.SentAt != nil || e.Corrected {
		t.Errorf("taken back: %+v", e)
	}
	// The text of the mail server may contain an address.
	if e := by["order-email in_1"]; e.Reason != "no answer to the final dot" || !e.Parked || e.Waits == nil || e.SentAt != nil {
		t.Errorf("unclear: %+v", e)
	}
	if e := by["dunning-notice in_1"]; e.SentAt != nil || e.Reason != "skipped by ada: wrong address" {
		t.Errorf("skipped: %+v", e)
	}
	waiting, err := timeline.Emails(t.Context(), mailed(t), timeline.EmailFilter{Mode: "live", Outcome: "waiting", Kind: "action-required-notice", Limit: 1})
	if last := hour(12).Add(31 * time.Minute); err != nil || !waiting[0].LastAttemptAt.Equal(last) || waiting[0].Parked {
		t.Errorf("waiting: %+v, %v", waiting, err)
	}
}

// A skipped or failed e-mail may have arrived before: its list entry reports this. The words of a person contain no
// address.
func TestEmails_NotSent_MayHaveArrived(t *testing.T) {
	t.Parallel()
	db := mailed(t)
	exec(t, db, `update effects set result = '{"UnansweredBefore": true}', error = 'skipped by ada: not bob@example.com' where key = 'dunning-notice:stripe:live:in_1:2'`)
	exec(t, db, `update effects set committing = true, lease_until = now() - interval '1 minute' where key = 'trial-ending-notice:stripe:live:sub_1:17'`)
	exec(t, db, `insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, ended_at, error) values
		('receipt-email:stripe:live:in_1', 1, $1, 'r', 1, 'failed', now(), now(), 'the outcome is unknown; the e-mail is sent again')`, first)
	found, err := timeline.Emails(t.Context(), db, timeline.EmailFilter{Mode: "live", Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	var arrived, twice []string
	for _, e := range found {
		if e.MayHaveArrived {
			arrived = append(arrived, e.Kind)
		}
		if e.PossiblyTwice {
			twice = append(twice, e.Kind+" "+e.Object)
		}
		if strings.Contains(e.Reason, "@") {
			t.Errorf("the reason contains an address: %q", e.Reason)
		}
	}
	if got, want := strings.Join(arrived, " "), "dunning-notice trial-ending-notice"; got != want {
		t.Errorf("may have arrived: %s, want %s", got, want)
	}
	if got, want := strings.Join(twice, ", "), "receipt-email in_3, receipt-email in_1"; got != want {
		t.Errorf("possibly twice: %s, want %s", got, want)
	}
	newest, err := timeline.Emails(t.Context(), db, timeline.EmailFilter{Mode: "live", Account: "acme", Newest: 1, Limit: 50})
	if err != nil || len(newest) != 3 {
		t.Errorf("e-mails of the newest event: %d, %v", len(newest), err)
	}
}
