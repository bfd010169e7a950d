package output_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/output"
)

// Control characters in text from other systems have no effect on a terminal, even in JSON, and JSON decodes to the
// same text.
func TestWriteJSON_HiddenCharacters_Escaped(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := output.Printer{Out: &out}
	const name = "a\u202eb\u0085c\U000e0001d\u2028<é>"
	if err := p.Value(map[string]string{"type": name}); err != nil {
		t.Fatal(err)
	}
	if want := `"a\u202eb\u0085c\udb40\udc01d\u2028<é>"`; !strings.Contains(out.String(), want) {
		t.Errorf("got %s, want %s", out.String(), want)
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back["type"] != name {
		t.Errorf("it reads back as %q, %v", back["type"], err)
	}
}

func TestClean_ControlCharacters_Shown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"plain é": "plain é", "a\x1b[31mb": `a\u001b[31mb`, "x\ny": `x\u000ay`, "a\u202eb": `a\u202eb`, "é\x9b31m\xff\uFFFD": "é\\x9b31m\\xff\uFFFD"} {
		if got := output.Clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for want, ago := range map[string]time.Duration{
		"0 s": -time.Second, "59 s": 59 * time.Second, "1 min": 119 * time.Second, "1 h 5 min": 65 * time.Minute, "47 h 0 min": 47 * time.Hour, "3 days": 80 * time.Hour,
	} {
		if got := output.Age(now.Add(-ago), now); got != want {
			t.Errorf("age of %s is %q, want %q", ago, got, want)
		}
	}
}

func TestShortDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{2 * time.Second: "2s", 24 * time.Hour: "24h", 90 * time.Second: "1m30s", time.Minute: "1m", 61 * time.Minute: "1h1m"} {
		if got := output.ShortDuration(d); got != want {
			t.Errorf("%s is written %q", d, got)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "", 72 * time.Hour: "3 d", 24 * time.Hour: "24 h", 10 * time.Minute: "10 min", 90 * time.Second: "90 s", 2500 * time.Millisecond: "2.5 s"} {
		if got := output.Span(d); got != want {
			t.Errorf("span(%s) = %q, want %q", d, got, want)
		}
	}
}
