package command

import (
	"testing"
	"time"
)

func TestMoment(t *testing.T) {
	t.Parallel()
	shown := time.Date(2026, 11, 22, 8, 0, 0, 123e6, time.FixedZone("", 3600))
	if at, err := moment(shown.Format("2006-01-02 15:04:05.000 Z07:00"), time.Now()); err != nil || !at.Equal(shown) {
		t.Errorf("a time as a table has it is read as %s, %v", at, err)
	}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"90m": now.Add(-90 * time.Minute), "7d": now.AddDate(0, 0, -7), "2026-11-20": time.Date(2026, 11, 20, 0, 0, 0, 0, time.Local),
		"2026-11-20T08:00:00Z": time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC),
	} {
		if got, err := moment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("moment(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1h", "-3d", "d", "1 d", "22.11.2026"} {
		if got, err := moment(text, now); err == nil {
			t.Errorf("moment(%q) = %v, want an error", text, got)
		}
	}
}
