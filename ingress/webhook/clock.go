package webhook

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// MaxTolerance is the largest clock tolerance that a source may set.
const MaxTolerance = 24 * time.Hour

// ToleranceOr returns the source's clock tolerance, or standard if the source sets none.
func (s Settings) ToleranceOr(standard time.Duration) (time.Duration, error) {
	switch {
	case s.Tolerance == 0:
		return standard, nil
	case s.Tolerance < time.Second || s.Tolerance > MaxTolerance:
		return 0, fmt.Errorf("source %s: tolerance: %s is not between 1s and %s; leave it out for the provider's default of %s",
			s.Source, s.Tolerance, MaxTolerance, standard)
	}
	return s.Tolerance, nil
}

// CheckClock rejects r if its signed time and its receive time differ by more than the tolerance, in either direction.
// It compares whole seconds, because senders sign whole seconds: a comparison with fractions would reject a delivery
// that is in time by the sender's clock.
func (r *Request) CheckClock(signed time.Time, tolerance time.Duration) error {
	return r.checkClock(signed, tolerance, time.Second)
}

// CheckClockMilli is [Request.CheckClock] for senders that sign the time in milliseconds.
func (r *Request) CheckClockMilli(signed time.Time, tolerance time.Duration) error {
	return r.checkClock(signed, tolerance, time.Millisecond)
}

func (r *Request) checkClock(signed time.Time, tolerance, unit time.Duration) error {
	// If the times are centuries apart, Sub returns the smallest Duration, which cannot be negated.
	age := max(r.ReceivedAt.Truncate(unit).Sub(signed.Truncate(unit)), -math.MaxInt64)
	switch {
	case age > tolerance:
		return &Error{Class: TimestampTooOld,
			Detail: fmt.Sprintf("signed %s before it was received; the tolerance is %s", age, tolerance), Skew: age}
	case -age > tolerance:
		return &Error{Class: TimestampTooNew,
			Detail: fmt.Sprintf("signed %s after it was received; the tolerance is %s", -age, tolerance), Skew: age}
	}
	return nil
}

// ParseUnix parses a time in whole seconds since 1970: ASCII digits without sign, space or leading zero. It rejects the
// other forms that strconv accepts, so that each time has only one spelling. It accepts at most 11 digits (the year
// 5138), so it rejects a time in milliseconds. Its error has class [MalformedHeader] and contains name.
func ParseUnix(name, text string) (time.Time, error) {
	n, err := parseDigits(name, text, 11, "seconds")
	return time.Unix(n, 0), err
}

// ParseUnixMilli is [ParseUnix] for milliseconds. It accepts at most 14 digits.
func ParseUnixMilli(name, text string) (time.Time, error) {
	n, err := parseDigits(name, text, 14, "milliseconds")
	return time.UnixMilli(n), err
}

// ParseMoment parses text by the first layout that matches and returns the time in UTC. It returns the zero time if no
// layout matches. It also returns the zero time for a year outside of 1 to 9999, because encoding/json cannot encode
// it.
func ParseMoment(text string, layouts ...string) time.Time {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
				return time.Time{}
			}
			return t
		}
	}
	return time.Time{}
}

func parseDigits(name, text string, most int, unit string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63) // accepts no sign
	if err != nil || len(text) > most || text[0] == '0' && len(text) > 1 {
		return 0, Errorf(MalformedHeader, "%s is not a time in %s", name, unit)
	}
	return int64(n), nil
}
