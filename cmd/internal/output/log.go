package output

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Lines writes log lines. A process collects the lines of a short moment and writes them together, because one write
// per delivery would cost a tenth of the throughput. If the process is killed, only the lines of the last moment are
// lost.
type Lines struct {
	To io.Writer

	mu sync.Mutex
	// together is set if lines may be collected. A command that ends soon writes each line at once.
	together bool
	waiting  []byte
}

const (
	linesWait = 100 * time.Millisecond
	linesMost = 64 << 10
)

// Write stores lines in the buffer, which is written within linesWait.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.together {
		return l.To.Write(p)
	}
	if len(l.waiting) == 0 {
		time.AfterFunc(linesWait, l.flush)
	}
	if l.waiting = append(l.waiting, p...); len(l.waiting) >= linesMost {
		l.write()
	}
	return len(p), nil
}

// flush writes the lines in the buffer.
func (l *Lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
}

// write is flush for a caller that holds the lock. It ignores an error, because the log itself has failed.
func (l *Lines) write() {
	if len(l.waiting) > 0 {
		_, _ = l.To.Write(l.waiting)
		l.waiting = l.waiting[:0]
	}
}

// Together collects lines until end is called.
func (l *Lines) Together() (end func()) {
	l.together = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.together = false
		l.write()
	}
}

// Log returns a handler that formats with h and writes to l. A warning is written at once, together with the lines
// before it.
func (l *Lines) Log(h slog.Handler) slog.Handler { return prompt{h, l} }

type prompt struct {
	slog.Handler
	lines *Lines
}

func (p prompt) Handle(ctx context.Context, r slog.Record) error {
	err := p.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		p.lines.flush()
	}
	return err
}

func (p prompt) WithAttrs(attrs []slog.Attr) slog.Handler {
	return prompt{p.Handler.WithAttrs(attrs), p.lines}
}

func (p prompt) WithGroup(name string) slog.Handler {
	return prompt{p.Handler.WithGroup(name), p.lines}
}
