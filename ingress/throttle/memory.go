package throttle

import (
	"cmp"
	"net/netip"
	"sync"
)

// Memory divides a limited number of bytes among the bodies that the server reads or processes. Make one with
// [NewMemory]; it is safe for concurrent use.
//
// If all bytes are in use, Memory finds the sender or source with the most bytes, and sheds the largest unfinished body
// of that sender or source. Under load, no sender and no source therefore gets more than an equal share. A complete
// body is never shed, and Memory does not count its bytes for its sender and source.
type Memory struct {
	most int64

	mu   sync.Mutex
	held int64
	// leaving is the part of held that belongs to bodies that were shed and are not released yet.
	leaving  int64
	released *sync.Cond
	open     map[*Body]struct{}
	bySender map[netip.Addr]int64
	bySource map[string]int64
}

const (
	// small is the maximum size in bytes of a body that may use the reserve.
	small = 64 << 10
	// Only small bodies may use the last 1/reserve of all bytes.
	reserve = 16
	// Shed bodies that are not released yet may occupy 1/leavers of all bytes in addition. If they occupy more, only
	// small bodies get bytes, so that senders cannot fill memory faster than it is freed.
	leavers = 8
)

// NewMemory returns a Memory that divides most bytes.
func NewMemory(most int64) *Memory {
	m := &Memory{most: most, open: map[*Body]struct{}{}, bySender: map[netip.Addr]int64{}, bySource: map[string]int64{}}
	m.released = sync.NewCond(&m.mu)
	return m
}

// Held returns how many bytes are in use.
func (m *Memory) Held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// settle removes b from the bodies that can be shed and from the counts of its sender and source. The caller has
// locked m.mu.
func (m *Memory) settle(b *Body) {
	if _, ok := m.open[b]; !ok {
		return
	}
	delete(m.open, b)
	takeOff(m.bySender, b.sender, b.bytes)
	m.bySource[b.source] -= b.bytes
}

// greediest returns the body to shed. The caller has locked m.mu, and some body is open.
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

// drop ends the reading of b. Its bytes stay in use until b is released. The caller has locked m.mu.
func (m *Memory) drop(b *Body) {
	m.settle(b)
	b.shed = true
	m.leaving += b.bytes
	b.cut()
	m.released.Broadcast() // b itself may be waiting in Take
}

// Body counts the bytes of one body in [Memory]. A nil Body counts nothing and is never shed.
type Body struct {
	memory *Memory
	sender netip.Addr
	source string
	cut    func()

	// memory.mu guards the fields below.
	bytes int64
	shed  bool
}

// Body returns an empty body of sender for source. Memory calls cut when it sheds the body. cut must stop the reading
// of the body and return at once, and the caller must then soon release the body. Memory never calls cut after
// [Body.Whole] or [Body.Release].
func (m *Memory) Body(sender netip.Addr, source string, cut func()) *Body {
	return &Body{memory: m, sender: Network(sender), source: source, cut: cut}
}

// Take reserves n more bytes for the body. If too little memory is left, it sheds the largest bodies. If the body is
// not small, Take may first wait until bodies that were shed earlier are released. It returns false if the body itself
// is shed.
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

// Whole records that the body has been read completely. Its bytes stay in use until [Body.Release], but Memory no
// longer counts them for its sender and source. Whole returns false if the body was shed before.
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

// Release frees all bytes of the body. It may be called twice.
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
