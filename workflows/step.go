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
	// undo creates the step that compensates this one. It is nil if none is needed.
	undo func(done effect.Result) *step
	// refusalUndoesAll is set if the customer has paid for this effect: a permanent refusal then compensates
	// everything.
	refusalUndoesAll bool
	// then creates the follow-up step from the result of this one, or nil.
	then func(done effect.Result) *step
	// compensates is the key of the effect that this undo compensates. after lists the keys of effects that must be
	// settled first.
	compensates string
	after       []string

	result effect.Result
	// waitingSince is when the run began to wait for the sink in this round, before any attempt.
	waitingSince time.Time
	// begun is set once the step was attempted. round counts the retries that operators requested.
	begun bool
	round int
	// decided is set from a person's decision about the step until the step is settled.
	decided bool
	// again is set once a replay has retried a step that had failed before it.
	again bool
	// skipped is set if an operator skipped the step. held is set while the last decision concerned other steps.
	skipped, held bool
}

// undoneBy sets the step that compensates this one.
func (s *step) undoneBy(undo *step) *step {
	s.undo = func(effect.Result) *step { return undo }
	return s
}

// comesAfter makes the step wait for others. A key that ends with a colon matches every key with that prefix.
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

// retry allows another attempt in a round that the ledger has not seen. Another run for the same fact, or this run
// before a reset, may have retried in later rounds.
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

// attempt returns the first attempt of the step: a local activity unless its sink is configured otherwise. If that
// does not finish it, a regular activity with the same key follows, which the Temporal UI shows until it is done.
func (f *flow) attempt(s *step) attempt {
	how := f.settings[s.sink]
	return attempt{
		name: s.key, work: s.work, call: f.call(s), timeout: how.Timeout, regularOnly: how.ActivityOnly,
	}
}
