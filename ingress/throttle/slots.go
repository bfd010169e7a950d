package throttle

import (
	"net/netip"
	"sync"
)

// Slots bounds how many deliveries are processed at once. Make one with [NewSlots]; it is safe for concurrent use.
//
// One sender to a source gets at most as many slots as it leaves free, which is half of them, and one source at most
// three times as many as it leaves free. So a sender leaves room for other senders of its source, and a source for
// other sources.
type Slots struct {
	mu       sync.Mutex
	free     int
	bySender map[slot]int
	bySource map[string]int
}

type slot struct {
	source string
	sender netip.Addr
}

// NewSlots returns most slots.
func NewSlots(most int) *Slots {
	return &Slots{free: most, bySender: map[slot]int{}, bySource: map[string]int{}}
}

// Take takes a slot for a delivery of addr to source. It returns false if no slot is available. The caller returns the
// slot by calling release once.
func (s *Slots) Take(source string, addr netip.Addr) (release func(), ok bool) {
	of := slot{source, Network(addr)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 || s.bySender[of] > s.free || s.bySource[source] > 3*s.free {
		return nil, false
	}
	s.free--
	s.bySender[of]++
	s.bySource[source]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free++
		s.bySource[source]--
		takeOff(s.bySender, of, 1)
	}, true
}
