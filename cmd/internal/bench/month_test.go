package bench

import "testing"

// Of a hundred events in a row, each share has as many as it says.
func TestShareOf_AddsUp(t *testing.T) {
	t.Parallel()
	got := map[string]int{}
	for n := range 200 {
		got[shareOf(n).eventType]++
	}
	for _, s := range month {
		if got[s.eventType] != 2*s.percent {
			t.Errorf("%s: %d of 200, want %d", s.eventType, got[s.eventType], 2*s.percent)
		}
	}
}
