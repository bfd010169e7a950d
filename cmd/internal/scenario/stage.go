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

	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/output"
)

// Stage is where stories are played.
type Stage struct {
	Player
	Shop Shop
	// Day is how long a day lasts.
	Day time.Duration
	// Sandbox is the directory of its journals, if they are there.
	Sandbox string
	// Began is told the story before it is played, and Told the state after each step.
	Began func(Laid)
	Told  func(Moment)
}

// Result is what a story came to.
type Result struct {
	Scenario string `json:"scenario"`
	Account  string `json:"account"`
	Mode     string `json:"mode"`
	// Day is how long a day lasted.
	Day   string   `json:"day"`
	Steps []Moment `json:"steps"`
	// LeftOut are the steps that were not played, since days have 24 hours.
	LeftOut []string `json:"left_out"`
	// Storm is nil for a story that was delivered in order.
	Storm *StormResult `json:"storm"`
}

// StormResult is what became of the same story, delivered badly to another account.
type StormResult struct {
	Account string `json:"account"`
	Seed    uint64 `json:"seed"`
	Deliveries
	// Differences between the ends of both; none where they are the same.
	Differences []string `json:"differences"`
}

// Failed reports whether the storm's end is another.
func (r *Result) Failed() bool { return r.Storm != nil && len(r.Storm.Differences) > 0 }

// Perform plays a story for an account; and, in a weather, the same story for another account beside it, which is
// delivered badly. The ends of both are compared.
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
			m.Late = m.Late && story.Lasts(s.Day) > 0 // nothing comes too early where the clock does nothing
			result.Steps = append(result.Steps, m)
			s.Told(m)
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

// lay lays a story. It leaves out the steps that lie ahead where days have 24 hours.
func (s *Stage) lay(story Scenario, p forge.Params, now time.Time) (l Laid, left []LaidStep, err error) {
	if l, err = story.Lay(p, s.Shop, now, s.Day); err == nil && s.Day >= 24*time.Hour {
		left = l.Cut(now)
	}
	return l, left, err
}

// journals is the sandbox's directory, "" where it has none.
func (s *Stage) journals() string {
	if _, err := os.Stat(filepath.Join(s.Sandbox, "finance.jsonl")); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return s.Sandbox
}
