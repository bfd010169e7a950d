package throttle

import (
	"cmp"
	"net/netip"
	"sync"
)

// Memory shares a number of bytes out among the bodies that are being read. Make one with [NewMemory]; it is safe for
// concurrent use.
//
// When all is taken, the unfinished body goes whose sender, or whose source, holds most; of those the largest. So a
// sender and a source have what the others leave, and in a crowd no more than each of them. A body that is whole is
// never taken away, and counts against nobody.
type Memory struct {
	most int64

	mu   sync.Mutex
	held int64
	// leaving is the part of held that bodies have which were shed and are not released yet.
	leaving  int64
	released *sync.Cond
	open     map[*Body]struct{}
	bySender map[netip.Addr]int64
	bySource map[string]int64
}

const (
	// small is the size up to which a body may use the reserve.
	small = 64 << 10
	// reserve is the part of all bytes that only small bodies get: 1/16.
	reserve = 16
	// leavers is the part of all bytes that may be on their way back from bodies that were shed, 1/8, while others
	// take them already. Beyond that only small bodies take: strangers must not fill memory faster than it is freed.
	leavers = 8
)

// NewMemory returns room for most bytes.
func NewMemory(most int64) *Memory {
	m := &Memory{most: most, open: map[*Body]struct{}{}, bySender: map[netip.Addr]int64{}, bySource: map[string]int64{}}
	m.released = sync.NewCond(&m.mu)
	return m
}

// Held returns how many bytes are taken.
func (m *Memory) Held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// settle takes b out of those that can be shed and count against somebody. m.mu is held.
func (m *Memory) settle(b *Body) {
	if _, ok := m.open[b]; !ok {
		return
	}
	delete(m.open, b)
	takeOff(m.bySender, b.sender, b.bytes)
	m.bySource[b.source] -= b.bytes
}

// greediest returns the body that goes. m.mu is held, and some body is open.
func (m *Memory) greediest() *Body {
	var most *Body
	for b := range m.open {
		if most == nil || m.greedier(b, most) > 0 {
			most = b
		}
	}
	return most
}

func (m *Memory) greedier(a, b *Body) int {
	return cmp.Or(
		cmp.Compare(max(m.bySender[a.sender], m.bySource[a.source]), max(m.bySender[b.sender], m.bySource[b.source])),
		cmp.Compare(m.bySender[a.sender], m.bySender[b.sender]),
		cmp.Compare(a.bytes, b.bytes))
}

// drop ends the reading of b, whose bytes are held until it is released. m.mu is held.
func (m *Memory) drop(b *Body) {
	m.settle(b)
	b.shed = true
	m.leaving += b.bytes
	b.cut()
	m.released.Broadcast() // b may wait itself
}

// Body is what one body takes of [Memory]. A nil one takes nothing: it can be whole, shed it never is.
type Body struct {
	memory *Memory
	sender netip.Addr
	source string
	cut    func()

	// These are guarded by memory.mu.
	bytes int64
	shed  bool
}

// Body returns a body of sender for source that has no bytes yet. cut must end its reading without waiting. It is
// called when the body has to go, which must then be released soon, and never after [Body.Whole] or [Body.Release].
func (m *Memory) Body(sender netip.Addr, source string, cut func()) *Body {
	return &Body{memory: m, sender: Network(sender), source: source, cut: cut}
}

// Take takes n bytes more, from other bodies where it must. A body that is not small may have to wait until bodies that
// were shed are released. It reports false when the body itself has to go or is gone.
func (b *Body) Take(n int64) bool {
	m := b.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for b.bytes+n > small && m.leaving > m.most/leavers && !b.shed {
		m.released.Wait()
	}
	if b.shed {
		return false
	}
	m.open[b] = struct{}{}
	b.bytes += n
	m.held += n
	m.bySender[b.sender] += n
	m.bySource[b.source] += n
	most := m.most
	if b.bytes > small {
		most -= m.most / reserve
	}
	for m.held-m.leaving > most && !b.shed {
		m.drop(m.greediest())
	}
	return !b.shed
}

// Whole tells that the body has come to its end: it counts against nobody, and its bytes are held until
// [Body.Release]. It reports false when the body was shed before.
func (b *Body) Whole() bool {
	if b == nil {
		return true
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	b.memory.settle(b)
	return !b.shed
}

// Shed reports whether the body was taken away.
func (b *Body) Shed() bool {
	if b == nil {
		return false
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	return b.shed
}

// Release gives everything back. It may be called twice.
func (b *Body) Release() {
	if b == nil {
		return
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	b.memory.settle(b)
	b.memory.held -= b.bytes
	if b.shed {
		b.memory.leaving -= b.bytes
		b.memory.released.Broadcast()
	}
	b.bytes = 0
}
