package workflows

import (
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/workflows/plan"
)

// step is a planned effect with its result in this run.
type step struct {
	*plan.Step

	result effect.Result
	// waitingSince is when the run began to wait for the sink in this round, if no attempt has been made.
	waitingSince time.Time
	// begun is set after the first attempt. round counts the retries that operators requested.
	begun bool
	round int
	// decided is set when a person decides about the step, and cleared when the step is settled.
	decided bool
	// again is set once a replay has retried the step.
	again bool
	// skipped is set if an operator skipped the step. held is set if the last decision selected other steps.
	skipped, held bool
}

// newStep returns the step of a planned effect.
func newStep(planned *plan.Step) *step { return &step{Step: planned} }

// newSteps returns the steps of planned effects.
func newSteps(planned []*plan.Step) (steps []*step) {
	for _, s := range planned {
		steps = append(steps, newStep(s))
	}
	return steps
}

// keptBack reports whether another step of the run must finish before this one.
func (f *flow) keptBack(s *step) bool {
	return slices.ContainsFunc(f.steps, func(o *step) bool {
		return !o.settled() && slices.ContainsFunc(s.After, func(key string) bool {
			return o.Key == key || strings.HasSuffix(key, ":") && strings.HasPrefix(o.Key, key)
		})
	})
}

func (s *step) settled() bool { return s.skipped || s.result.State.Settled() }

// refused reports whether the step was refused and its refusal affects the whole event.
func (s *step) refused() bool { return s.RefusalUndoesAll && s.result.State == effect.Refused }

// retry starts a new round, in which the step can be attempted again. The round must be higher than the round in the
// ledger, because another run for the same fact, or this run before a reset, may have retried in later rounds.
func (s *step) retry() { s.round, s.waitingSince = max(s.round, s.result.Round)+1, time.Time{} }

// uncertain reports whether the step may or may not have happened. Another attempt may execute it twice.
func (s *step) uncertain() bool { return s.result.State == effect.Uncertain }

// hadFailed reports whether the step failed before this replay and was not retried yet.
func (s *step) hadFailed() bool { return s.result.Met && !s.uncertain() && !s.again }

func (f *flow) call(s *step) effect.Call {
	return effect.Call{
		Key: s.Key, Kind: s.Kind, Round: s.round, Ref: f.in.Ref,
		Compensates: s.Compensates, After: s.EntriesBefore(), AsOf: f.asOf(), WaitingSince: s.waitingSince,
		Timeout: f.settings[s.Sink].Timeout,
	}
}

// attempt describes how executeIn runs the step: as a local activity first, unless the settings of the sink exclude
// that, and then as a regular activity with the same key.
func (f *flow) attempt(s *step) attempt {
	how := f.settings[s.Sink]
	return attempt{
		name: s.Key, step: s.Step, call: f.call(s), timeout: how.Timeout, regularOnly: how.ActivityOnly,
	}
}
