package cache

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
)

// A cached value is used for its fresh time. While the database is unavailable, the last known value is used for its
// stale time.
func TestRecall_FreshStaleAndEnded(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	now, away, until := begin, error(nil), time.Time{}
	said := 0
	r := New(10, 5*time.Second, time.Minute, func(context.Context, string) (int, time.Time, error) {
		said++
		return said, until, away
	})
	r.now = func() time.Time { return now }
	step := func(after time.Duration, value int, age time.Duration, fails bool) {
		t.Helper()
		now = begin.Add(after)
		got, is, err := r.Get(t.Context(), "a")
		isAway := errors.Is(err, decide.ErrAway)
		if got != value || is != age || isAway != fails {
			t.Errorf("after %s: %d, %s old, %v; want %d, %s old", after, got, is, err, value, age)
		}
	}
	step(0, 1, 0, false)
	step(4*time.Second, 1, 4*time.Second, false)
	step(5*time.Second, 2, 0, false) // the value is read again
	away = error(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
	step(9*time.Second, 2, 4*time.Second, false)
	step(20*time.Second, 2, 15*time.Second, false) // the last known value
	asked := said
	if step(20*time.Second+leftAlone/2, 2, 15*time.Second+leftAlone/2, false); said != asked {
		t.Error("a database that is away was asked again at once")
	}
	step(65*time.Second, 0, 0, true) // the stale time is over
	away, until = nil, begin.Add(72*time.Second)
	step(70*time.Second, said+1, 0, false)
	step(71*time.Second, said, time.Second, false)
	step(72*time.Second, said+1, 0, false) // the value's own end is before its stale time
	away = error(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
	step(72*time.Second, 0, 0, true) // after its own end, the value is not used any more
	away = decide.Unknownf("no a")
	if _, _, err := r.Get(t.Context(), "b"); !decide.Away(err) {
		t.Errorf("within a moment: %v, want that the database is away", err)
	}
	now = begin.Add(80 * time.Second)
	if _, _, err := r.Get(t.Context(), "a"); !errors.Is(err, away) {
		t.Errorf("%v, want what the database has said", err)
	}
	// An error about one key does not affect other keys.
	away = errors.New("invalid character in a state")
	if _, _, err := r.Get(t.Context(), "a"); !errors.Is(err, away) {
		t.Errorf("%v, want the fault", err)
	}
	away = nil
	if _, _, err := r.Get(t.Context(), "b"); err != nil {
		t.Errorf("after another's fault: %v", err)
	}
}

// A value that callers request often is refreshed before its fresh time ends, and no caller waits for the refresh.
func TestRecall_AskedAgainAhead(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	after := time.Duration(0)
	asked := make(chan bool, 10)
	r := New(10, 5*time.Second, time.Minute, func(context.Context, string) (int, time.Time, error) {
		asked <- true
		return 7, time.Time{}, nil
	})
	r.now = func() time.Time { return begin.Add(after) }
	for _, after = range []time.Duration{0, 4500 * time.Millisecond} {
		if _, age, err := r.Get(t.Context(), "a"); age != after || err != nil {
			t.Errorf("after %s: %s old, %v", after, age, err)
		}
		<-asked
	}
}

// A hundred concurrent calls for the same key cause one query.
func TestRecall_ManyAtOnce_OneQuestion(t *testing.T) {
	t.Parallel()
	var r *Stale[string, int]
	waiting := make(chan struct{})
	r = New(10, time.Hour, time.Hour, func(context.Context, string) (int, time.Time, error) {
		<-waiting
		return 7, time.Time{}, nil
	})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if got, _, err := r.Get(t.Context(), "a"); got != 7 || err != nil {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
	close(waiting)
	if all.Wait(); r.Reads.Load() != 1 {
		t.Errorf("asked %d times", r.Reads.Load())
	}
}

// A panic in read becomes an error for all callers that share the query; the process and the next read continue.
func TestRecall_ReadPanics_IsAnError(t *testing.T) {
	t.Parallel()
	bad := true
	r := New(10, 5*time.Second, time.Minute, func(context.Context, string) (int, time.Time, error) {
		if bad {
			panic("a row that nobody has thought of")
		}
		return 1, time.Time{}, nil
	})
	if _, _, err := r.Get(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "nobody has thought of") || decide.Away(err) {
		t.Errorf("%v, want the panic", err)
	}
	bad = false
	if got, _, err := r.Get(t.Context(), "a"); got != 1 || err != nil {
		t.Errorf("%d, %v after the panic", got, err)
	}
}
