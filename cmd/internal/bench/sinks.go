package bench

import (
	"sync"
)

// sinks counts what the outside world takes, by account.
type sinks struct {
	mu      sync.Mutex
	waiting map[string]*expected
}

type expected struct {
	left int
	done chan struct{}
}

func newSinks() *sinks { return &sinks{waiting: map[string]*expected{}} }

// outside is how many requests of a new subscriber's payment the sinks take: mail, workspaces, finance, and the
// subscriber of access.changed. The other effects are rows of our own that are committed before or beside these.
const outside = 4

// expect returns a channel that is closed when the sinks have taken n requests of an account.
func (s *sinks) expect(account string, n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &expected{left: n, done: make(chan struct{})}
	s.waiting[account] = e
	return e.done
}

// accepted is told of every request that a sink took.
func (s *sinks) accepted(_, account string, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.waiting[account]
	if !ok || !first {
		return
	}
	if e.left--; e.left == 0 {
		delete(s.waiting, account)
		close(e.done)
	}
}
