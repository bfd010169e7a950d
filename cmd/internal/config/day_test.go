package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/template"
)

func TestDay_Short_PolicyIsShorter(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, "dev: {enabled: true, day: 2s}\npolicy: {subscription_wait: 2d}\n"+valid)
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[time.Duration]time.Duration{cfg.Policy.PastDueGrace: 42 * time.Second, cfg.Policy.WorkspaceRetention: time.Minute, 0: 0, 12 * time.Hour: time.Second} {
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
		"dev: {day: 2s}\n":                      "only for pawl dev",
		"dev: {enabled: true, day: 500ms}\n":    "is not between 1s and 24h",
		"dev: {enabled: true, day: 48h}\n":      "is not between 1s and 24h",
		"dev: {enabled: true, day: whenever}\n": "dev.day",
	} {
		if _, err := load(t, yaml+valid); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", yaml, err, want)
		}
	}
}

// The configuration that dev writes has the length of a day that was requested, also if it contains a user's file.
func TestDev_Day_Written(t *testing.T) {
	t.Parallel()
	merged, err := config.MergeDev(template.Dev(template.DevParams{Day: "2s"}), "own.yaml", []byte("plans:\n  features: {a: []}\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{string(template.Dev(template.DevParams{Day: "2s"})), string(merged)} {
		if !strings.Contains(content, "\n  day: 2s\n") {
			t.Errorf("no dev.day: 2s in\n%.300s", content)
		}
	}
	if content := string(template.Dev(template.DevParams{})); strings.Contains(content, "\n  day:") {
		t.Errorf("a day without being asked: %.300s", content)
	}
}
