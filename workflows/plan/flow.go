package plan

import (
	"strings"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/workflows/workflowid"
)

// FlowCall is the input of a step of a flow.
type FlowCall = flow.Call

// OfFlow reports whether the step belongs to a flow of the configuration.
func (s *Step) OfFlow() bool {
	return s.Kind == FlowRequest.Name || s.Kind == FlowWorkflow.Name || s.Kind == FlowTask.Name
}

// Cancelled returns the step that cancels the workflow of this step, together with the run. It returns nil if the step
// has no workflow.
func (s *Step) Cancelled() *Step {
	call, is := s.Input.(flow.Call)
	if !is || !call.Workflow {
		return nil
	}
	cancelled := *s
	call.Cancel = true
	cancelled.Input = call
	return &cancelled
}

// Delivers reports whether the step delivers the event to a destination.
func (s *Step) Delivers() bool { return s.Kind == RelayEvent.Name }

// Configured returns the steps of a flow of the configuration for an event. A ledger key has the form
// <kind>:<provider>:<mode>:<flow>:<step>:[<account>:]<key>.
//
// If a sink refuses a request, the run undoes the completed steps. A step without an undo cannot be undone: see
// [Step.Final].
func Configured(f flow.Run, of event.Ref) (steps []*Step) {
	keys := map[string][]string{}
	for _, s := range f.Steps {
		object := strings.Join([]string{of.Provider, of.Mode, f.Name, s.Name, workflowid.Keyed(of.Account, s.Key)}, ":")
		input := flow.Call{Flow: f.Name, Hash: f.Hash, Step: s.Name, Item: s.Item, Sink: s.Sink, Workflow: s.Workflow,
			Request: s.Hash}
		do, undo := FlowRequest, UndoFlowRequest
		switch {
		case s.Workflow:
			do, undo = FlowWorkflow, UndoFlowWorkflow
		case s.Sink == "":
			do, undo, input.Object = FlowTask, CancelFlowTask, object
		}
		var after []string
		for _, name := range s.After {
			if input.Before == nil {
				input.Before = map[string]string{}
			}
			after = append(after, keys[name]...)
			if len(keys[name]) == 1 { // no step reads the outputs of several items
				input.Before[name] = keys[name][0]
			}
		}
		step := do.Step(object, input).comesAfter(after...)
		keys[s.Name] = append(keys[s.Name], step.Key)
		if s.Sink != "" {
			step.Sink = s.Sink
		}
		step.RefusalUndoesAll, step.Final = true, !s.Undo
		if s.Undo {
			step.Undo = func(effect.Result) *Step {
				back := undo.Step(object, input.Undo())
				back.Sink = step.Sink
				return back
			}
		}
		steps = append(steps, step)
	}
	return steps
}
