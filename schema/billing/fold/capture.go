package fold

import (
	"slices"
	"time"
)

// Capture is one of several captures of an authorised payment: see https://docs.stripe.com/payments/multicapture.
type Capture struct {
	// Sum is the amount of this capture and all earlier captures.
	Sum int64
	At  time.Time
}

// withCapture appends a capture if it adds to the last one.
func withCapture(list []Capture, c Capture) []Capture {
	last := int64(0)
	if len(list) > 0 {
		last = list[len(list)-1].Sum
	}
	if c.Sum <= last {
		return list
	}
	return append(list, c)
}

// capturesSince returns the captures of an object. sum and captures are the values of the earlier fold; sum is 0 for a
// new object. Earlier captures stay as they are, because they may be booked. A single capture is not listed.
func capturesSince(sum int64, at time.Time, before, now []Capture) []Capture {
	list := slices.Clone(before)
	if len(list) == 0 {
		list = withCapture(nil, Capture{sum, at})
	}
	for _, c := range now {
		list = withCapture(list, c)
	}
	if len(list) < 2 {
		return nil
	}
	return list
}
