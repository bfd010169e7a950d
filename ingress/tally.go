package ingress

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
)

// tallyEvery is how long counts stay in memory. A crash loses these counts; nothing but reports depends on them.
const tallyEvery = 3 * time.Second

// flushTimeout is the timeout of one write of counts. A process that ends waits for up to two writes: the current write
// and the last write.
const flushTimeout = 2 * time.Second

// tally counts rejections and uses of secrets in memory. A flood of bad signatures therefore updates only one row.
type tally struct {
	store Receipts
	log   *slog.Logger

	mu     sync.Mutex
	counts map[receipt.SourceCount]receipt.SourceCount // a key has zero values in Count and Last
	lines  map[line]*repeated
	// answers counts the answers to authentic deliveries by source.
	answers map[string]receipt.Answers
}

// line is the key of a log line: refusals of one class at one source, or duplicates of events with one status.
type line struct {
	source  string
	refused bool
	class   string
}

// repeated counts the requests behind one log line. event holds the log attributes of the first one.
type repeated struct {
	count int
	event []any
}

func newTally(store Receipts, log *slog.Logger) *tally {
	return &tally{store: store, log: log, counts: map[receipt.SourceCount]receipt.SourceCount{},
		lines: map[line]*repeated{}, answers: map[string]receipt.Answers{}}
}

// answered counts an answer to an authentic delivery.
func (t *tally) answered(source string, ok bool, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.answers[source].And(ok, at)
	a.Source = source
	t.answers[source] = a
}

// count counts a request at a time. name is the class of a refusal, or the label of the secret.
func (t *tally) count(source string, what receipt.Counted, name string, at time.Time) {
	t.add(receipt.SourceCount{Source: source, What: what, Name: name, Day: at.UTC().Truncate(24 * time.Hour),
		Count: 1, Last: at})
}

// refuse counts and logs a refusal. claims returns unverified values of the request as log attributes. It is nil if no
// body was read.
func (t *tally) refuse(source, class string, at time.Time, claims func() []any) {
	t.count(source, receipt.Refused, class, at)
	t.note(line{source, true, class}, claims)
}

// note adds a request to a log line, which the next flush writes. event returns the attributes of the line. note calls
// it only for the first request, because a flood must be cheap.
func (t *tally) note(key line, event func() []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines[key] == nil {
		t.lines[key] = &repeated{}
		if event != nil {
			t.lines[key].event = event()
		}
	}
	t.lines[key].count++
}

func (t *tally) add(more receipt.SourceCount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := more
	key.Count, key.Last = 0, time.Time{}
	sum := t.counts[key]
	more.Count += sum.Count
	if sum.Last.After(more.Last) {
		more.Last = sum.Last
	}
	t.counts[key] = more
}

// run writes the counts every few seconds until ctx ends, and once more at the end.
func (t *tally) run(ctx context.Context) {
	tick := time.NewTicker(tallyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			t.flush() // also if ctx ended during a flush that failed
			return
		case <-tick.C:
			t.flush()
		}
	}
}

// flush writes the counts and the log lines. If a write fails, the next flush writes its counts.
func (t *tally) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	t.mu.Lock()
	counts, lines, answers := slices.Collect(maps.Values(t.counts)), t.lines, t.answers
	t.counts, t.lines = map[receipt.SourceCount]receipt.SourceCount{}, map[line]*repeated{}
	t.answers = map[string]receipt.Answers{}
	t.mu.Unlock()
	for key, r := range lines {
		attrs := append([]any{"source", key.source, "class", key.class, "count", r.count}, r.event...)
		if key.refused {
			t.log.Info("deliveries refused", attrs...)
		} else {
			t.log.Info("duplicates received", attrs...)
		}
	}
	if err := t.store.CountSources(ctx, counts); err != nil {
		t.log.Warn("requests not counted yet", "error", err)
		for _, c := range counts {
			t.add(c)
		}
	}
	if err := t.store.CountAnswers(ctx, slices.Collect(maps.Values(answers))); err != nil {
		t.log.Warn("answers not counted yet", "error", err)
		t.mu.Lock()
		defer t.mu.Unlock()
		for source, a := range answers {
			t.answers[source] = a.Then(t.answers[source])
		}
	}
}
