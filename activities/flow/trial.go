package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Trial is the result of [Flow.Try].
type Trial struct {
	// Wanted is false if the condition of the flow is false.
	Wanted  bool        `json:"wanted"`
	Account string      `json:"account,omitempty"`
	Steps   []TrialStep `json:"steps"`
}

// TrialStep is a step that the event causes.
type TrialStep struct {
	Name string `json:"name"`
	// Item is the number of the item, from 1, or 0 for a step without for_each.
	Item  int      `json:"item,omitempty"`
	After []string `json:"after,omitempty"`
	// Key is the key of the step. The ledger key contains more.
	Key          string         `json:"key"`
	Request      *TrialRequest  `json:"request,omitempty"`
	Undo         *TrialRequest  `json:"undo,omitempty"`
	Workflow     *TrialWorkflow `json:"workflow,omitempty"`
	UndoWorkflow *TrialWorkflow `json:"undo_workflow,omitempty"`
	Task         *TrialTask     `json:"task,omitempty"`
}

// Label returns the name of the step, with the number of the item: "book[2]".
func (p Planned) Label() string { return labelOf(p.Name, p.Item) }

// Label returns the name of the step, with the number of the item.
func (t TrialStep) Label() string { return labelOf(t.Name, t.Item) }

func labelOf(name string, item int) string {
	if item == 0 {
		return name
	}
	return fmt.Sprintf("%s[%d]", name, item)
}

// TrialRequest is a request that a step would send. It contains $STEP.NAME in place of each output of a step. Problem
// is the reason why the request cannot be built without the answer of a sink, or "".
type TrialRequest struct {
	Sink    string          `json:"sink"`
	Method  string          `json:"method"`
	Path    string          `json:"path,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
	Problem string          `json:"problem,omitempty"`
}

// TrialTask is a task that a step would open.
type TrialTask struct {
	Title string `json:"title"`
	// Due is the time from the receipt of the event to the deadline.
	Due time.Duration `json:"due,omitempty"`
}

// Try evaluates the flow for an event as a run would, without sending anything. The error is an [*Error] if a run of
// the event would park before its first step.
func (f *Flow) Try(e *Event) (Trial, error) {
	p, err := f.Plan(e)
	t := Trial{Wanted: p.Wanted, Account: p.Account, Steps: []TrialStep{}}
	if err != nil {
		return t, err
	}
	outputs := map[string]Output{}
	for _, planned := range p.Steps {
		s := f.find(planned.Name)
		step := TrialStep{Name: s.name, Item: planned.Item, After: planned.After, Key: planned.Key}
		e := e.AtItem(planned.Item)
		outputs[s.name] = s.placeholders()
		if s.title != nil {
			opened, err := f.Task(e, s.name)
			if err != nil {
				return t, err
			}
			step.Task = &TrialTask{opened.Title, s.Task.Due}
		}
		step.try(f, s, e, outputs)
		t.Steps = append(t.Steps, step)
	}
	return t, nil
}

// try adds the request or the workflow of the step, and its undo.
func (t *TrialStep) try(f *Flow, s *step, e *Event, outputs map[string]Output) {
	if s.request != nil {
		r, err := f.Request(e, s.name, outputs)
		t.Request = trialOf(r, err, s.request)
	}
	if s.undo != nil {
		r, err := f.Undo(e, s.name, outputs, outputs[s.name])
		t.Undo = trialOf(r, err, s.undo)
	}
	if s.start != nil {
		w, err := f.Workflow(e, s.name, outputs)
		t.Workflow = trialOfStart(w, err, s.start)
	}
	if s.undoStart != nil {
		w, err := f.UndoWorkflow(e, s.name, outputs, outputs[s.name])
		t.UndoWorkflow = trialOfStart(w, err, s.undoStart)
	}
}

// placeholders returns an output with $STEP.NAME for each value.
func (s *step) placeholders() Output {
	o := Output{Values: map[string]any{}}
	for _, name := range slices.Sorted(maps.Keys(s.output)) {
		o.Values[name] = "$" + s.name + "." + name
	}
	return o
}

func trialOf(r Request, err error, of *request) *TrialRequest {
	t := &TrialRequest{Sink: of.Sink, Method: of.Method, Path: r.Path, Body: r.Body}
	if err != nil {
		t.Path, t.Body, t.Problem = of.Path, nil, err.Error()
	}
	return t
}
