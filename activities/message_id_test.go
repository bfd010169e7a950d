package activities

import (
	"strings"
	"testing"
)

func TestMessageID_StableAndItsOwn(t *testing.T) {
	t.Parallel()
	key := "receipt-email:stripe:live:in_1"
	id := messageID(key, "Pawl <billing@pawl.test>")
	if id != messageID(key, "billing@pawl.test") || !strings.HasSuffix(id, "@pawl.test") || !strings.HasPrefix(id, "receipt-email.stripe.live.in_1.") {
		t.Errorf("message ID %q", id)
	}
	for _, other := range []string{key + ":g2", "receipt-email:stripe:live:in.1", strings.Repeat("x", 500), strings.Repeat("x", 501), "ü\r\n<>"} {
		got := messageID(other, "nobody")
		if got == id || len(got) > 120 || strings.ContainsAny(got, "\r\n<> ü") || got != messageID(other, "nobody") {
			t.Errorf("message ID of %q is %q", other, got)
		}
	}
	if messageID(strings.Repeat("x", 500), "a@b") == messageID(strings.Repeat("x", 501), "a@b") {
		t.Error("two keys share an ID")
	}
}
