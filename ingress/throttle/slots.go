package throttle

import (
	"net/netip"
	"sync"
)

// Slots limits how many deliveries are processed at once. Make one with [NewSlots]; it is safe for concurrent use.
//
// If there is no other sender, one sender to a source gets at most half of the slots, and one source at most three
// quarters. When more senders are active, each of them gets less. So there is always a free slot for other senders and
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

// NewSlots returns Slots with most slots.
func NewSlots(most int) *Slots {
	return &Slots{free: most, bySender: map[slot]int{}, bySource: map[string]int{}}
}

// Take reserves a slot for a delivery from addr to source. It returns false if no slot is available. The caller must
// call release once.
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
