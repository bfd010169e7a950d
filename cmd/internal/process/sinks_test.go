package process

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/workflows"
)

// Each kind of effect that leaves our database is tried for as long as its sink is configured to take. A kind whose sink
// had no time-out would be cut off at that of our own rows: behind a mail's point of no return, that leaves it in doubt.
func TestSinkSettings_EachKind_TriedAsLongAsItsSinkTakes(t *testing.T) {
	t.Parallel()
	c := &config.Config{}
	c.Sinks.Workspaces.Timeout, c.Sinks.Finance.Timeout, c.Sinks.Email.Timeout = 31*time.Second, 32*time.Second, 33*time.Second
	want := map[string]time.Duration{
		workflows.SinkWorkspaces: 31 * time.Second, workflows.SinkFinance: 32 * time.Second, workflows.SinkMail: 33 * time.Second, workflows.SinkStripe: fetchTimeout,
	}
	settings := sinkSettings(c)
	for _, kind := range workflows.Catalogue() {
		if kind.Sink == workflows.SinkDatabase || kind.Sink == workflows.SinkConsumers { // each consumer has settings of its own
			continue
		}
		if got := settings[kind.Sink].Timeout; got == 0 || got != want[kind.Sink] {
			t.Errorf("%s is tried for %s, want the %s of %s", kind.Name, got, want[kind.Sink], kind.Sink)
		}
	}
}
