package output_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pawlhq/pawl/cmd/internal/output"
)

// A list fits the terminal: texts are shortened, then columns are dropped, and IDs stay complete for copying. A pipe
// gets the complete list.
func TestList_FitsTheTerminal(t *testing.T) {
	t.Parallel()
	const id, reason = "evt_1NG8Du2eZvKYlo2CUI79vXWy", "effect_failed: finance-export:stripe:live:in_1 answered 503 for the twentieth time, and nobody knows why"
	for columns, want := range map[int]struct{ keeps, lacks string }{
		0:   {keeps: reason + " DUPLICATES SOURCE"},
		140: {keeps: id + " effect_failed: … DUPLICATES SOURCE", lacks: "nobody knows"},
		100: {keeps: id + " SOURCE effect_failed: …", lacks: "DUPLICATES"},
		80:  {keeps: id + " effect_failed: …", lacks: "SOURCE"},
	} {
		var out strings.Builder
		p := output.Printer{Out: &out, Columns: columns}
		p.List(output.Table{{"STATUS", "SOURCE", "EVENT", "DUPLICATES", "REASON"}, {"dead", "a-source-of-ours", id, "3", reason}, {"processed", "s", "evt_2", "0"}},
			"DUPLICATES", "SOURCE")
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > 0 && n > columns {
				t.Errorf("%d columns: a line of %d:\n%s", columns, n, line)
			}
		}
		for _, word := range strings.Fields(want.keeps) {
			if !strings.Contains(out.String(), word) {
				t.Errorf("%d columns lack %q:\n%s", columns, word, out.String())
			}
		}
		if want.lacks != "" && strings.Contains(out.String(), want.lacks) {
			t.Errorf("%d columns have %q:\n%s", columns, want.lacks, out.String())
		}
	}
}

func TestColumns_AsTheEnvironmentSays(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]int{"": 0, "120": 120, "wide": 0, "-1": 0} {
		if got := output.Columns(&strings.Builder{}, func(string) (string, bool) { return said, true }); got != want {
			t.Errorf("COLUMNS=%s: %d, want %d", said, got, want)
		}
	}
}
