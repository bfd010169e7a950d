package flowtest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

// A price is mapped late, and one was mapped wrongly. The preview counts the letters that say so. They are sent where
// they are chosen: one to each customer, also when a person goes back and switches again.
func TestMeaning_LettersChosen_SentOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"price_big": "starter"}, drill{customers: 4, unmapped: 2, wrong: 1}, false)
	old, mended := process.BillingPolicy(w.Config), *w.Config
	mended.Plans.Prices = maps.Clone(mended.Plans.Prices)
	mended.Plans.Prices["price_new"], mended.Plans.Prices["price_big"] = config.Price{Plan: "pro"}, config.Price{Plan: "enterprise"}
	const kind = "subscription-changed-notice"
	switchTo := func(hash string, letters ...string) (*operator.MeaningDiff, error) {
		diff, err := operator.DiffMeaning(t.Context(), w.Pool, process.BillingPolicy(&mended), hash, nil)
		if err != nil {
			t.Fatal(err)
		}
		id := "meaning-" + uuid.NewString()[:8]
		_, err = w.operatorOver(w.Pool).Decide(t.Context(), operator.Decision{
			Verb: operator.VerbApplyMeaning, Target: diff.To, Request: id, Who: "ada", Why: "the map was wrong",
			Args: operator.Args{Found: &operator.MeaningSwitch{MeaningDiff: diff, Rate: 100, Letters: letters}},
		})
		if err == nil {
			w.finished(id)
			w.settled()
		}
		return diff, err
	}
	before := w.done("email")
	if _, err := switchTo("", kind, "receipt-email"); err == nil || !strings.Contains(err.Error(), `"receipt-email": the kinds are access-ended-notice, `+kind) {
		t.Errorf("a kind that no switch calls for: %v", err)
	}
	diff, err := switchTo("", kind)
	if err != nil || !maps.Equal(diff.Letters, map[string]int{kind: 3}) {
		t.Fatalf("the switch calls for %v, %v", diff.Letters, err)
	}
	w.until("the customers are told", func() bool { return w.done("email") == before+3 })
	for _, hash := range []string{old.Hash(), ""} { // neither asks for letters
		if _, err := switchTo(hash); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.done("email"); n != before+3 {
		t.Errorf("%d letters in the end, want %d", n, before+3)
	}
	got := w.rows(`select kind || ' ' || state from effects where kind = '` + kind + `'`)
	if want := slices.Repeat([]string{kind + " done"}, 3); !slices.Equal(got, want) {
		t.Errorf("letters in the ledger: %q, want %q", got, want)
	}
}
