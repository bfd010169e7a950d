package webhook_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
)

func TestCheckClock_Edges(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_772_366_400, 0)
	for _, c := range []struct {
		received time.Time
		class    webhook.Class
	}{
		{at, ""},
		{at.Add(300*time.Second + 999*time.Millisecond), ""},
		{at.Add(301 * time.Second), webhook.TimestampTooOld},
		{at.Add(-300 * time.Second), ""},
		{at.Add(-300*time.Second - time.Millisecond), webhook.TimestampTooNew},
		{at.Add(-100 * 365 * 24 * time.Hour), webhook.TimestampTooNew},
		// This difference does not fit into a Duration.
		{at.AddDate(-400, 0, 0), webhook.TimestampTooNew},
		{at.AddDate(400, 0, 0), webhook.TimestampTooOld},
	} {
		r := &webhook.Request{ReceivedAt: c.received}
		if class, _ := webhook.ClassOf(r.CheckClock(at, 300*time.Second)); class != c.class {
			t.Errorf("received %s after it was signed: got %q, want %q", c.received.Sub(at), class, c.class)
		}
	}
}

func TestParseUnix(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1700000000": 1700000000, "99999999999": 99999999999} {
		if got, err := webhook.ParseUnix("t", text); err != nil || got.Unix() != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "01", "+1", "-1", " 1", "1 ", "1.5", "1e9", "0x1", "1_000", "١", "100000000000", "9223372036854775808"} {
		if _, err := webhook.ParseUnix("t", text); err == nil {
			t.Errorf("%q is a time", text)
		} else if class, _ := webhook.ClassOf(err); class != webhook.MalformedHeader {
			t.Errorf("%q: got %v, want malformed_header", text, err)
		}
	}
	if got, err := webhook.ParseUnixMilli("t", "1700000000123"); err != nil || got.UnixMilli() != 1700000000123 {
		t.Errorf("milliseconds: got %v, %v", got, err)
	}
}

func TestToleranceOr(t *testing.T) {
	t.Parallel()
	for set, want := range map[time.Duration]time.Duration{
		0: time.Minute, time.Second: time.Second, 24 * time.Hour: 24 * time.Hour, -1: 0, time.Millisecond: 0, 25 * time.Hour: 0,
	} {
		got, err := webhook.Settings{Source: "s", Tolerance: set}.ToleranceOr(time.Minute)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("tolerance %s: got %s, %v, want %s", set, got, err, want)
		}
	}
}

func TestParseMoment(t *testing.T) {
	t.Parallel()
	layouts := []string{"2006-01-02 15:04:05 MST", time.RFC3339Nano}
	for text, want := range map[string]string{
		"2026-03-01 11:00:00 UTC":   "2026-03-01T11:00:00Z",
		"2026-03-01T12:00:00+01:00": "2026-03-01T11:00:00Z",
		"0001-01-01T00:00:01Z":      "0001-01-01T00:00:01Z",
		"9999-12-31T23:59:59Z":      "9999-12-31T23:59:59Z",
	} {
		if got := webhook.ParseMoment(text, layouts...); got.Format(time.RFC3339Nano) != want || got.Location() != time.UTC {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	// The last two are within the range of years in their own zone, and outside of it in UTC.
	for _, text := range []string{"", "soon", "2026-03-01", "0000-06-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"} {
		if got := webhook.ParseMoment(text, layouts...); !got.IsZero() {
			t.Errorf("%q: got %s, want none", text, got)
		}
	}
}
