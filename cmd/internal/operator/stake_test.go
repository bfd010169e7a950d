package operator

import (
	"maps"
	"testing"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// An entry counts once if the decision changes it, in either direction. One that stays counts in a review alone.
func TestStake_ByWhatHappensToEntries(t *testing.T) {
	counts := map[workflows.Will]bool{workflows.WillRun: true, workflows.WillRunLater: true, workflows.WillTakeBack: true,
		workflows.WillRunAndTakeBack: true, workflows.WillSkip: true, workflows.WillMark: true, workflows.WillLeave: true}
	out, tax := int64(-700), int64(0)
	for _, will := range workflows.Wills() {
		for _, review := range []bool{false, true} {
			p := newPreview(VerbApprove, nil)
			if review {
				p.Receipt = timeline.Receipt{Status: string(receipt.NeedsReview), ReasonCode: receipt.IDCollision}
			}
			p.Effects = []workflows.PreviewedEffect{
				{Key: "finance-export:x", Will: will, Amount: &out, Currency: "eur"},
				{Key: "reverse:x", Undoes: "finance-export:x", Will: will, Amount: &out, Currency: "eur"},
				{Key: "finance-export:y", Will: will, Amount: &tax, Currency: "usd"}, {Key: "receipt-email:x", Will: will},
			}
			s := newStake()
			s.preview(p)
			want := map[string]int64{}
			if counts[will] || review && will == workflows.WillStay {
				want["eur"] = 700
			}
			if got := s.money(); !maps.Equal(got, want) {
				t.Errorf("%s, in a review %t: %v, want %v", will, review, got, want)
			}
			if at, over := s.over(map[string]int64{"eur": 700}), s.over(map[string]int64{"usd": 700}); at || over != (len(want) > 0) {
				t.Errorf("%s: over its own amount %t, over another currency's %t", will, at, over)
			}
		}
	}
	asks := newStake()
	asks.preview(&Preview{Previewed: workflows.Previewed{Asks: true}})
	if !asks.over(map[string]int64{"eur": 1}) {
		t.Error("the provider is asked first: how much it is, nobody knows")
	}
}
