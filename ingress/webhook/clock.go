package webhook

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// MaxTolerance is the widest clock tolerance that a source may have. Wider would mean none.
const MaxTolerance = 24 * time.Hour

// ToleranceOr returns the source's clock tolerance, or standard where none is set.
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

// CheckClock compares the signed time with the receive time, in both directions, in whole
// seconds: a difference of exactly the tolerance is accepted. Senders stamp whole seconds, so a
// fraction on our side would refuse a delivery that is in time by their clock.
func (r *Request) CheckClock(signed time.Time, tolerance time.Duration) error {
	return r.checkClock(signed, tolerance, time.Second)
}

// CheckClockMilli is [Request.CheckClock] for senders that stamp milliseconds.
func (r *Request) CheckClockMilli(signed time.Time, tolerance time.Duration) error {
	return r.checkClock(signed, tolerance, time.Millisecond)
}

func (r *Request) checkClock(signed time.Time, tolerance, unit time.Duration) error {
	// Sub gives the least Duration for times that are centuries apart, and that one has no negative.
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

// ParseUnix reads a time in whole seconds since 1970, written as senders write it: ASCII digits
// without sign, space or leading zero. Other forms that strconv accepts would be other header
// bytes for one time. It takes at most 11 digits (the year 5138), which keeps milliseconds out.
// Its error is of class [MalformedHeader] and calls the text by name.
func ParseUnix(name, text string) (time.Time, error) {
	n, err := parseDigits(name, text, 11, "seconds")
	return time.Unix(n, 0), err
}

// ParseUnixMilli is [ParseUnix] for milliseconds, with at most 14 digits.
func ParseUnixMilli(name, text string) (time.Time, error) {
	n, err := parseDigits(name, text, 14, "milliseconds")
	return time.UnixMilli(n), err
}

// ParseMoment returns the time that text tells in the first of the layouts that fits, in UTC. It is the
// zero time where none fits, and where the year in UTC is not one of 1 to 9999, which JSON cannot hold.
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
	n, err := strconv.ParseUint(text, 10, 63) // takes no sign
	if err != nil || len(text) > most || text[0] == '0' && len(text) > 1 {
		return 0, Errorf(MalformedHeader, "%s is not a time in %s", name, unit)
	}
	return int64(n), nil
}
