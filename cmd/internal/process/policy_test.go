package process

import (
	"maps"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// Limits are written in whole units, and held in those that the provider counts.
func TestFourEyes_MinorUnits(t *testing.T) {
	t.Parallel()
	got := FourEyes(&config.Config{Policy: config.Policy{FourEyes: map[string]int{"EUR": 1000, "JPY": 100000, "KWD": 7, "USD": 0}}})
	if want := map[string]int64{"eur": 100000, "jpy": 100000, "kwd": 7000, "usd": 0}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if none := FourEyes(new(config.Config)); none != nil {
		t.Errorf("without any limit: %v", none)
	}
}
