package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/scenario"
)

func TestScenario_Unclear_Usage(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	for _, tt := range []struct{ args, want string }{
		{"--scenario nonsense", "pawl send --list tells which there are"},
		{"--scenario upgrade --type invoice.paid", "--type does not go with --scenario"},
		{"--scenario upgrade --shuffle x", "write a whole number"},
		{"--scenario upgrade --drop 1", "--drop: 1 is not between 0 and 0.9"},
		{"--scenario upgrade --duplicate NaN", "--duplicate: NaN is not between 0 and 0.9"},
		{"--scenario upgrade --delay=-1s", "--delay: -1s is negative"},
		{"--shuffle 1", "add --scenario NAME"},
	} {
		r := s.pawl(t, append([]string{"send"}, strings.Fields(tt.args)...)...)
		if r.code != exitUsage || !strings.Contains(r.err, tt.want) {
			t.Errorf("send %s: code %d, %q; want %d and %q", tt.args, r.code, r.err, exitUsage, tt.want)
		}
	}
	// One plan is sold, and it has one price.
	r := s.pawl(t, "send", "--scenario", "upgrade")
	if r.code != exitFailed || !strings.Contains(r.err, "plans.prices") {
		t.Errorf("code %d, %q; want what the shop lacks", r.code, r.err)
	}
}

func TestScenario_List(t *testing.T) {
	t.Parallel()
	r := pawl(t, nil, "send", "--list")
	for _, s := range scenario.All {
		if !strings.Contains(r.out, s.Name) || !strings.Contains(r.out, s.About) {
			t.Errorf("%s is not listed:\n%s", s.Name, r.out)
		}
	}
	if r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

// Where days have 24 hours, a story stops before the first step that lies ahead.
func TestStage_LongDays_LeaveOut(t *testing.T) {
	t.Parallel()
	story, _ := scenario.Find("card-suspended")
	shop := scenario.Shop{Low: forge.Plan{Name: "starter", Price: "price_starter", Amount: 1900, Days: 30}}
	now := time.Now()
	for day, want := range map[time.Duration]int{24 * time.Hour: 2, 2 * time.Second: len(story.Steps)} {
		laid, err := story.Lay(forge.Params{Account: "acme"}, shop, now, day)
		if err != nil {
			t.Fatal(err)
		}
		left := (&stage{cfg: &config.Config{Day: day}}).cut(&laid, now)
		if len(laid.Steps) != want || len(left) != len(story.Steps)-want {
			t.Errorf("of days of %s: %d steps are played and %d left out, want %d", day, len(laid.Steps), len(left), want)
		}
	}
}
