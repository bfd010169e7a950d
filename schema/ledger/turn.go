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
	// slots is how many transactions of [Store.InTx] may run at once. It is a small part of the pool, so that other
	// statements always get a connection.
	slots = 4
	// longest is the maximum number of callers in one line. It leaves half of a worker's activity slots to other
	// effects.
	longest = 32
	// forgotten is the time after which a stalled queue without callers is removed. By that time, the waiting run has
	// continued in another process.
	forgotten = time.Minute
)

// ErrBusy means that too many callers already wait for the same lock. Nothing was done.
var ErrBusy = errors.New("too many transactions wait for the same lock")

// StalledError means that a transaction did not get the lock of its queue. Nothing was done.
type StalledError struct {
	// Queue is [Claim.Queue] of the claim. If that is empty, it is the key of the claim.
	Queue string
	// Since is the start of the first attempt that failed to get the lock.
	Since time.Time
}

func (e *StalledError) Error() string {
	return fmt.Sprintf("waits for %s since %s: another transaction holds its lock", e.Queue,
		e.Since.UTC().Format(time.RFC3339))
}

// turns queues transactions that lock the same row. They wait in this process and not in the database, where each
// would occupy a connection. At most one transaction per name runs at a time, and at most slots transactions in
// total.
//
// Callers wait in a line as long as the transactions of the line get the lock. After a transaction of the line did not
// get the lock, only one caller at a time tries again. The other callers return at once and retry later.
type turns struct {
	slots chan struct{}

	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	// turn contains a value while a transaction of the line runs.
	turn chan struct{}
	// callers is the number of callers in the line, including the caller with the running transaction.
	callers int
	// since is the start of the first attempt that failed to get the lock. It is zero while the transactions get the
	// lock. tried is the end of the last attempt.
	since, tried time.Time
}

func newTurns() *turns {
	return &turns{slots: make(chan struct{}, slots), lines: map[string]*line{}}
}

// do calls f when no other transaction of the line runs and a slot is free. It returns the error of f or of ctx, a
// *[StalledError] or [ErrBusy].
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
	// Check again: the previous transaction may have failed to get the lock.
	if since := t.stalledSince(l); !since.IsZero() && !tries {
		return &StalledError{Queue: name, Since: since}
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	begin := time.Now()
	return t.conclude(name, l, begin, f())
}

// join adds the caller to the line. tries is true if the line is stalled and this caller makes the next attempt.
func (t *turns) join(name string) (l *line, tries bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l = t.lines[name]; l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		t.lines[name] = l
	}
	stalled := !l.since.IsZero()
	switch {
	case stalled && l.callers > 0:
		return nil, false, &StalledError{Queue: name, Since: l.since}
	case l.callers >= longest:
		return nil, false, ErrBusy
	}
	l.callers++
	return l, stalled, nil
}

func (t *turns) quit(name string, l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.callers--; l.callers == 0 && l.since.IsZero() {
		delete(t.lines, name)
	}
}

func (t *turns) stalledSince(l *line) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.since
}

// conclude records the outcome of a transaction. A transaction that committed got the lock.
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

// stalled returns the stalled queues, longest wait first.
func (t *turns) stalled() []StalledError {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []StalledError
	for name, l := range t.lines {
		switch {
		case l.since.IsZero():
		case l.callers == 0 && time.Since(l.tried) > forgotten:
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
