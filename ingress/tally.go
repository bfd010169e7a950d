package ingress

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
)

// tallyEvery is how long counts stay in memory. A crash loses that much of them: they inform, they
// decide nothing.
const tallyEvery = 3 * time.Second

// lastFlush bounds each of the two writes of counts that a process that ends waits for: the one under way, and that
// of the last counts.
const lastFlush = time.Second

// tally sums rejections and uses of secrets, so that a flood of bad signatures costs one row.
type tally struct {
	store Receipts
	log   *slog.Logger

	mu         sync.Mutex
	rejections map[rejectionKey]int64
	uses       map[useKey]use
}

type rejectionKey struct {
	source, class string
	day           time.Time
}

type useKey struct{ source, label string }

type use struct {
	count int64
	last  time.Time
}

func newTally(store Receipts, log *slog.Logger) *tally {
	return &tally{store: store, log: log, rejections: map[rejectionKey]int64{}, uses: map[useKey]use{}}
}

func (t *tally) refused(source, class string, at time.Time) {
	t.addRefusals(rejectionKey{source, class, at.UTC().Truncate(24 * time.Hour)}, 1)
}

func (t *tally) addRefusals(key rejectionKey, n int64) {
	t.mu.Lock()
	t.rejections[key] += n
	t.mu.Unlock()
}

func (t *tally) used(source, label string, at time.Time) {
	t.addUses(useKey{source, label}, use{1, at})
}

func (t *tally) addUses(key useKey, more use) {
	t.mu.Lock()
	u := t.uses[key]
	u.count += more.count
	if more.last.After(u.last) {
		u.last = more.last
	}
	t.uses[key] = u
	t.mu.Unlock()
}

// run writes the counts every few seconds until stop is closed; the end of ctx cuts a write short.
func (t *tally) run(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTicker(tallyEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		select {
		case <-stop: // a tick came while the last write waited for the database, and select takes either
			return
		default:
			t.flush(ctx)
		}
	}
}

// flush writes the counts, and logs the rejections that were written. Counts that cannot be written are kept for the
// next time.
func (t *tally) flush(ctx context.Context) {
	t.mu.Lock()
	rejections, uses := t.rejections, t.uses
	t.rejections, t.uses = map[rejectionKey]int64{}, map[useKey]use{}
	t.mu.Unlock()

	var counts []receipt.Rejections
	for k, n := range rejections {
		counts = append(counts, receipt.Rejections{Source: k.source, Class: k.class, Day: k.day, Count: n})
	}
	err := t.store.CountRejections(ctx, counts)
	if err != nil {
		t.log.Warn("rejections not counted yet", "error", err)
	}
	for k, n := range rejections {
		if err != nil {
			t.addRefusals(k, n)
			continue
		}
		t.log.Info("requests refused", "source", k.source, "class", k.class, "count", n)
	}
	var used []receipt.SecretUse
	for k, u := range uses {
		used = append(used, receipt.SecretUse{Source: k.source, Label: k.label, Uses: u.count, LastUsed: u.last})
	}
	if err := t.store.CountSecretUses(ctx, used); err != nil {
		t.log.Warn("uses of secrets not counted yet", "error", err)
		for k, u := range uses {
			t.addUses(k, u)
		}
	}
}
