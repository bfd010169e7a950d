package console_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/console"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/receipt"
)

const parkedID = "01890000-0000-7000-8000-000000000001"

// parksPaid stores a parked event about invoice F-12 of acme. Its finance entry has failed twice.
func (s *stand) parksPaid() {
	s.t.Helper()
	s.exec(`insert into accounts (mode, id, customer, provider) values ('live', 'acme', 'cus_1', 'stripe')`)
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id, waits)
		values ($1, 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '', 'dead', 'effect_failed: finance-export is failed', 'stripe:evt_1',
		        '{"decisions": ["retry", "skip", "compensate"], "effects": [{"key": "finance-export:stripe:live:in_1", "kind": "finance-export", "state": "failed"}]}')`, parkedID)
	s.exec(`insert into event_subjects (receipt_id, object, main, account, customer, number, amount, currency)
		values ($1, 'in_1', true, 'acme', 'cus_1', 'F-12', 480000, 'usd')`, parkedID)
	s.exec(`insert into effects (key, kind, state, attempts, receipt_id, event_id, run_id, lease_until, claimed_at, error)
		values ('finance-export:stripe:live:in_1', 'finance-export', 'failed', 2, $1, 'evt_1', '', now(), now(), '127.0.0.1:20703 answered 404')`, parkedID)
	s.exec(`insert into effect_attempts (key, generation, receipt_id, run_id, token, outcome, started_at, ended_at, error)
		select 'finance-export:stripe:live:in_1', 1, $1, '', n, 'failed', now(), now() + interval '250 milliseconds', '127.0.0.1:20703 answered ' || status
		  from (values (1, 503), (2, 404)) a (n, status)`, parkedID)
}

// text returns the words of a page without its markup.
func (a *answer) words() string {
	whole := strings.ReplaceAll(a.text, "<wbr>", "")
	text := regexp.MustCompile(`(?s)<(script|style).*?</|<[^>]*>`).ReplaceAllString(whole, " ")
	return regexp.MustCompile(`\s+`).ReplaceAllString(text, " ")
}

// The page of an event begins with the account, the invoice, the amount and the date. The verdict contains no code, and
// each attempt has a row. The page of a decision is headed by the same subject.
func TestEvent_SubjectVerdictAndAttempts_InWords(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.parksPaid()
	ada := s.as("ada", role.Admin)
	page := ada.get("/events/evt_1")
	words := page.words()
	for _, want := range []string{
		"Invoice F-12 · 4,800.00 USD · 0 s ago", "Failed Not finished: the finance entry of 4,800.00 USD is not booked. Finance answered 404 Not Found.",
		"Try the failed steps again", "Booking Failed Finance Finance answered 503 Service Unavailable 250ms",
		"Booking Failed Finance Finance answered 404 Not Found 250ms",
	} {
		if !strings.Contains(regexp.MustCompile(`\d+ s ago`).ReplaceAllString(words, "0 s ago"), want) {
			t.Errorf("the page does not contain %q:\n%s", want, words)
		}
	}
	if !strings.Contains(page.text, `href="/accounts/live/acme"`) {
		t.Error("the page does not link to the account")
	}
	verdict, _, _ := strings.Cut(words[strings.Index(words, "Not finished"):], "Steps")
	for _, code := range []string{"effect_failed", "finance-export", "127.0.0.1", "dead"} {
		if strings.Contains(verdict, code) {
			t.Errorf("the verdict contains the code %q: %s", code, verdict)
		}
	}
	if got := ada.get("/decide?verb=done&target=evt_1").words(); !strings.Contains(got, "Mark as done by hand acme · Invoice F-12 · 4,800.00 USD") {
		t.Errorf("the decision is not headed by its subject: %s", got)
	}
}

// A person without the right sees each action disabled, with the roles that have the right. The address of the action
// shows no preview.
func TestEvent_ActionsOfOtherRoles_DisabledWithTheReason(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.parksPaid()
	eve := s.as("eve", role.Viewer)
	page := eve.get("/events/evt_1")
	if strings.Contains(page.text, "/decide?") || !strings.Contains(page.words(), "Needs the role operator or admin") {
		t.Errorf("a viewer can follow an action, or does not see who can: %s", page.words())
	}
	got := eve.get("/decide?verb=retry&target=evt_1")
	if got.StatusCode != http.StatusForbidden || strings.Contains(got.text, "What would happen") {
		t.Errorf("the decision of a viewer: %d", got.StatusCode)
	}
}

// Now shows live mode, and test mode behind its own switch. Each mode counts the problems of the other one.
func TestNow_TestMode_Apart(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason)
		select ('01890000-0000-7000-8000-00000000000' || n)::uuid, 'a', 'stripe', mode, 'evt_' || n, 'id', 'invoice.paid', now(), '', 'dead', 'effect_failed: x'
		  from (values (1, 'live'), (2, 'test'), (3, 'test')) r (n, mode)`)
	ada := s.as("ada", role.Viewer)
	for path, c := range map[string]struct{ has, lacks, other string }{
		"/":                   {"in live mode failed: a step failed", "in test mode failed", "1 problem in test mode"},
		"/?mode=test":         {"in test mode failed: a step failed", "in live mode failed", "1 problem in live mode"},
		"/overview":           {"in live mode failed: a step failed", "in test mode failed", "1 problem in test mode"},
		"/overview?mode=test": {"in test mode failed: a step failed", "in live mode failed", "1 problem in live mode"},
	} {
		words := ada.get(path).words()
		if !strings.Contains(words, c.has) || strings.Contains(words, c.lacks) || !strings.Contains(words, c.other) {
			t.Errorf("%s: want %q and %q without %q:\n%s", path, c.has, c.other, c.lacks, words)
		}
	}
}

// A page shows a future time as a duration, and omits the duration that the same text has on a terminal.
func TestSentence_DurationAfterATime_Omitted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-11-30T12:00:08Z (in 8s): pawl tries Booking again": "|TIME|: pawl tries Booking again",
		"2026-11-30T12:00:08Z (in 1h4m0s): later":                "|TIME|: later",
		"2026-11-30T12:00:08Z (in live mode)":                    "|TIME| (in live mode)",
	} {
		if got := strings.Join(console.Sentence(text), "|"); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// Lists name tasks and decisions in words, without codes and IDs.
func TestLists_TasksAndButtons_InWords(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.parksPaid()
	s.exec(`insert into tasks (mode, kind, object, account, state, title, effect_key) values ('live', 'finalization_failed', 'stripe:live:in_1', 'acme', 'open', 'look at it', 'k')`)
	ada := s.as("ada", role.Admin)
	list := ada.get("/tasks")
	if !strings.Contains(list.text, `href="/tasks/stripe:live:in_1">Correct a draft invoice</a>`) || strings.Contains(list.words(), "stripe:live:in_1") || strings.Contains(list.words(), "finalization_failed") {
		t.Errorf("the tasks: %s", list.text)
	}
	if page := ada.get("/tasks/stripe:live:in_1").words(); !strings.Contains(page, "Correct a draft invoice (live)") || strings.Contains(page, "at: nothing") || strings.Contains(page, "finalization_failed") {
		t.Errorf("the task: %s", page)
	}
	for path, want := range map[string]string{"/events?status=dead": "Retry all", "/events?status=processed": "Replay all", "/tokens": "New token"} {
		if page := ada.get(path).words(); !strings.Contains(page, want) {
			t.Errorf("%s lacks %q: %s", path, want, page)
		}
	}
}

// Before a person stops, approves or rejects an event, the page describes the result for the customer, the money and the
// e-mails, and whether it can be undone.
func TestDecide_StopApproveReject_ConsequencesInWords(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	receipts := receipt.NewStore(s.db, receipt.Options{})
	t.Cleanup(receipts.Close)
	s.operator.Outlook = process.Outlook(s.cfg, s.db, receipts)
	s.parksPaid()
	ada := s.as("ada", role.Admin)
	for _, c := range []struct {
		state, verb string
		want        []string
	}{
		{`status = 'retrying', reason = '', waits = null`, "cancel", []string{
			"customer Keeps the results of finished steps", "money An entry that is booked stays booked", "e-mails No further e-mail of this event is sent",
			`can it be undone? Yes. "Try the failed steps again"`, "then the event ends as Needs a decision: its run was cancelled"}},
		{`status = 'needs_review', reason = 'id_collision: x', workflow_id = ''`, "approve", []string{
			"customer Gets the order of the event", "money A payment is booked", "e-mails The usual e-mails are sent", "can it be undone? Only in part."}},
		{`status = 'needs_review', reason = 'id_collision: x', workflow_id = ''`, "reject", []string{
			"customer Gets nothing", "money Nothing is booked", "e-mails No e-mail is sent", `can it be undone? Yes. "Start"`}},
	} {
		s.exec(`update receipts set ` + c.state)
		page := ada.get("/decide?verb=" + c.verb + "&target=evt_1")
		words := html.UnescapeString(page.words())
		for _, want := range c.want {
			if !strings.Contains(words, want) {
				t.Errorf("%s does not contain %q: %s", c.verb, want, words)
			}
		}
		if strings.Contains(words, "no steps known yet") {
			t.Errorf("%s contains an empty table", c.verb)
		}
	}
	s.operator.CancelCompensates = true
	s.exec(`update receipts set status = 'retrying', reason = ''`)
	if words := ada.get("/decide?verb=cancel&target=evt_1").words(); !strings.Contains(words, "customer Loses the results") ||
		!strings.Contains(words, "can it be undone? No.") {
		t.Errorf("with a compensating policy, stop says %s", words)
	}
}
