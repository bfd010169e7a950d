package throttle

import (
	"cmp"
	"net/netip"
	"sync"
)

// Memory divides a number of bytes among the bodies that are being read. Make one with [NewMemory]; it is safe for
// concurrent use.
//
// If all bytes are taken, Memory sheds the largest unfinished body of the sender, or of the source, that holds most
// bytes. So under load each sender and each source gets at most an equal share. A body that has been read completely is
// never shed, and its bytes count against no sender or source.
type Memory struct {
	most int64

	mu   sync.Mutex
	held int64
	// leaving counts the bytes in held of bodies that were shed and are not released yet.
	leaving  int64
	released *sync.Cond
	open     map[*Body]struct{}
	bySender map[netip.Addr]int64
	bySource map[string]int64
}

const (
	// small is the largest size of a body that may use the reserve.
	small = 64 << 10
	// reserve is the part of all bytes that only small bodies may take: 1/16.
	reserve = 16
	// leavers is the part of all bytes, 1/8, that shed bodies may still occupy while other bodies take their place.
	// Beyond that, only small bodies take bytes: senders must not fill memory faster than it is freed.
	leavers = 8
)

// NewMemory returns a Memory of most bytes.
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

// settle removes b from the bodies that can be shed and from the counts of its sender and source. m.mu is held.
func (m *Memory) settle(b *Body) {
	if _, ok := m.open[b]; !ok {
		return
	}
	delete(m.open, b)
	takeOff(m.bySender, b.sender, b.bytes)
	m.bySource[b.source] -= b.bytes
}

// greediest returns the body to shed. m.mu is held, and some body is open.
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

// drop ends the reading of b. Its bytes stay taken until b is released. m.mu is held.
func (m *Memory) drop(b *Body) {
	m.settle(b)
	b.shed = true
	m.leaving += b.bytes
	b.cut()
	m.released.Broadcast() // b itself may be waiting
}

// Body is the share of one body in [Memory]. A nil Body takes nothing and is never shed.
type Body struct {
	memory *Memory
	sender netip.Addr
	source string
	cut    func()

	// memory.mu guards the fields below.
	bytes int64
	shed  bool
}

// Body returns an empty body of sender for source. cut must end the reading of the body without waiting. Memory calls
// it when the body is shed, which must then be released soon. It never calls it after [Body.Whole] or [Body.Release].
func (m *Memory) Body(sender netip.Addr, source string, cut func()) *Body {
	return &Body{memory: m, sender: Network(sender), source: source, cut: cut}
}

// Take takes n more bytes, if necessary from other bodies. A body that is not small may have to wait until shed bodies
// are released. It returns false if the body itself is shed.
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

// Whole records that the body has been read completely. It then counts against no sender or source, and keeps its bytes
// until [Body.Release]. Whole returns false if the body was shed before.
func (b *Body) Whole() bool {
	if b == nil {
		return true
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	b.memory.settle(b)
	return !b.shed
}

// Shed reports whether the body was shed.
func (b *Body) Shed() bool {
	if b == nil {
		return false
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	return b.shed
}

// Release returns all bytes. It may be called twice.
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
