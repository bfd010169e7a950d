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

	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/schema/account"
)

// Player plays stories against a running pawl.
type Player struct {
	// Target takes the events, API is told of them before: the stand-in of Stripe's API, "" for none.
	Target forge.Target
	API    string
	Pool   *pgxpool.Pool
	// Patience is how long pawl may take for what follows from a step.
	Patience time.Duration
}

// Moment is how things stand after a step.
type Moment struct {
	Day    int    `json:"day"`
	What   string `json:"what"`
	Events []Told `json:"events"`
	// Access is what the account has, Because the event that decides; Until is when it ends, or is expected to, nil for
	// neither.
	Access  account.Access `json:"access"`
	Until   *time.Time     `json:"until"`
	Because *Told          `json:"because"`
	// Status is that of the subscription that decides, "" where none does.
	Status string `json:"status"`
	// Standing says in words why the account has it, or has nothing; "" where nothing tells.
	Standing string `json:"standing"`
	// Effects are those that the step has caused, News the internal events, Tasks those that were opened.
	Effects []Effect `json:"effects"`
	News    []string `json:"news"`
	Tasks   []string `json:"tasks"`
	// Late is set where pawl had not done it all before the next step was due: what the clock does may show a step
	// early.
	Late bool `json:"late"`
	// Waiting says what pawl has not finished, "" for nothing: an event that is parked, or one that is still retried.
	Waiting string `json:"waiting"`
}

// Told is an event.
type Told struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// Effect is an effect of the ledger.
type Effect struct {
	Key   string `json:"key"`
	Kind  string `json:"kind"`
	State string `json:"state"`
}

// Play plays a story in order, and calls tell after each step. It waits for the time of each: cut the story first where
// that is too long.
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
		if err := p.settled(ctx, seen, step.At); err != nil {
			return err
		}
		m, err := seen.observe(ctx, p.Pool, step)
		if err != nil {
			return err
		}
		m.Late = time.Now().After(l.ahead(i))
		tell(m)
	}
	return nil
}

// deliver tells the provider's stand-in, and delivers each event once.
func (p *Player) deliver(ctx context.Context, events []forge.Event, atOnce int) error {
	if p.API != "" {
		if err := forge.Tell(ctx, p.API, events); err != nil {
			return err
		}
	}
	return p.send(ctx, events, atOnce)
}

// redeliveries is how often an event is delivered that could not be committed in time, redeliverIn after the time
// before: a provider comes again, too.
const (
	redeliveries = 10
	redeliverIn  = time.Second
)

// send delivers events, and delivers those again that were answered 503 where nothing else went wrong.
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

// settled waits until pawl has finished the delivered events and everything due by a time. When its patience ends
// first, the next observation shows the difference.
func (p *Player) settled(ctx context.Context, s *sight, by time.Time) error {
	patience := time.NewTimer(p.Patience)
	defer patience.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		open, err := s.open(ctx, p.Pool, by)
		if err != nil || open == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-patience.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
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

// String tells the moment's access in words, without its reasons.
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
