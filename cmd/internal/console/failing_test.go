package console_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/role"
)

// The start page shows each failing step of an event that pawl retries: the account, the step, the answer and the time,
// with a link. It shows an e-mail of the event that may have been sent, at once and in words.
func TestNow_RetryingEvent_StepsWithAnswerAndLink(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.parksPaid()
	s.exec(`update receipts set status = 'retrying', reason = '', waits = null`)
	s.exec(`update effects set key = 'provision-workspace:stripe:live:sub_1:1', kind = 'provision-workspace', error = 'transient: 127.0.0.1:20703 answered 503', tried_since = now() - interval '3 hours'`)
	ada := s.as("ada", role.Operator)
	now := ada.get("/")
	want := regexp.MustCompile(`No problem needs a person.* Workspace Retrying acme F-12 4,800\.00 USD .*answered 503 Service Unavailable 3 h 0 min ago evt_1`)
	if words := now.words(); !want.MatchString(words) {
		t.Errorf("the page does not match %s: %s", want, words)
	}
	for _, href := range []string{`href="/events/evt_1"`, `href="/accounts/live/acme"`} {
		if !strings.Contains(now.text, href) {
			t.Errorf("the page lacks %s", href)
		}
	}
	if words := ada.get("/?mode=test").words(); strings.Contains(words, "evt_1") {
		t.Errorf("test mode shows a live event: %s", words)
	}
	s.exec(`insert into effects (key, kind, state, attempts, receipt_id, event_id, run_id, lease_until, claimed_at, error)
		values ('receipt-email:stripe:live:in_1', 'receipt-email', 'uncertain', 1, $1, 'evt_1', '', now(), now(), 'no answer to the final dot – EOF')`, parkedID)
	now = ada.get("/")
	words := now.words()
	for _, want := range []string{"Unclear 1 step (Receipt) in live mode: it is not known whether it happened", "Open 1 step",
		"Receipt Unclear acme F-12 4,800.00 USD The mail server closed the connection before it confirmed the e-mail"} {
		if !strings.Contains(words, want) {
			t.Errorf("the page does not contain %q: %s", want, words)
		}
	}
	if !strings.Contains(now.text, `href="/effects?state=uncertain"`) {
		t.Error("the unclear step does not lead to its list")
	}
}
