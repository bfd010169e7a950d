package webhook

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// MaxTolerance is the largest clock tolerance of a source. A larger one would not bound anything.
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

// CheckClock compares the signed time with the receive time, in both directions and in whole seconds. It accepts a
// difference of exactly the tolerance. Senders stamp whole seconds, so comparing a fraction would reject a delivery
// that is in time by the sender's clock.
func (r *Request) CheckClock(signed time.Time, tolerance time.Duration) error {
	return r.checkClock(signed, tolerance, time.Second)
}

// CheckClockMilli is [Request.CheckClock] for senders that stamp milliseconds.
func (r *Request) CheckClockMilli(signed time.Time, tolerance time.Duration) error {
	return r.checkClock(signed, tolerance, time.Millisecond)
}

func (r *Request) checkClock(signed time.Time, tolerance, unit time.Duration) error {
	// For times that are centuries apart, Sub returns the least Duration, which has no negation.
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

// ParseUnix parses a time in whole seconds since 1970, as senders write it: ASCII digits without sign, space or leading
// zero. It rejects the other forms that strconv accepts, because they would be different header bytes for one time. It
// accepts at most 11 digits (the year 5138) and so rejects milliseconds. Its error has class [MalformedHeader] and
// names the text.
func ParseUnix(name, text string) (time.Time, error) {
	n, err := parseDigits(name, text, 11, "seconds")
	return time.Unix(n, 0), err
}

// ParseUnixMilli is [ParseUnix] for milliseconds, with at most 14 digits.
func ParseUnixMilli(name, text string) (time.Time, error) {
	n, err := parseDigits(name, text, 14, "milliseconds")
	return time.UnixMilli(n), err
}

// ParseMoment parses text by the first layout that matches and returns the time in UTC. It returns the zero time if no
// layout matches or if the year in UTC is outside of 1 to 9999, which JSON cannot represent.
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
