package groupcommit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/schema/groupcommit"
)

// table is a store that records the flushed requests. If gate is set, the first flush waits until gate is closed.
type table struct {
	mu      sync.Mutex
	rows    []int
	batches [][]int
	gate    chan struct{}
	entered chan struct{}
	refuse  func(n int) error
}

func (tb *table) flush(ctx context.Context, reqs []int) ([]int, error) {
	if tb.gate != nil {
		select {
		case tb.entered <- struct{}{}:
		default:
		}
		select {
		case <-tb.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.batches = append(tb.batches, append([]int(nil), reqs...))
	out := make([]int, 0, len(reqs))
	for _, n := range reqs {
		if tb.refuse != nil {
			if err := tb.refuse(n); err != nil {
				return nil, err
			}
		}
		out = append(out, n*10)
	}
	tb.rows = append(tb.rows, reqs...)
	return out, nil
}

// queueUp blocks one flush and returns when n more requests wait for the next flush.
func queueUp(t *testing.T, c *groupcommit.Committer[int, int], tb *table, n int) (results []int, errs []error) {
	t.Helper()
	results, errs = make([]int, n+1), make([]error, n+1)
	var wg sync.WaitGroup
	do := func(i int) {
		wg.Go(func() { results[i], errs[i] = c.Do(t.Context(), i) })
	}
	do(0)
	<-tb.entered
	for i := 1; i <= n; i++ {
		do(i)
	}
	for deadline := time.Now().Add(5 * time.Second); c.Waiting() < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests wait, want %d", c.Waiting(), n)
		}
	}
	close(tb.gate)
	wg.Wait()
	return results, errs
}

func TestDo_Waiting_OneFlush(t *testing.T) {
	t.Parallel()
	tb := &table{gate: make(chan struct{}), entered: make(chan struct{}, 1)}
	c := groupcommit.New(groupcommit.Config{InFlight: 1, Timeout: 5 * time.Second}, tb.flush)
	results, errs := queueUp(t, c, tb, 50)
	for i := range results {
		if errs[i] != nil || results[i] != i*10 {
			t.Errorf("request %d: got %d, %v; want %d", i, results[i], errs[i], i*10)
		}
	}
	if got := len(tb.batches); got != 2 {
		t.Errorf("flushes: got %d, want 2 (the first request alone, then all that waited)", got)
	}
}

func TestDo_MaxBatch_Bounds(t *testing.T) {
	t.Parallel()
	tb := &table{gate: make(chan struct{}), entered: make(chan struct{}, 1)}
	c := groupcommit.New(groupcommit.Config{InFlight: 1, MaxBatch: 8, Timeout: 5 * time.Second}, tb.flush)
	queueUp(t, c, tb, 20)
	for _, b := range tb.batches {
		if len(b) > 8 {
			t.Errorf("batch of %d, want at most 8", len(b))
		}
	}
	if len(tb.rows) != 21 {
		t.Errorf("rows: got %d, want 21", len(tb.rows))
	}
}

// If one row is rejected, other requests of the flush still succeed.
func TestDo_BadRow_FailsAlone(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"22021", "23514", "54000", "55P03"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			tb := &table{gate: make(chan struct{}), entered: make(chan struct{}, 1)}
			tb.refuse = func(n int) error {
				if n == 7 {
					return &pgconn.PgError{Code: code}
				}
				return nil
			}
			c := groupcommit.New(groupcommit.Config{InFlight: 1, Timeout: 5 * time.Second}, tb.flush)
			_, errs := queueUp(t, c, tb, 30)
			for i, err := range errs {
				if (err != nil) != (i == 7) {
					t.Errorf("request %d: error %v", i, err)
				}
			}
			if len(tb.rows) != 30 {
				t.Errorf("rows: got %d, want 30", len(tb.rows))
			}
		})
	}
}

// If a failure leaves the outcome of the commit unknown, all callers get the error, and the flush is not repeated.
func TestDo_InDoubt_EveryoneFails(t *testing.T) {
	t.Parallel()
	tb := &table{gate: make(chan struct{}), entered: make(chan struct{}, 1)}
	lost := errors.New("unexpected EOF")
	tb.refuse = func(n int) error {
		if n > 0 {
			return lost
		}
		return nil
	}
	c := groupcommit.New(groupcommit.Config{InFlight: 1, Timeout: 5 * time.Second}, tb.flush)
	_, errs := queueUp(t, c, tb, 10)
	for i, err := range errs[1:] {
		if !errors.Is(err, lost) {
			t.Errorf("request %d: got %v, want %v", i+1, err, lost)
		}
	}
	if got := len(tb.batches); got != 2 {
		t.Errorf("flushes: got %d, want 2: a batch in doubt is not tried again", got)
	}
}

func TestDo_StuckFlush_WaiterLeaves(t *testing.T) {
	t.Parallel()
	tb := &table{gate: make(chan struct{}), entered: make(chan struct{}, 1)}
	c := groupcommit.New(groupcommit.Config{InFlight: 1, Timeout: 5 * time.Second}, tb.flush)
	first := make(chan error, 1)
	go func() { _, err := c.Do(t.Context(), 1); first <- err }()
	<-tb.entered

	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { _, err := c.Do(ctx, 2); second <- err }()
	for c.Waiting() < 1 {
	}
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Fatalf("abandoned wait: got %v, want context.Canceled", err)
	}
	close(tb.gate)
	if err := <-first; err != nil {
		t.Errorf("neighbour: %v", err)
	}
	c.Close()
	if len(tb.rows) != 1 {
		t.Errorf("rows: got %v, want only the first: no caller waited for the second", tb.rows)
	}
}

func TestDo_StuckFlush_Deadline(t *testing.T) {
	t.Parallel()
	tb := &table{gate: make(chan struct{}), entered: make(chan struct{}, 1)}
	c := groupcommit.New(groupcommit.Config{Timeout: 10 * time.Millisecond}, tb.flush)
	if _, err := c.Do(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want deadline exceeded", err)
	}
}

func TestDo_Panic_IsAnError(t *testing.T) {
	t.Parallel()
	c := groupcommit.New(groupcommit.Config{}, func(context.Context, []int) ([]int, error) { panic("bug") })
	if _, err := c.Do(t.Context(), 1); err == nil {
		t.Error("got nil, want an error")
	}
}

func TestClose_Drains(t *testing.T) {
	t.Parallel()
	tb := &table{}
	c := groupcommit.New(groupcommit.Config{}, tb.flush)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() { _, _ = c.Do(t.Context(), i) })
	}
	wg.Wait()
	c.Close()
	if _, err := c.Do(t.Context(), 1); !errors.Is(err, groupcommit.ErrClosed) {
		t.Errorf("after Close: got %v, want ErrClosed", err)
	}
	if len(tb.rows) != 100 {
		t.Errorf("rows: got %d, want 100", len(tb.rows))
	}
}

// sized is a request with several rows or many bytes.
type sized groupcommit.Size

func (s sized) Size() groupcommit.Size { return groupcommit.Size(s) }

// The size of a flush is limited as well. A request over the limit is flushed alone.
func TestDo_RowsAndBytes_BoundFlush(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var flushes [][]int
	entered, gate := make(chan struct{}), make(chan struct{})
	c := groupcommit.New(groupcommit.Config{MaxRows: 10, MaxBytes: 1000}, func(_ context.Context, reqs []sized) ([]int, error) {
		if reqs[0].Rows == 0 {
			close(entered)
			<-gate
			return []int{0}, nil
		}
		var rows []int
		for _, r := range reqs {
			rows = append(rows, r.Rows)
		}
		mu.Lock()
		defer mu.Unlock()
		flushes = append(flushes, rows)
		return rows, nil
	})
	var wg sync.WaitGroup
	do := func(s sized) {
		wg.Go(func() {
			if got, err := c.Do(t.Context(), s); err != nil || got != s.Rows {
				t.Errorf("%+v: got %d, %v", s, got, err)
			}
		})
	}
	do(sized{})
	<-entered
	for i, s := range []sized{{1, 0}, {9, 0}, {2, 0}, {50, 0}, {3, 400}, {4, 600}, {5, 5000}, {6, 0}} {
		do(s)
		for c.Waiting() <= i { // start the requests in this order
		}
	}
	close(gate)
	wg.Wait()
	if want := [][]int{{1, 9}, {2}, {50}, {3, 4}, {5}, {6}}; !slices.EqualFunc(flushes, want, slices.Equal) {
		t.Errorf("flushes of %v rows, want %v", flushes, want)
	}
}

// The timeout of a flush is a fixed part plus a part that grows with its size.
func TestDo_Timeout_GrowsWithSize(t *testing.T) {
	t.Parallel()
	for want, s := range map[time.Duration]sized{time.Second: {}, 2 * time.Second: {2000, 0}, 4 * time.Second: {0, 24 << 20}} {
		c := groupcommit.New(groupcommit.Config{Timeout: time.Second}, func(ctx context.Context, _ []sized) ([]time.Duration, error) {
			ends, _ := ctx.Deadline()
			return []time.Duration{time.Until(ends)}, nil
		})
		if got, err := c.Do(t.Context(), s); err != nil || got > want || got < want-900*time.Millisecond {
			t.Errorf("%+v: it has %s, %v; want %s", s, got, err, want)
		}
	}
}

func TestDo_FlushedTold(t *testing.T) {
	t.Parallel()
	var told []groupcommit.Flushed
	cfg := groupcommit.Config{Flushed: func(f groupcommit.Flushed) { told = append(told, f) }}
	c := groupcommit.New(cfg.Named("receipts"), func(_ context.Context, reqs []int) ([]int, error) {
		if reqs[0] < 0 {
			return nil, errors.New("the disk is full")
		}
		return reqs, nil
	})
	for _, n := range []int{1, -1} {
		_, _ = c.Do(t.Context(), n)
	}
	c.Close()
	if len(told) != 2 || told[0].Name != "receipts" || told[0].Requests != 1 || told[0].Failed || !told[1].Failed {
		t.Errorf("reported %+v, want one flush and one that failed", told)
	}
}
