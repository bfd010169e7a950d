package workflows

import (
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

// step is one effect of a flow: its work, its undo and its result. The kinds of the catalogue create steps.
type step struct {
	kind string
	key  string
	// sink selects the settings in flow.settings.
	sink string
	work worker
	// undo returns the step that compensates this step. It is nil if the effect need not be compensated.
	undo func(done effect.Result) *step
	// refusalUndoesAll is set if the customer has paid for this effect: a permanent refusal then compensates
	// everything.
	refusalUndoesAll bool
	// then, if set, returns the follow-up step, which depends on the result of this step.
	then func(done effect.Result) *step
	// compensates is the key of the effect that this undo compensates. after lists the keys of effects that must be
	// settled first.
	compensates string
	after       []string

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

// undoneBy sets the step that compensates this one.
func (s *step) undoneBy(undo *step) *step {
	s.undo = func(effect.Result) *step { return undo }
	return s
}

// comesAfter adds keys of effects that must be settled before the step starts. A key that ends with a colon matches
// every key with that prefix.
func (s *step) comesAfter(keys ...string) *step {
	s.after = append(s.after, keys...)
	return s
}

// keptBack reports whether another step of the run must finish before this one.
func (f *flow) keptBack(s *step) bool {
	return slices.ContainsFunc(f.steps, func(o *step) bool {
		return !o.settled() && slices.ContainsFunc(s.after, func(key string) bool {
			return o.key == key || strings.HasSuffix(key, ":") && strings.HasPrefix(o.key, key)
		})
	})
}

func (s *step) settled() bool { return s.skipped || s.result.State.Settled() }

// refused reports whether the step was refused and its refusal affects the whole event.
func (s *step) refused() bool { return s.refusalUndoesAll && s.result.State == effect.Refused }

// retry starts a new round, in which the step can be attempted again. The round must be higher than the round in the
// ledger, because another run for the same fact, or this run before a reset, may have retried in later rounds.
func (s *step) retry() { s.round, s.waitingSince = max(s.round, s.result.Round)+1, time.Time{} }

// uncertain reports whether the step may or may not have happened. Another attempt may execute it twice.
func (s *step) uncertain() bool { return s.result.State == effect.Uncertain }

// hadFailed reports whether the step failed before this replay and was not retried yet.
func (s *step) hadFailed() bool { return s.result.Met && !s.uncertain() && !s.again }

func (f *flow) call(s *step) effect.Call {
	return effect.Call{
		Key: s.key, Kind: s.kind, Round: s.round, Ref: f.in.Ref,
		Compensates: s.compensates, After: s.after, AsOf: f.asOf(), WaitingSince: s.waitingSince,
		Timeout: f.settings[s.sink].Timeout,
	}
}

// attempt returns the attempt of the step for executeIn. It is a local activity first, unless the settings of the sink
// exclude that, and then a regular activity with the same key.
func (f *flow) attempt(s *step) attempt {
	how := f.settings[s.sink]
	return attempt{
		name: s.key, work: s.work, call: f.call(s), timeout: how.Timeout, regularOnly: how.ActivityOnly,
	}
}
