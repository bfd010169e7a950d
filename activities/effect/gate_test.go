package effect_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

// keyed returns a call of an effect with another key.
func keyed(key string) effect.Call {
	c := call("evt_1", 0)
	c.Key = "effect:stripe:live:" + key
	return c
}

// An effect without a free slot is rejected before it claims anything, and its retry takes the next free slot.
func TestGate_NoPlace_NothingClaimed(t *testing.T) {
	b := setup(t)
	p := policy
	p.Gate = effect.NewGate("finance", 1, 0)
	result, err := b.do(keyed("first"), p, "x", func(context.Context, *effect.Attempt) (any, error) {
		if p.Gate.Busy() != 1 {
			t.Errorf("%d in flight, want 1", p.Gate.Busy())
		}
		_, err := b.do(keyed("second"), p, "x", never(t))
		if message := b.again(err, effect.TypeNotYet).Message(); !strings.Contains(message, "finance has no free slot") {
			t.Errorf("told %q", message)
		}
		if got := b.one(`select string_agg(key, ' ') from effects`); got != "effect:stripe:live:first" {
			t.Errorf("claimed %s", got)
		}
		return nil, nil
	})
	b.want(result, err, effect.Done)
	if len(b.retrying) != 1 || !strings.Contains(b.retrying[0], "second waits: finance has no free slot: 1 effects are in flight") {
		t.Errorf("the receipt was shown %q", b.retrying)
	}
	result, err = b.do(keyed("second"), p, "x", succeed)
	b.want(result, err, effect.Done)
	if p.Gate.Busy() != 0 {
		t.Errorf("%d in flight, want none", p.Gate.Busy())
	}
}

// A short burst of requests needs no regular activity, because a local attempt waits briefly for a slot.
func TestGate_LocalTry_WaitsAMoment(t *testing.T) {
	b := setup(t)
	p := policy
	p.Gate = effect.NewGate("finance", 1, 0)
	for try := 1; ; try++ {
		leave, waited := p.Gate.Enter(t.Context()), make(chan error, 1)
		go func() {
			_, err := b.locally(p, time.Minute, "waits", succeed)
			waited <- err
		}()
		for range time.Tick(time.Millisecond) {
			if p.Gate.Waiting() > 0 || len(waited) > 0 {
				break
			}
		}
		leave()
		err := <-waited
		if err == nil {
			return
		}
		// The wait is short, and this machine may have been busy for longer.
		if message := b.again(err, effect.TypeNotYet).Message(); try == 20 || !strings.Contains(message, "finance has no free slot") {
			t.Fatalf("attempt %d was rejected with %q", try, message)
		}
	}
}

// If a sink hangs, a local attempt does not block its workflow task.
func TestGate_LocalTry_NoPlace_TurnedAway(t *testing.T) {
	b := setup(t)
	p := policy
	p.Gate = effect.NewGate("finance", 1, 0)
	defer p.Gate.Enter(t.Context())()
	_, err := b.locally(p, time.Minute, "waits", never(t))
	if message := b.again(err, effect.TypeNotYet).Message(); !strings.Contains(message, "finance has no free slot") {
		t.Errorf("told %q", message)
	}
	if got := b.one(`select count(*)::text from effects`); got != "0" {
		t.Errorf("%s effects were claimed, want none", got)
	}
}

// With many concurrent calls, the number in progress never exceeds the number of slots.
func TestGate_NeverMoreInFlightThanPlaces(t *testing.T) {
	b := setup(t)
	p := policy
	p.Gate = effect.NewGate("finance", 3, 0)
	var mu sync.Mutex
	inFlight, most, done := 0, 0, 0
	full, once := make(chan struct{}), sync.Once{}
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			_, err := b.do(keyed(strings.Repeat("k", i+1)), p, "x", func(context.Context, *effect.Attempt) (any, error) {
				mu.Lock()
				inFlight++
				most = max(most, inFlight)
				if inFlight == 3 {
					once.Do(func() { close(full) })
				}
				mu.Unlock()
				<-full // each call waits until all slots are in use
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					inFlight--
				}()
				return nil, nil
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			}
		})
	}
	group.Wait()
	if most > 3 || done < 3 {
		t.Errorf("%d in flight at once and %d done, want at most 3 and at least 3", most, done)
	}
}

// If the rate of a sink is one per second, the sink gets one request per second. A call that would wait too long is
// rejected and retried later.
func TestGate_Rate_TurnsAway(t *testing.T) {
	b := setup(t)
	p := policy
	p.Gate = effect.NewGate("finance", 100, 1)
	var mu sync.Mutex
	var done int
	var told []string
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			_, err := b.do(keyed(strings.Repeat("k", i+1)), p, "x", succeed)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
				return
			}
			told = append(told, b.again(err, effect.TypeNotYet).Message())
		})
	}
	group.Wait()
	if done < 1 || len(told) < 1 || !strings.Contains(told[0], "finance is limited to 1 effects per second, and more are waiting") {
		t.Errorf("%d done, rejected with %q", done, told)
	}
}
