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

// outside is how many requests of a naive event its sinks take: mail, workspaces, finance and the subscriber. paid is the
// same of one that pawl runs, which announces three internal events. The other effects are rows of our own that are
// committed before or beside these.
const outside, paid = 4, 6

// expect returns a channel that is closed when every sink has taken account's effect.
func (s *sinks) expect(account string) <-chan struct{} { return s.expectRequests(account, outside) }

// expectRequests returns a channel that is closed when the sinks have taken so many of an account's effects.
func (s *sinks) expectRequests(account string, n int) <-chan struct{} {
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
