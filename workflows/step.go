package workflows

import (
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

// step is one effect of a flow: how it is done, how it is undone, and what came of it. The kinds of the catalogue make
// them.
type step struct {
	kind string
	key  string
	// sink names its settings in flow.settings.
	sink string
	work worker
	// undo makes the step that takes this one back, nil for a step that needs none.
	undo func(done effect.Result) *step
	// refusalUndoesAll is set if the customer has paid for this effect: a refusal for good then takes everything back.
	refusalUndoesAll bool
	// then makes the step that the result of this one calls for, nil for none.
	then func(done effect.Result) *step
	// compensates is the key that an undo takes back. after are the keys of the effects that are settled before this
	// one is tried.
	compensates string
	after       []string

	result effect.Result
	// waitingSince is since when the run has waited in this round for the sink, with the step not tried.
	waitingSince time.Time
	// begun is set once the step was tried; round counts the operator's retries of it.
	begun bool
	round int
	// decided is set when a person has decided about the step, until it is settled.
	decided bool
	// again is set once a replay has tried again what had failed before it.
	again bool
	// skipped is set when an operator decided that the step shall not be done, held while the last decision was about
	// others.
	skipped, held bool
}

// undoneBy says which step takes this one back.
func (s *step) undoneBy(undo *step) *step {
	s.undo = func(effect.Result) *step { return undo }
	return s
}

// comesAfter has the step wait for others. A key that ends with a colon stands for all that begin with it.
func (s *step) comesAfter(keys ...string) *step {
	s.after = append(s.after, keys...)
	return s
}

// keptBack reports whether another step of the run comes before this one, and is not settled.
func (f *flow) keptBack(s *step) bool {
	return slices.ContainsFunc(f.steps, func(o *step) bool {
		return !o.settled() && slices.ContainsFunc(s.after, func(key string) bool {
			return o.key == key || strings.HasSuffix(key, ":") && strings.HasPrefix(o.key, key)
		})
	})
}

func (s *step) settled() bool { return s.skipped || s.result.State.Settled() }

// refused reports whether the step was refused, and stands for all that the event asks for.
func (s *step) refused() bool { return s.refusalUndoesAll && s.result.State == effect.Refused }

// retry lets the step be done once more, in a round that the ledger has not seen: another run for the same fact, or
// this one before a reset, may have asked for retries that this one knows nothing of.
func (s *step) retry() { s.round, s.waitingSince = max(s.round, s.result.Round)+1, time.Time{} }

// uncertain reports whether nobody knows whether the step has happened. Done again, it may happen twice.
func (s *step) uncertain() bool { return s.result.State == effect.Uncertain }

// hadFailed reports whether the step had failed before a replay, which has not tried it again yet.
func (s *step) hadFailed() bool { return s.result.Met && !s.uncertain() && !s.again }

func (f *flow) call(s *step) effect.Call {
	return effect.Call{
		Key: s.key, Kind: s.kind, Round: s.round, Ref: f.in.Ref,
		Compensates: s.compensates, After: s.after, AsOf: f.asOf(), WaitingSince: s.waitingSince,
		Timeout: f.settings[s.sink].Timeout,
	}
}

// attempt is how the step is done: at once as a local activity, and when that does not finish it, with the same key as
// a regular one, which stands in the Temporal UI until it is done.
func (f *flow) attempt(s *step) attempt {
	how := f.settings[s.sink]
	return attempt{
		name: s.key, work: s.work, call: f.call(s), timeout: how.Timeout, regularOnly: how.ActivityOnly,
	}
}
