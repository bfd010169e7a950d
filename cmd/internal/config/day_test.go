package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

func TestDay_Short_PolicyIsShorter(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, "dev: true\nday: 2s\npolicy: {settle: 2d}\n"+valid)
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[time.Duration]time.Duration{cfg.Policy.Grace: 42 * time.Second, cfg.Policy.Keep: time.Minute, 0: 0, 12 * time.Hour: time.Second} {
		if got := cfg.Lasts(of); got != want {
			t.Errorf("%s lasts %s, want %s", of, got, want)
		}
	}
	if got := cfg.Settles(); got != 10*time.Second {
		t.Errorf("what settles in 2 days gets %s, want 10s: deliveries take their time", got)
	}
	if cfg, err = load(t, valid); err != nil || cfg.Lasts(time.Hour) != time.Hour || cfg.Settles() != 10*time.Minute {
		t.Errorf("without day: an hour lasts %s, and what settles gets %s (%v)", cfg.Lasts(time.Hour), cfg.Settles(), err)
	}
}

func TestDay_Unusable_Refused(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"day: 2s\n":                  "only for pawl dev",
		"dev: true\nday: 500ms\n":    "is not between 1s and 24h",
		"dev: true\nday: 48h\n":      "is not between 1s and 24h",
		"dev: true\nday: whenever\n": "day",
	} {
		if _, err := load(t, yaml+valid); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", yaml, err, want)
		}
	}
}

// What dev writes has the day that it was given, also with a file of one's own.
func TestDev_Day_Written(t *testing.T) {
	t.Parallel()
	merged, err := config.DevOf(config.DevParams{Day: "2s"}, "own.yaml", []byte("plans:\n  features: {a: []}\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{string(config.Dev(config.DevParams{Day: "2s"})), string(merged)} {
		if !strings.Contains(content, "\nday: 2s\n") {
			t.Errorf("no day: 2s in\n%.300s", content)
		}
	}
	if content := string(config.Dev(config.DevParams{})); strings.Contains(content, "\nday:") {
		t.Errorf("a day without being asked: %.300s", content)
	}
}
