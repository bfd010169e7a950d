package plan

import (
	"encoding/json"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Step is one planned effect: its key, its input and its undo. The kinds of the catalogue create steps.
type Step struct {
	Kind string
	Key  string
	// Sink is the name of the sink, which selects the settings of the attempts.
	Sink string
	// Input is the input of the kind's activity.
	Input any
	// Undo returns the step that compensates this step. It is nil if the effect need not be compensated.
	Undo func(done effect.Result) *Step
	// RefusalUndoesAll is set if the customer has paid for this effect: a permanent refusal then compensates
	// everything.
	RefusalUndoesAll bool
	// Final is set for a step of a flow that cannot be undone. While such a step is done, a refusal compensates nothing
	// and parks the run instead.
	Final bool
	// Then, if set, returns the follow-up step, which depends on the result of this step.
	Then func(done effect.Result) *Step
	// Compensates is the key of the effect that this undo compensates. After lists the keys of effects that must be
	// settled first. A key that ends with a colon matches every key with that prefix.
	Compensates string
	After       []string
}

// Label identifies the step within the run: its kind, with the destination of a delivery or the step of a flow.
func (s *Step) Label() string {
	if s.Kind == RelayEvent.Name {
		return s.Kind + " to " + s.Key[strings.LastIndex(s.Key, ":")+1:]
	}
	if of, is := s.Input.(flow.Call); is {
		return s.Kind + " " + of.Step
	}
	return s.Kind
}

// UndoneBy sets the step that compensates this one.
func (s *Step) UndoneBy(undo *Step) *Step {
	s.Undo = func(effect.Result) *Step { return undo }
	return s
}

// comesAfter adds keys of effects that must be settled before the step starts.
func (s *Step) comesAfter(keys ...string) *Step {
	s.After = append(s.After, keys...)
	return s
}

// Entry returns the finance entry that the step posts, or nil for any other effect.
func (s *Step) Entry() *activities.Entry {
	if entry, ok := s.Input.(activities.Entry); ok {
		return &entry
	}
	return nil
}

// EntriesBefore returns After if the step posts a finance entry, which also waits for the entries of other runs. For
// any other effect it returns nil: the activity does not read After, and a list of a flow can make it large.
func (s *Step) EntriesBefore() []string {
	if s.Entry() == nil {
		return nil
	}
	return s.After
}

// Object returns the part of a key that identifies an object: <provider>:<mode>[:<connected account>]:<object>. The key
// of an effect is <kind>:<object>. The key of a once effect contains only the provider's object. The key of a state
// effect contains the account and the version of its target.
func Object(s fact.Subject, id string) string { return s.Scope() + ":" + id }

// Applied decodes the change from the result of an apply step. It returns false if there is no change.
func Applied(r effect.Result) (change fold.Change, ok bool) {
	err := json.Unmarshal(r.Value, &change)
	return change, err == nil
}
