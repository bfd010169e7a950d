// Package groupcommit lets concurrent goroutines share one statement and one commit. A single request is flushed at
// once: there is no timer. A batch contains the requests that arrived during earlier flushes.
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

// Flush writes reqs in one transaction and returns one result per request, in order. After an error, the caller must
// not assume that any of reqs is written. Flush must not retain reqs.
type Flush[Req, Res any] func(ctx context.Context, reqs []Req) ([]Res, error)

// Size is the size of a write.
type Size struct {
	Rows  int
	Bytes int64
}

// Sized is implemented by requests that may be larger than one small row.
type Sized interface{ Size() Size }

// Time returns how much longer a write of size s may take than an empty one: a second for 2,000 rows, and one for 8
// MiB. This is several times the time on a healthy server.
func (s Size) Time() time.Duration {
	return time.Duration(s.Rows)*time.Second/2000 + time.Duration(s.Bytes)*time.Second/(8<<20)
}

func (s Size) plus(o Size) Size { return Size{s.Rows + o.Rows, s.Bytes + o.Bytes} }

// Config bounds a committer. Zero values take the defaults.
type Config struct {
	// MaxBatch is the largest number of requests in one flush; default 256.
	MaxBatch int
	// MaxRows and MaxBytes bound one flush; a larger request is flushed alone. The default is 2,000 and 4 MiB. See
	// [Sized].
	MaxRows  int
	MaxBytes int64
	// InFlight is how many flushes may run at once; default 1. A second one overlaps with the first one's wait for the
	// disk, but splits the batches: with 16 connections on two cores it lowered the rate by an eighth, with 256 it made
	// no difference.
	InFlight int
	// Timeout bounds one flush including the commit, in addition to the flush's [Size.Time]; default 1 s. Postgres' own
	// statement_timeout does not bound a COMMIT that waits for a disk or a standby.
	Timeout time.Duration
	// Flushed, if set, is called after each flush with Name. It must not block.
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

// Named returns the configuration for a committer of that name.
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
// A nil error means committed. After any error, the request may or may not be written: after a lost connection or a
// deadline the commit is in doubt, so a caller may only repeat keyed writes. A row that Postgres rejects gets its own
// error; the other requests are written without it.
//
// If ctx ends, Do stops waiting, but a flush that has begun continues. A request is dropped unwritten if its ctx ends
// before its flush begins.
func (c *Committer[Req, Res]) Do(ctx context.Context, req Req) (Res, error) {
	call := &call[Req, Res]{ctx: ctx, req: req, size: sizeOf(req), done: make(chan struct{})}
	if err := c.enqueue(call); err != nil {
		return call.res, err
	}
	select {
	case <-call.done:
		return call.res, call.err
	case <-ctx.Done():
		var none Res // call.res may still be written to
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

// run flushes until no request waits. Ending the goroutine then saves a hand-over when requests come one at a time.
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

// take returns the next batch. If no request waits, it ends the flusher and returns nil.
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

// write flushes batch and wakes its callers. If a batch fails because of one row, write halves it until that row is
// alone, which takes about 16 flushes for one bad row among 256, instead of 256.
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
	// A panic here is in no caller's goroutine: it would end the process and all deliveries in progress.
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

// rolledBack reports whether err means that Postgres wrote nothing and that fewer rows might succeed: data (22),
// constraint (23) and size (54) errors, which one row causes, and conflicts with other transactions (40). After any
// other error, above all a lost connection, the batch may have been committed, so its parts must not be written again.
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
