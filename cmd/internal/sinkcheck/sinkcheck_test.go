package sinkcheck

import (
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// Each API of the configuration can be checked.
func TestSamples_EachAPI(t *testing.T) {
	t.Parallel()
	for _, s := range new(config.Config).AllSinks() {
		if _, written := samples[s.Name]; s.HTTP != nil && !written {
			t.Errorf("nothing says what a check sends to %s", s.Name)
		}
	}
}
