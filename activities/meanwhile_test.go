package activities_test

import (
	"testing"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/ledger"
)

func TestDoneMeanwhile(t *testing.T) {
	t.Parallel()
	by := func(event string, state ledger.State) effect.Standing {
		return effect.Standing{EventID: event, State: state}
	}
	for name, c := range map[string]struct {
		stands map[string]effect.Standing
		late   bool
	}{
		"all by another":      {map[string]effect.Standing{"a": by("evt_2", ledger.Done), "b": by("evt_2", ledger.Skipped)}, true},
		"one is open":         {map[string]effect.Standing{"a": by("evt_2", ledger.Done), "b": by("evt_2", ledger.Failed)}, false},
		"one is not there":    {map[string]effect.Standing{"a": by("evt_2", ledger.Done)}, false},
		"by its own lost try": {map[string]effect.Standing{"a": by("evt_2", ledger.Done), "b": by("evt_1", ledger.Skipped)}, false},
	} {
		if got := activities.DoneMeanwhile("evt_1", []string{"a", "b"}, c.stands); (got != "") != c.late {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := activities.DoneMeanwhile("evt_1", nil, nil); got != "" {
		t.Errorf("a run that waits for no effect: %q", got)
	}
}
