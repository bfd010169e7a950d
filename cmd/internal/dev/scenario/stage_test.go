package scenario

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
)

// If a day takes 24 hours, a scenario stops before the first step in the future.
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

// A scenario reports its requirements: ordered delivery if its workspace API refuses requests, and a policy under
// which events wait for the account.
func TestScenario_Lacks(t *testing.T) {
	t.Parallel()
	shop := Shop{Low: forge.Plan{Price: "price_starter"}, High: forge.Plan{Price: "price_pro"}}
	for _, tt := range []struct {
		name         string
		storm, waits bool
		lacks        bool
	}{
		{"refused-upgrade", false, false, false}, {"refused-upgrade", true, true, true},
		{"checkout", false, true, false}, {"checkout", true, true, false}, {"checkout", false, false, true}, {"upgrade", true, false, false},
	} {
		story, _ := Find(tt.name)
		if shop.Waits = tt.waits; (story.Lacks(shop, tt.storm) != "") != tt.lacks {
			t.Errorf("%+v: it lacks %q", tt, story.Lacks(shop, tt.storm))
		}
	}
}
