package scenario

import (
	"time"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
)

// Laid is a scenario with times and events for one account.
type Laid struct {
	Scenario
	Account, Mode string
	// Token is part of every ID in the events of this scenario. No other scenario uses it.
	Token string
	Steps []LaidStep

	// day is the real time that a simulated day takes. now is the current day of the scenario.
	day time.Duration
	now time.Time
	// refused is the plan that the workspace API refuses. It is empty if the scenario has no refusal.
	refused string
}

// LaidStep is a step with its time and its events.
type LaidStep struct {
	Step
	At     time.Time
	Events []forge.Event
}

// Lay sets the times of the steps relative to now and creates the events. p sets the account, the mode and the API
// version. The same p.Seed and account give the same IDs.
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

// Events returns all events of the scenario in order.
func (l Laid) Events() (all []forge.Event) {
	for _, s := range l.Steps {
		all = append(all, s.Events...)
	}
	return all
}

// eventIDs returns the IDs of the events. It never returns nil.
func (l Laid) eventIDs() []string {
	ids := []string{}
	for _, e := range l.Events() {
		ids = append(ids, e.ID)
	}
	return ids
}

// Until returns the time of the last step.
func (l Laid) Until() time.Time { return l.Steps[len(l.Steps)-1].At }

// ahead returns the deadline of a step: the time of the next step, or one day after the current day of the scenario.
func (l Laid) ahead(step int) time.Time {
	if step+1 < len(l.Steps) && l.Steps[step+1].At.After(l.now) {
		return l.Steps[step+1].At
	}
	return latest(l.now, l.Steps[step].At).Add(l.day)
}

// Cut removes the steps after a time and returns them.
func (l *Laid) Cut(after time.Time) (left []LaidStep) {
	for i, s := range l.Steps {
		if s.At.After(after) {
			left, l.Steps = l.Steps[i:], l.Steps[:i]
			break
		}
	}
	return left
}
