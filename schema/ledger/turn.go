package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// places is how many transactions of [Store.InTx] are under way at most: few of the pool's connections, so that
	// claims, marks and records always find one.
	places = 4
	// longest is how many wait in one line. It leaves half of the places that a worker has for activities to others.
	longest = 32
	// forgotten is the time after which nobody comes back for a stalled queue: its run goes on elsewhere.
	forgotten = time.Minute
)

// ErrBusy says that too many wait for the same thing already. Nothing was done.
var ErrBusy = errors.New("too many wait for it already")

// StalledError says that a transaction did not get the lock that its claim queues for. Nothing was done.
type StalledError struct {
	// Queue is the claim's [Claim.Queue], or its key.
	Queue string
	// Since is when the first of the tries began that did not get the lock.
	Since time.Time
}

func (e *StalledError) Error() string {
	return fmt.Sprintf("waits for %s since %s: another transaction holds its lock", e.Queue,
		e.Since.UTC().Format(time.RFC3339))
}

// turns lets transactions that lock the same thing wait for each other here, and not in the database with a
// connection each. Each name has one transaction under way, and all names together have a few.
//
// A line forms while its name moves on. Once somebody has not got the lock, one at a time tries, and everybody else
// is sent away at once: they come back later and hold nothing meanwhile.
type turns struct {
	places chan struct{}

	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	// turn holds a value while somebody's transaction is under way.
	turn chan struct{}
	// people are those in the line, and whoever is under way.
	people int
	// since is when the first try began that did not get the lock, zero while the line moves on; tried is when the last
	// one ended.
	since, tried time.Time
}

func newTurns() *turns {
	return &turns{places: make(chan struct{}, places), lines: map[string]*line{}}
}

// do calls f in its turn. The error is f's, a *[StalledError], [ErrBusy] or that of ctx.
func (t *turns) do(ctx context.Context, name string, f func() error) error {
	l, tries, err := t.join(name)
	if err != nil {
		return err
	}
	defer t.quit(name, l)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	// The transaction before this one may have found it stalled.
	if since := t.stalledSince(l); !since.IsZero() && !tries {
		return &StalledError{Queue: name, Since: since}
	}
	select {
	case t.places <- struct{}{}:
		defer func() { <-t.places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	begin := time.Now()
	return t.conclude(name, l, begin, f())
}

// join adds the caller to the line. It tries where the line is stalled.
func (t *turns) join(name string) (l *line, tries bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l = t.lines[name]; l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		t.lines[name] = l
	}
	stalled := !l.since.IsZero()
	switch {
	case stalled && l.people > 0:
		return nil, false, &StalledError{Queue: name, Since: l.since}
	case l.people >= longest:
		return nil, false, ErrBusy
	}
	l.people++
	return l, stalled, nil
}

func (t *turns) quit(name string, l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.people--; l.people == 0 && l.since.IsZero() {
		delete(t.lines, name)
	}
}

func (t *turns) stalledSince(l *line) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.since
}

// conclude notes what came of a transaction: one that was committed has had the lock.
func (t *turns) conclude(name string, l *line, begin time.Time, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.tried = time.Now()
	switch {
	case err == nil:
		l.since = time.Time{}
	case isLockTimeout(err):
		if l.since.IsZero() {
			l.since = begin
		}
		return &StalledError{Queue: name, Since: l.since}
	}
	return err
}

// stalled lists the stalled queues, longest first.
func (t *turns) stalled() []StalledError {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []StalledError
	for name, l := range t.lines {
		switch {
		case l.since.IsZero():
		case l.people == 0 && time.Since(l.tried) > forgotten:
			delete(t.lines, name)
		default:
			list = append(list, StalledError{Queue: name, Since: l.since})
		}
	}
	slices.SortFunc(list, func(a, b StalledError) int { return a.Since.Compare(b.Since) })
	return list
}

func isLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03" // lock_not_available
}
