package scenario

import (
	"time"

	"github.com/pawlhq/pawl/cmd/internal/forge"
)

// Laid is a story with times and events: what will happen to one account.
type Laid struct {
	Scenario
	Account, Mode string
	// Token stands in every ID that the story's events name, and in no other's.
	Token string
	Steps []LaidStep

	// day is how long one lasts, now when the story's today is.
	day time.Duration
	now time.Time
	// refused is the plan that the workspace API refuses, in a story that says so.
	refused string
}

// LaidStep is a step with its time and its events.
type LaidStep struct {
	Step
	At     time.Time
	Events []forge.Event
}

// Lay gives the story's steps their times, seen from now, where a day lasts so long, and makes the events. p says whose
// account it is, in which mode and version; equal p.Seed and account give equal IDs.
func (s Scenario) Lay(p forge.Params, shop Shop, now time.Time, day time.Duration) (Laid, error) {
	now = now.Truncate(time.Second)
	c := forge.NewCustomer(p, day)
	l := Laid{Scenario: s, Account: p.Account, Mode: "test", Token: c.Token(), day: day, now: now,
		refused: shop.High.Name}
	if p.Live {
		l.Mode = "live"
	}
	for _, step := range s.Steps {
		laid := LaidStep{Step: step, At: now.Add(time.Duration(step.Day-s.Now) * day)}
		c.At(laid.At)
		if step.Happens != nil {
			step.Happens(c, shop)
		}
		var err error
		if laid.Events, err = c.Events(); err != nil {
			return Laid{}, err
		}
		l.Steps = append(l.Steps, laid)
	}
	return l, nil
}

// Events returns all events of the story, in the order in which they happen.
func (l Laid) Events() (all []forge.Event) {
	for _, s := range l.Steps {
		all = append(all, s.Events...)
	}
	return all
}

// eventIDs are those of the story's events, never nil.
func (l Laid) eventIDs() []string {
	ids := []string{}
	for _, e := range l.Events() {
		ids = append(ids, e.ID)
	}
	return ids
}

// Until is the last step's time.
func (l Laid) Until() time.Time { return l.Steps[len(l.Steps)-1].At }

// ahead returns when what comes after a step begins, which it is to be done by: the next step, or a day after the
// story's today.
func (l Laid) ahead(step int) time.Time {
	if step+1 < len(l.Steps) && l.Steps[step+1].At.After(l.now) {
		return l.Steps[step+1].At
	}
	return latest(l.now, l.Steps[step].At).Add(l.day)
}

// Cut leaves out the steps after a time, and returns them.
func (l *Laid) Cut(after time.Time) (left []LaidStep) {
	for i, s := range l.Steps {
		if s.At.After(after) {
			left, l.Steps = l.Steps[i:], l.Steps[:i]
			break
		}
	}
	return left
}
