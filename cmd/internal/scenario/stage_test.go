package scenario

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/forge"
)

// Where days have 24 hours, a story stops before the first step that lies ahead.
func TestStage_LongDays_LeaveOut(t *testing.T) {
	t.Parallel()
	story, _ := Find("card-suspended")
	shop := Shop{Low: forge.Plan{Name: "starter", Price: "price_starter", Amount: 1900, Days: 30}}
	now := time.Now()
	for day, want := range map[time.Duration]int{24 * time.Hour: 2, 2 * time.Second: len(story.Steps)} {
		laid, left, err := (&Stage{Day: day, Shop: shop}).lay(story, forge.Params{Account: "acme"}, now)
		if err != nil {
			t.Fatal(err)
		}
		if len(laid.Steps) != want || len(left) != len(story.Steps)-want {
			t.Errorf("of days of %s: %d steps are played and %d left out, want %d", day, len(laid.Steps), len(left), want)
		}
	}
}
