package throttle

import (
	"net/netip"
	"sync"
)

// Slots shares out how many deliveries are worked on at once. Make one with [NewSlots]; it is safe for concurrent use.
//
// One sender to a source gets no more slots than it leaves free, which is half of them, and one source no more than
// three times as many as it leaves free. So a sender leaves room for the others of its source, and a source for other
// sources.
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

// Take takes a slot for a delivery of addr to source, and reports false if no slot can be had. Each slot is given
// back by calling release, once.
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
