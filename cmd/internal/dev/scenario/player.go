package scenario

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/billing/account"
)

// Player runs scenarios against a running pawl.
type Player struct {
	// Target receives the events. API is the URL of the sandbox's Stripe API, which records each event before its
	// delivery. It is empty if no API records the events.
	Target forge.Target
	API    string
	Pool   *pgxpool.Pool
	// Patience is the longest wait for the effects of a step.
	Patience time.Duration
}

// Moment is the state after a step.
type Moment struct {
	Day    int        `json:"day"`
	What   string     `json:"what"`
	Events []EventRef `json:"events"`
	// Access is the access of the account and Event the deciding event. Until is the actual or expected end, or nil.
	Access account.Access `json:"access"`
	Until  *time.Time     `json:"ends_at"`
	Event  *EventRef      `json:"event"`
	// Status is the status of the deciding subscription, or empty.
	Status string `json:"status"`
	// Standing is the reason of the access in words, or empty.
	Standing string `json:"standing"`
	// Effects, News and Tasks are the effects, published events and opened tasks of the step.
	Effects []Effect `json:"effects"`
	News    []string `json:"news"`
	Tasks   []string `json:"tasks"`
	// Late is set if pawl had not finished the step before the next one was due. A scheduled action may then appear one
	// step early.
	Late bool `json:"late"`
	// Waiting describes unfinished work: a parked event or a retry. It is empty if all work is done.
	Waiting string `json:"waiting"`
}

// EventRef identifies an event.
type EventRef struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// Effect is an effect of the ledger.
type Effect struct {
	Key   string `json:"key"`
	Kind  string `json:"kind"`
	State string `json:"state"`
}

// Play delivers the events of a scenario in order and calls tell after each step. It waits for the time of each step.
// Call [Laid.Cut] first to remove steps.
func (p *Player) Play(ctx context.Context, l Laid, tell func(Moment)) error {
	seen := newSight(l)
	for i, step := range l.Steps {
		if err := until(ctx, step.At); err != nil {
			return err
		}
		if l.Refuses > 0 && l.Refuses == step.Day {
			if err := forge.Fault(ctx, p.API, map[string]any{"service": "workspaces", "account": l.Account,
				"plan": l.refused, "status": http.StatusUnprocessableEntity, "next": 1000}); err != nil {
				return err
			}
		}
		if err := p.deliver(ctx, step.Events, 1); err != nil {
			return err
		}
		seen.tell(step.Events)
		settled, err := p.settled(ctx, seen, step.At)
		if err != nil {
			return err
		}
		m, err := seen.observe(ctx, p.Pool, step, settled)
		if err != nil {
			return err
		}
		m.Late = time.Now().After(l.ahead(i))
		tell(m)
	}
	return nil
}

// deliver records the events at the sandbox's Stripe API and delivers each event once.
func (p *Player) deliver(ctx context.Context, events []forge.Event, atOnce int) error {
	if p.API != "" {
		if err := forge.Tell(ctx, p.API, events); err != nil {
			return err
		}
	}
	return p.send(ctx, events, atOnce)
}

// redeliveries is the number of repeated deliveries after an answer 503. redeliverIn is the delay before the next one.
const (
	redeliveries = 10
	redeliverIn  = time.Second
)

// send delivers events. It repeats the events that were answered with 503 if there was no other error.
func (p *Player) send(ctx context.Context, events []forge.Event, atOnce int) error {
	for try := 1; ; try++ {
		again := map[string]bool{}
		var busy, refused error
		err := p.Target.Send(ctx, events, 0, atOnce, func(r forge.Result) {
			switch {
			case r.Err != nil:
				refused = fmt.Errorf("deliver %s: %w", r.Type, r.Err)
			case r.Status == http.StatusServiceUnavailable:
				again[r.EventID], busy = true, fmt.Errorf("%s was answered with %d", r.Type, r.Status)
			case !r.OK():
				refused = fmt.Errorf("%s was answered with %d", r.Type, r.Status)
			}
		})
		if err = cmp.Or(err, refused); err != nil || busy == nil {
			return err
		}
		if try == redeliveries {
			return busy
		}
		events = slices.DeleteFunc(slices.Clone(events), func(e forge.Event) bool { return !again[e.ID] })
		if err := until(ctx, time.Now().Add(redeliverIn)); err != nil {
			return err
		}
	}
}

// settled waits until pawl has processed the delivered events and all actions that are due by a time. It waits no
// longer than Patience, and then returns false; the next observation then shows the unfinished work.
func (p *Player) settled(ctx context.Context, s *sight, by time.Time) (bool, error) {
	patience := time.NewTimer(p.Patience)
	defer patience.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		open, err := s.open(ctx, p.Pool, by)
		if err != nil || open == 0 {
			return err == nil, err
		}
		select {
		case <-tick.C:
		case <-patience.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// until waits until a time.
func until(ctx context.Context, at time.Time) error {
	wait := time.NewTimer(time.Until(at))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// String returns the access of the moment in words, without the reason.
func (m Moment) String() string {
	x := m.Access
	if x.Version == 0 {
		return "none"
	}
	words := []string{x.State}
	if x.Plan != "" {
		words = append(words, x.Plan)
	}
	if x.Quantity > 1 {
		words = append(words, fmt.Sprintf("× %d", x.Quantity))
	}
	return strings.Join(words, " ")
}
