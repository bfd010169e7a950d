// Package groupcommit lets concurrent goroutines share one statement and one commit. There is no timer: a single
// request is written at once. A batch consists of the requests that arrived while earlier batches were written.
package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrClosed is returned by [Committer.Do] after [Committer.Close].
var ErrClosed = errors.New("group commit: closed")

// Flush writes reqs in one transaction and returns one result per request, in order. If it returns an error, the caller
// must not assume that any of reqs is written. Flush must not retain reqs.
type Flush[Req, Res any] func(ctx context.Context, reqs []Req) ([]Res, error)

// Size is the size of a write.
type Size struct {
	Rows  int
	Bytes int64
}

// Sized is implemented by a request that may be larger than one small row.
type Sized interface{ Size() Size }

// Time returns how much longer a write of size s may take than an empty one: one second per 2,000 rows plus one second
// per 8 MiB. A healthy server is several times faster.
func (s Size) Time() time.Duration {
	return time.Duration(s.Rows)*time.Second/2000 + time.Duration(s.Bytes)*time.Second/(8<<20)
}

func (s Size) plus(o Size) Size { return Size{s.Rows + o.Rows, s.Bytes + o.Bytes} }

// Config bounds a committer. Zero values take the defaults.
type Config struct {
	// MaxBatch is the largest number of requests in one flush; default 256.
	MaxBatch int
	// MaxRows and MaxBytes bound one flush. A request that exceeds them is flushed alone. The default is 2,000 and 4
	// MiB. See [Sized].
	MaxRows  int
	MaxBytes int64
	// InFlight is how many flushes may run at once; default 1. A second flush runs while the first one waits for the
	// disk, but it makes the batches smaller. Measured on two cores, it lowered the throughput by an eighth with 16
	// connections, and had no effect with 256.
	InFlight int
	// Timeout bounds one flush including the commit; default 1 s. The [Size.Time] of the flush is added. The timeout is
	// necessary, because Postgres' statement_timeout does not bound a COMMIT that waits for a disk or a standby.
	Timeout time.Duration
	// Flushed, if set, is called with Name after each flush. It must not block.
	Flushed func(Flushed)
	Name    string
}

// Flushed describes a flush: the number of requests, its duration, and whether it failed.
type Flushed struct {
	Name     string
	Requests int
	Took     time.Duration
	Failed   bool
}

// Named returns the configuration with the given Name.
func (c Config) Named(name string) Config {
	c.Name = name
	return c
}

// Committer groups requests. Make one with [New]; it is safe for concurrent use.
type Committer[Req, Res any] struct {
	cfg   Config
	flush Flush[Req, Res]

	mu       sync.Mutex
	waiting  []*call[Req, Res]
	inFlight int
	closed   bool
	running  sync.WaitGroup
}

type call[Req, Res any] struct {
	ctx  context.Context
	req  Req
	size Size
	res  Res
	err  error
	done chan struct{}
}

// New returns a committer that writes with flush.
func New[Req, Res any](cfg Config, flush Flush[Req, Res]) *Committer[Req, Res] {
	if cfg.MaxBatch <= 0 {
		cfg.MaxBatch = 256
	}
	if cfg.MaxRows <= 0 {
		cfg.MaxRows = 2000
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 4 << 20
	}
	if cfg.InFlight <= 0 {
		cfg.InFlight = 1
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Second
	}
	return &Committer[Req, Res]{cfg: cfg, flush: flush}
}

// Do writes req together with other waiting requests, and returns when its transaction is committed or has failed.
//
// If the error is nil, the request is committed. After any error, the request may or may not be written. If the
// connection was lost or a deadline expired, the outcome of the commit is unknown, so callers may repeat only
// idempotent writes. If Postgres rejects one row, only that request gets the error, and the others are written without
// it.
//
// If ctx ends before the flush begins, the request is not written. If ctx ends later, Do returns, but the flush
// continues.
func (c *Committer[Req, Res]) Do(ctx context.Context, req Req) (Res, error) {
	call := &call[Req, Res]{ctx: ctx, req: req, size: sizeOf(req), done: make(chan struct{})}
	if err := c.enqueue(call); err != nil {
		return call.res, err
	}
	select {
	case <-call.done:
		return call.res, call.err
	case <-ctx.Done():
		var none Res // the flush may still write to call.res
		return none, fmt.Errorf("group commit: %w", ctx.Err())
	}
}

func sizeOf(req any) Size {
	if sized, ok := req.(Sized); ok {
		return sized.Size()
	}
	return Size{Rows: 1}
}

func (c *Committer[Req, Res]) enqueue(call *call[Req, Res]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.waiting = append(c.waiting, call)
	if c.inFlight < c.cfg.InFlight {
		c.inFlight++
		c.running.Add(1)
		go c.run()
	}
	return nil
}

// Close rejects new requests and returns when all waiting requests are written.
func (c *Committer[Req, Res]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}

// run flushes batches until no request waits, and then returns. A goroutine that waited for more requests would need a
// hand-over for each request.
func (c *Committer[Req, Res]) run() {
	defer c.running.Done()
	for {
		batch := c.take()
		if batch == nil {
			return
		}
		c.write(batch)
	}
}

// take returns the next batch. If no request waits, take marks the flusher as stopped and returns nil.
func (c *Committer[Req, Res]) take() []*call[Req, Res] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.inFlight--
		return nil
	}
	n, size := 1, c.waiting[0].size
	for n < min(len(c.waiting), c.cfg.MaxBatch) {
		if size = size.plus(c.waiting[n].size); size.Rows > c.cfg.MaxRows || size.Bytes > c.cfg.MaxBytes {
			break
		}
		n++
	}
	batch := c.waiting[:n:n]
	if n == len(c.waiting) {
		c.waiting = nil
	} else {
		c.waiting = c.waiting[n:]
	}
	return batch
}

// write flushes batch and wakes its callers. If one row makes a batch fail, write halves the batch until that row is
// alone. For one bad row among 256 this takes about 16 flushes instead of 256.
func (c *Committer[Req, Res]) write(batch []*call[Req, Res]) {
	batch = dropAbandoned(batch)
	if len(batch) == 0 {
		return
	}
	results, err := c.flushOnce(batch)
	if err != nil && len(batch) > 1 && rolledBack(err) {
		half := len(batch) / 2
		c.write(batch[:half])
		c.write(batch[half:])
		return
	}
	for i, call := range batch {
		if call.err = err; err == nil {
			call.res = results[i]
		}
		close(call.done)
	}
}

func dropAbandoned[Req, Res any](batch []*call[Req, Res]) []*call[Req, Res] {
	kept := make([]*call[Req, Res], 0, len(batch))
	for _, call := range batch {
		if call.err = call.ctx.Err(); call.err != nil {
			close(call.done)
			continue
		}
		kept = append(kept, call)
	}
	return kept
}

func (c *Committer[Req, Res]) flushOnce(batch []*call[Req, Res]) (results []Res, err error) {
	var size Size
	for _, call := range batch {
		size = size.plus(call.size)
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout+size.Time())
	defer cancel()
	// A panic in this goroutine would not reach a caller: it would end the process and all deliveries in progress.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("group commit: flush panicked: %T", p)
		}
	}()
	reqs := make([]Req, len(batch))
	for i, call := range batch {
		reqs[i] = call.req
	}
	began := time.Now()
	results, err = c.flush(ctx, reqs)
	if c.cfg.Flushed != nil {
		c.cfg.Flushed(Flushed{c.cfg.Name, len(reqs), time.Since(began), err != nil})
	}
	if err == nil && len(results) != len(reqs) {
		err = fmt.Errorf("group commit: %d results for %d requests", len(results), len(reqs))
	}
	return results, err
}

// rolledBack reports whether err means that Postgres wrote nothing, and that a smaller batch might succeed. It returns
// true for errors that one row can cause (SQLSTATE classes 22, 23 and 54) and for conflicts with other transactions
// (class 40). After any other error, above all a lost connection, the batch may have been committed, and must not be
// written again.
func rolledBack(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return false
	}
	switch pg.Code[:2] {
	case "22", "23", "40", "54":
		return pg.Code != "40003" // statement_completion_unknown
	}
	return pg.Code == "55P03" // lock_not_available
}
