package scenario

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/output"
)

// Stage is the environment in which a scenario runs.
type Stage struct {
	Player
	Shop Shop
	// Day is the real time that one simulated day takes.
	Day time.Duration
	// Sandbox is the directory with the journals of the sandbox. It may not exist.
	Sandbox string
	// Stage calls Began with the scenario before its first step, and OnStep with the state after each step.
	Began  func(Laid)
	OnStep func(Moment)
}

// Result is the result of a scenario.
type Result struct {
	Scenario string `json:"scenario"`
	Account  string `json:"account"`
	Mode     string `json:"mode"`
	// Day is the real time that one simulated day takes.
	Day   string   `json:"day"`
	Steps []Moment `json:"steps"`
	// LeftOut lists the steps in the future. They are omitted if a simulated day takes 24 hours.
	LeftOut []string `json:"omitted"`
	// Storm is nil if the scenario ran only without delivery faults.
	Storm *StormResult `json:"storm"`
}

// StormResult is the result of the same scenario with delivery faults, for another account.
type StormResult struct {
	Account string `json:"account"`
	Seed    uint64 `json:"seed"`
	Deliveries
	// Differences lists the differences between the final states of both accounts.
	Differences []string `json:"differences"`
}

// Failed reports whether the final states differ.
func (r *Result) Failed() bool { return r.Storm != nil && len(r.Storm.Differences) > 0 }

// Perform runs a scenario for an account. If w is not nil, it also runs the scenario with the delivery faults of w for
// a second account, and compares the final states.
func (s *Stage) Perform(ctx context.Context, story Scenario, p forge.Params, w *Weather) (*Result, error) {
	p.Account = cmp.Or(p.Account, story.Name+"-"+strings.ToLower(rand.Text()[:6]))
	p.Seed = rand.Text()
	now := time.Now()
	calm, left, err := s.lay(story, p, now)
	if err != nil {
		return nil, err
	}
	result := &Result{Scenario: story.Name, Account: calm.Account, Mode: calm.Mode, Day: output.ShortDuration(s.Day),
		Steps: []Moment{}, LeftOut: []string{}}
	for _, step := range left {
		result.LeftOut = append(result.LeftOut, fmt.Sprintf("day %d: %s", step.Day, step.What))
	}
	s.Began(calm)
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error {
		return s.Play(both, calm, func(m Moment) {
			// A scheduled action can appear early only if the scenario waits for the clock.
			m.Late = m.Late && story.Lasts(s.Day) > 0
			result.Steps = append(result.Steps, m)
			s.OnStep(m)
		})
	})
	if w == nil {
		return result, group.Wait()
	}
	p.Account += "-storm"
	bad, _, err := s.lay(story, p, now)
	if err != nil {
		return nil, err
	}
	result.Storm = &StormResult{Account: bad.Account, Seed: w.Seed, Differences: []string{}}
	group.Go(func() (err error) {
		result.Storm.Deliveries, err = s.Storm(both, bad, *w)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	found, err := Compare(ctx, s.Pool, bad, calm, s.journals())
	result.Storm.Differences = append(result.Storm.Differences, found...)
	return result, err
}

// lay gives the steps of a scenario their times and events. If a simulated day takes 24 hours, it leaves out the steps
// in the future.
func (s *Stage) lay(story Scenario, p forge.Params, now time.Time) (l Laid, left []LaidStep, err error) {
	if l, err = story.Lay(p, s.Shop, now, s.Day); err == nil && s.Day >= 24*time.Hour {
		left = l.Cut(now)
	}
	return l, left, err
}

// journals returns the directory of the sandbox, or "" if it has no journals.
func (s *Stage) journals() string {
	if _, err := os.Stat(filepath.Join(s.Sandbox, "finance.jsonl")); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return s.Sandbox
}
