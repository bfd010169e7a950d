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

// tallyEvery is how long counts stay in memory. A crash loses that much of them: they inform, they
// decide nothing.
const tallyEvery = 3 * time.Second

// flushTimeout bounds a write of counts. A process that ends waits for two of them: the one under way, and that of the
// last counts.
const flushTimeout = 2 * time.Second

// tally sums rejections and uses of secrets, so that a flood of bad signatures costs one row.
type tally struct {
	store Receipts
	log   *slog.Logger

	mu     sync.Mutex
	counts map[receipt.SourceCount]receipt.SourceCount // by themselves, without count and last
	lines  map[line]*repeated
	// answers are those to authentic deliveries, by source.
	answers map[string]receipt.Answers
}

// line is what one line of the log stands for: requests of a source that were refused with a class, or duplicates of
// events with a status.
type line struct {
	source  string
	refused bool
	class   string
}

// repeated is how often it happened, and the event of the first.
type repeated struct {
	count int
	event []any
}

func newTally(store Receipts, log *slog.Logger) *tally {
	return &tally{store: store, log: log, counts: map[receipt.SourceCount]receipt.SourceCount{},
		lines: map[line]*repeated{}, answers: map[string]receipt.Answers{}}
}

// answered counts an answer to an authentic delivery. An answer that anybody could cause is not counted.
func (t *tally) answered(source string, ok bool, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.answers[source].And(ok, at)
	a.Source = source
	t.answers[source] = a
}

// count counts a request that came at a time; name is the class of a refusal, or the label of the secret.
func (t *tally) count(source string, what receipt.Counted, name string, at time.Time) {
	t.add(receipt.SourceCount{Source: source, What: what, Name: name, Day: at.UTC().Truncate(24 * time.Hour),
		Count: 1, Last: at})
}

// refuse counts and tells a refusal. claims gives the keys that the request itself gives, nil where nothing was read.
func (t *tally) refuse(source, class string, at time.Time, claims func() []any) {
	t.count(source, receipt.Refused, class, at)
	t.tell(line{source, true, class}, claims)
}

// tell counts what one line of the log will tell at the next flush. event gives the keys of the first one alone: a
// flood costs no more.
func (t *tally) tell(of line, event func() []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines[of] == nil {
		t.lines[of] = &repeated{}
		if event != nil {
			t.lines[of].event = event()
		}
	}
	t.lines[of].count++
}

func (t *tally) add(more receipt.SourceCount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := more
	key.Count, key.Last = 0, time.Time{}
	held := t.counts[key]
	more.Count += held.Count
	if held.Last.After(more.Last) {
		more.Last = held.Last
	}
	t.counts[key] = more
}

// run writes the counts every few seconds until ctx ends, and the last ones then.
func (t *tally) run(ctx context.Context) {
	tick := time.NewTicker(tallyEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		t.flush()
	}
}

// flush writes the counts, and logs the lines. Counts that cannot be written are kept for the next time.
func (t *tally) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	t.mu.Lock()
	counts, lines, answers := slices.Collect(maps.Values(t.counts)), t.lines, t.answers
	t.counts, t.lines = map[receipt.SourceCount]receipt.SourceCount{}, map[line]*repeated{}
	t.answers = map[string]receipt.Answers{}
	t.mu.Unlock()
	for of, r := range lines {
		told := append([]any{"source", of.source, "class", of.class, "count", r.count}, r.event...)
		if of.refused {
			t.log.Info("deliveries refused", told...)
		} else {
			t.log.Info("duplicates received", told...)
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
