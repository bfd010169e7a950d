package config_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

const aDay = 24 * time.Hour

func TestLoad_Retention(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Retention{
		"": {Payloads: 90 * aDay, Redeliveries: 90 * aDay, Runs: 400 * aDay, PublishedEvents: 30 * aDay, Jobs: 90 * aDay},
		"retention: {payloads: 0, redeliveries: 0, runs: 0d, published_events: 0s, jobs: 0, disk: 500GiB}": {Disk: 500 << 30},
		"retention: {payloads: 14d, redeliveries: 1d, runs: 30d, published_events: 1d, jobs: 1d, disk: 100GB}": {
			Payloads: 14 * aDay, Redeliveries: aDay, Runs: 30 * aDay, PublishedEvents: aDay, Jobs: aDay, Disk: 100e9},
	} {
		if cfg, err := load(t, noSinks+"\n"+text+"\n"); err != nil || cfg.Retention != want {
			t.Errorf("%q: %+v, %v; want %+v", text, cfg, err, want)
		}
	}
}

// A shorter time would delete rows that pawl still needs.
func TestLoad_Retention_Faults(t *testing.T) {
	t.Parallel()
	wantFaults(t, faultsOf(t, noSinks+`
retention: {payloads: 13d, redeliveries: 23h, runs: 29d, published_events: 1h, jobs: 1m, disk: 40MiB or so}
`), map[string]string{
		"retention.payloads": "is shorter than 14d", "retention.redeliveries": "is shorter than 1d", "retention.runs": "is shorter than 30d",
		"retention.published_events": "is shorter than 1d", "retention.jobs": "is shorter than 1d", "retention.disk": "500GiB",
	})
	wantFaults(t, faultsOf(t, noSinks+`
retention: {payloads: -90d}
`), map[string]string{"retention.payloads": "negative"})
}
