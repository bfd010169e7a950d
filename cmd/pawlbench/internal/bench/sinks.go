package bench

import (
	"sync"
)

// sinks counts the requests that the sandbox accepts, by account.
type sinks struct {
	mu      sync.Mutex
	waiting map[string]*expected
}

type expected struct {
	left int
	done chan struct{}
}

func newSinks() *sinks { return &sinks{waiting: map[string]*expected{}} }

// outside is how many requests the sinks accept for a new customer's payment: mail, workspaces, finance, and the
// destination of access.changed. The other effects are rows in pawl's database, committed before or at the same time.
const outside = 4

// expect returns a channel that is closed after the sinks have accepted n requests of an account.
func (s *sinks) expect(account string, n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &expected{left: n, done: make(chan struct{})}
	s.waiting[account] = e
	return e.done
}

// accepted is called for every request that a sink accepted.
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
