package sinkcheck

import (
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// Each API in the configuration can be checked.
func TestSamples_EachAPI(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Sinks: config.Sinks{"workspaces": {}, "finance": {}, "email": {}}}
	for _, s := range cfg.Targets() {
		if _, written := samples[s.Name]; s.HTTP != nil && !written {
			t.Errorf("no check is defined for %s", s.Name)
		}
	}
}
