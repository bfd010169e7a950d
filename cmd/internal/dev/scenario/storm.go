package scenario

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
)

// Weather describes the delivery faults.
type Weather struct {
	// Seed determines all random choices.
	Seed uint64
	// Shuffle changes the order of the events of a step.
	Shuffle bool
	// Duplicate is the probability of a second delivery. Drop is the probability that a delivery is lost and repeated
	// later.
	Duplicate, Drop float64
	// Delay is the longest delay of a delivery.
	Delay time.Duration
}

// Deliveries counts the deliveries of [Player.Storm].
type Deliveries struct {
	Events     int `json:"events"`
	Deliveries int `json:"deliveries"`
	Dropped    int `json:"dropped"`
	Duplicates int `json:"duplicates"`
	// Overtaken counts events that were first delivered after a later event.
	Overtaken int `json:"overtaken"`
}

// redelivery is the shortest delay of a repeated delivery. The longest is twice as long.
const redelivery = time.Second

// delivery is an event with the time at which it is delivered.
type delivery struct {
	event forge.Event
	at    time.Time
	order int // the position at which the event happened
	tie   uint64
}

// schedule returns the deliveries in order of time. Events of the past are delivered from now on.
func (w Weather) schedule(l Laid, now time.Time) ([]delivery, Deliveries) {
	chance := rand.New(rand.NewPCG(w.Seed, 0))
	var all []delivery
	var count Deliveries
	add := func(e forge.Event, order int, at time.Time) {
		d := delivery{event: e, at: at, order: order}
		if w.Shuffle {
			d.tie = chance.Uint64()
		}
		all = append(all, d)
	}
	late := func() time.Duration {
		if w.Delay <= 0 {
			return 0
		}
		return time.Duration(chance.Int64N(int64(w.Delay)))
	}
	again := func() time.Duration {
		return redelivery + w.Delay + time.Duration(chance.Int64N(int64(redelivery+w.Delay)))
	}
	for _, step := range l.Steps {
		for _, e := range step.Events {
			at := step.At
			if at.Before(now) {
				at = now
			}
			at = at.Add(late())
			for chance.Float64() < w.Drop {
				at = at.Add(again())
				count.Dropped++
			}
			add(e, count.Events, at)
			for chance.Float64() < w.Duplicate {
				add(e, count.Events, at.Add(late()).Add(again()/2))
				count.Duplicates++
			}
			count.Events++
		}
	}
	slices.SortStableFunc(all, func(a, b delivery) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.tie, b.tie)) })
	count.Deliveries = len(all)
	newest, first := -1, map[int]bool{}
	for _, d := range all {
		if !first[d.order] && d.order < newest {
			count.Overtaken++
		}
		first[d.order], newest = true, max(newest, d.order)
	}
	return all, count
}

// Storm runs a scenario with the delivery faults of w: events arrive late, twice, in another order, or only after a
// lost delivery. When all events are delivered and pawl has processed them, it returns the numbers of deliveries.
func (p *Player) Storm(ctx context.Context, l Laid, w Weather) (Deliveries, error) {
	all, count := w.schedule(l, time.Now())
	steps := l.Steps
	seen := newSight(l)
	for len(all) > 0 {
		// The provider's API returns the objects of a step from its time on, even if its events are not delivered yet.
		next := all[0].at
		for len(steps) > 0 && !steps[0].At.After(latest(next, time.Now())) {
			if err := p.happen(ctx, steps[0]); err != nil {
				return count, err
			}
			steps = steps[1:]
		}
		if err := until(ctx, next); err != nil {
			return count, err
		}
		n := 0
		var events []forge.Event
		for ; n < len(all) && !all[n].at.After(time.Now()); n++ {
			events = append(events, all[n].event)
		}
		all = all[n:]
		if err := p.send(ctx, events, 4); err != nil {
			return count, err
		}
		seen.tell(events)
	}
	if err := until(ctx, l.Until()); err != nil {
		return count, err
	}
	_, err := p.settled(ctx, seen, l.Until())
	return count, err
}

// happen waits for the time of a step and records its events at the sandbox's Stripe API.
func (p *Player) happen(ctx context.Context, step LaidStep) error {
	if err := until(ctx, step.At); err != nil || p.API == "" {
		return err
	}
	return forge.Tell(ctx, p.API, step.Events)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
