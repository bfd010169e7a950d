package output

import (
	"fmt"
	"strings"
	"time"
)

// The layouts for times in a table. They contain the time zone, so that a time can be copied into a flag.
const (
	timeLayout = "2006-01-02 15:04:05.000 Z07:00"
	dateLayout = "2006-01-02 15:04:05 Z07:00"
)

// Time formats a time for a table.
func Time(t time.Time) string { return t.Local().Format(timeLayout) }

// Date formats a time of the provider for a table. Such times have whole seconds. It returns "" for nil.
func Date(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format(dateLayout)
}

// Plural returns "1 event" or "2 events".
func Plural(n int, noun string) string {
	if n != 1 && strings.HasSuffix(noun, "y") {
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	}
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// OneOf returns "a", "a or b", "a, b or c".
func OneOf(names []string) string {
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}

// WithReason formats a reason to be appended to a statement. It returns "" for an empty reason.
func WithReason(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// Age formats the time between at and now.
func Age(at, now time.Time) string { return Roughly(max(0, now.Sub(at))) }

// Roughly formats a duration in one or two units.
func Roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Seconds formats a short duration with few digits. It formats a long duration like [Roughly].
func Seconds(s float64) string {
	d := time.Duration(max(s, 0) * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return Roughly(d)
}

// Span formats a duration in its largest whole unit: 72h is "3 d", 90s is "90 s".
func Span(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d >= 48*time.Hour && d%(24*time.Hour) == 0:
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// ShortDuration formats a duration without trailing zeros: 2s, 24h, 1m30s.
func ShortDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// FirstLine returns the first line of an error. An error of connecting has one line per address.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// ParseTime parses a cell that was written by [Time] or [Date], and a time in UTC of a message.
func ParseTime(cell string) (time.Time, bool) {
	for _, layout := range []string{timeLayout, dateLayout, time.RFC3339, "2006-01-02 15:04 UTC"} {
		if strings.HasSuffix(layout, "UTC") {
			if t, err := time.ParseInLocation(layout, cell, time.UTC); err == nil {
				return t, true
			}
			continue
		}
		if t, err := time.ParseInLocation(layout, cell, time.Local); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// Middle shortens a long ID in the middle, so that its beginning and its end stay readable.
func Middle(id string) string {
	runes := []rune(id)
	if len(runes) <= longestID || strings.ContainsRune(id, ' ') {
		return id
	}
	return string(runes[:longestID/2+2]) + "…" + string(runes[len(runes)-longestID/2+3:])
}

// longestID is the length of the longest ID that [Middle] does not shorten.
const longestID = 28

// Bytes formats a size, such as "1.5 GiB".
func Bytes(n int64) string {
	const k = 1 << 10
	switch {
	case n >= k*k*k || n <= -k*k*k:
		return fmt.Sprintf("%.1f GiB", float64(n)/(k*k*k))
	case n >= k*k || n <= -k*k:
		return fmt.Sprintf("%.1f MiB", float64(n)/(k*k))
	}
	return fmt.Sprintf("%d KiB", n/k)
}
