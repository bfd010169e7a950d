package workflows_test

import (
	"strings"
	"testing"

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
		in := workflows.EventInput{Provider: "stripe", Account: c.account, EventID: c.event}
		if got := in.ID(); got != c.want {
			t.Errorf("account %q, event %q: got %s, want %s", c.account, c.event, got, c.want)
		}
	}
}

// Temporal takes printable ASCII of a bounded length, and an ID that two events share would let only
// one of them run.
func TestEventInput_ID_OneOfEach(t *testing.T) {
	t.Parallel()
	parts := []string{"", "a", "1", "a:1", "1:a", ":", "a:", ":1", "%3A", "a%3A1", "a:1:a", "ü", "%C3%BC", " ", "\n", strings.Repeat("ü", 100), strings.Repeat("ü", 99)}
	seen := map[string][2]string{}
	for _, account := range parts {
		for _, event := range parts {
			if event == "" {
				continue
			}
			id := workflows.EventInput{Provider: "stripe", Account: account, EventID: event}.ID()
			if other, ok := seen[id]; ok {
				t.Errorf("%q is the ID of %q and of %q", id, other, [2]string{account, event})
			}
			seen[id] = [2]string{account, event}
			if len(id) > 255 || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
				t.Errorf("account %q, event %q: %q cannot be sent to Temporal", account, event, id)
			}
		}
	}
}
