package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/workflows"
)

func TestEventInput_ID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ account, event, want string }{
		{"", "evt_123", "stripe:evt_123"},
		{"acct_9", "evt_123", "stripe:acct_9:evt_123"},
		{"Shop", "P1:AUTHORISATION:true", "stripe:Shop:P1:AUTHORISATION:true"},
		{"", "sha256:00ff", "stripe::sha256:00ff"},
		{"https://a/", "1", "stripe:https%3A//a/:1"},
		{"ü.example", "a b", "stripe:%C3%BC.example:a%20b"},
		{"", "a%20b", "stripe:a%2520b"},
		{"", "é\x7f\n", "stripe:%C3%A9%7F%0A"},
	} {
		in := workflows.EventInput{Ref: event.Ref{Provider: "stripe", Account: c.account, EventID: c.event}}
		if got := in.ID(); got != c.want {
			t.Errorf("account %q, event %q: got %s, want %s", c.account, c.event, got, c.want)
		}
	}
}

// The run's ID contains the due time of the scheduled actions, so pawl can start the run again after Temporal has
// deleted it.
func TestDueOf(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 22, 0, 0, 10, 0, time.UTC)
	for account, want := range map[string]string{
		"acme": "due:live:acme:20260322T000010Z", "a:b c": "due:live:a%3Ab%20c:20260322T000010Z", "ü%": "due:live:%C3%BC%25:20260322T000010Z",
	} {
		id := workflows.EventInput{Ref: event.Ref{Provider: "stripe", EventID: "evt_1", Mode: "live"}, Due: &workflows.DueInput{Account: account, At: at}}.ID()
		if due, ok := workflows.DueOf(id); id != want || !ok || due.Account != account || !due.At.Equal(at) {
			t.Errorf("%s: ID %s, want %s; read as %+v, %v", account, id, want, due, ok)
		}
	}
	later := workflows.EventInput{Ref: event.Ref{Mode: "live"}, Due: &workflows.DueInput{Account: "acme", At: at.Add(1500 * time.Millisecond)}}.ID()
	if due, ok := workflows.DueOf(later); !ok || !due.At.Equal(at.Add(1500*time.Millisecond)) {
		t.Errorf("%s is read as %+v, %v", later, due, ok)
	}
	for _, id := range []string{"", "stripe:evt_1", "due:live:acme:soon", "due:live:acme", "sha256:00", "due:live:acme:20260322T000010Z:0"} {
		if due, ok := workflows.DueOf(id); ok {
			t.Errorf("%q is read as %+v", id, due)
		}
	}
}

// An ID must be printable ASCII of limited length. If two events shared an ID, only one of them would run.
func TestEventInput_ID_OneOfEach(t *testing.T) {
	t.Parallel()
	parts := []string{"", "a", "1", "a:1", "1:a", ":", "a:", ":1", "%3A", "a%3A1", "a:1:a", "ü", "%C3%BC", " ", "\n", strings.Repeat("ü", 100), strings.Repeat("ü", 99)}
	seen := map[string][2]string{}
	for _, account := range parts {
		for _, eventID := range parts {
			if eventID == "" {
				continue
			}
			id := workflows.EventInput{Ref: event.Ref{Provider: "stripe", Account: account, EventID: eventID}}.ID()
			if other, ok := seen[id]; ok {
				t.Errorf("%q is the ID of %q and of %q", id, other, [2]string{account, eventID})
			}
			seen[id] = [2]string{account, eventID}
			if len(id) > 255 || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
				t.Errorf("account %q, event %q: %q cannot be sent to Temporal", account, eventID, id)
			}
		}
	}
}
