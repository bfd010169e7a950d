package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// WorkflowKind is the kind of the workflows that flows start: the first part of their ledger keys.
const WorkflowKind = "flow-workflow"

// MaxName is the maximum length of the type of a workflow and of a task queue, in characters.
const MaxName = 200

// Workflow starts a workflow of the user, which a worker of the user executes.
type Workflow struct {
	Type      string `yaml:"type" json:"type"`
	TaskQueue string `yaml:"task_queue" json:"task_queue"`
	// Timeout is the limit of the execution. Zero means no limit.
	Timeout time.Duration `yaml:"timeout" json:"timeout,omitempty" min:"0s"`
	// Input is an expression for a value that the workflow receives in addition to the IDs of the event.
	Input string `yaml:"input" json:"input,omitempty"`
	// Refusals lists the types of application errors with which the workflow refuses this customer or order.
	Refusals []string `yaml:"refusals" json:"refusals,omitempty"`
}

// OnQueue returns the paths of the fields that name a task queue.
func (d Definition) OnQueue(queue string) (paths []string) {
	for _, name := range slices.Sorted(maps.Keys(d.Steps)) {
		s, at := d.Steps[name], "steps."+name
		if s.Workflow != nil && s.Workflow.TaskQueue == queue {
			paths = append(paths, at+".workflow.task_queue")
		}
		if s.Undo != nil && s.Undo.Workflow != nil && s.Undo.Workflow.TaskQueue == queue {
			paths = append(paths, at+".undo.workflow.task_queue")
		}
	}
	return paths
}

// start is a compiled workflow.
type start struct {
	Workflow
	input *expression
	// waits is set if the input depends on the outputs of other steps.
	waits bool
}

// Start is the start of a workflow.
type Start struct {
	Type, TaskQueue string
	Timeout         time.Duration
	Refusals        []string
	// Input is the value of the expression as JSON. It is nil without an expression.
	Input json.RawMessage
}

// Hash returns the hash of the start.
func (s Start) Hash() string {
	sum := sha256.Sum256([]byte("workflow\x00" + s.Type + "\x00" + s.TaskQueue + "\x00" + s.Timeout.String() + "\x00" +
		string(s.Input)))
	return hex.EncodeToString(sum[:8])
}

// workflow compiles a step with a workflow.
func (c *compiler) workflow(at, name string, s Step, out *step, scopes stepScopes) {
	for field, set := range map[string]bool{"body": s.Body != "", "refusals": s.Refusals != nil} {
		if set {
			c.bad(at+"."+field, "is a setting of http",
				"write workflow.input, or workflow.refusals with types of errors")
		}
	}
	out.start = c.start(at+".workflow", name, *s.Workflow, scopes.request)
	c.outputs(at, s, out, ofResult)
	switch {
	case s.Undo == nil:
	case s.Undo.Workflow == nil || s.Undo.HTTP != nil || s.Undo.Body != "":
		c.bad(at+".undo", "must have only workflow", "write undo: {workflow: {type: NAME, task_queue: NAME}}")
	default:
		out.undoStart = c.start(at+".undo.workflow", name, *s.Undo.Workflow, scopes.undo)
	}
}

// start compiles a workflow of the step name.
func (c *compiler) start(at, name string, w Workflow, variables scope) *start {
	for _, of := range [][2]string{{"type", w.Type}, {"task_queue", w.TaskQueue}} {
		c.name(at+"."+of[0], of[1])
	}
	for i, of := range w.Refusals {
		c.name(fmt.Sprintf("%s.refusals[%d]", at, i), of)
	}
	out := &start{Workflow: w, input: c.expression(at+".input", w.Input, variables)}
	out.waits = out.input != nil && c.references(out.input, name)
	return out
}

// name checks a name that Temporal stores.
func (c *compiler) name(path, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		c.bad(path, "is missing", "write the name that your worker registers")
	case utf8.RuneCountInString(name) > MaxName:
		c.bad(path, fmt.Sprintf("is longer than %d characters", MaxName), "use a shorter name")
	case strings.ContainsFunc(name, unicode.IsControl):
		c.bad(path, "contains a control character", "remove it")
	}
}

// Workflow returns the start of the workflow of a step. outputs holds the outputs of the steps before it, by name.
func (f *Flow) Workflow(e *Event, name string, outputs map[string]Output) (Start, error) {
	s := f.find(name)
	if s == nil || s.start == nil {
		return Start{}, fmt.Errorf("flow %s has no step %q with a workflow", f.Name, name)
	}
	in, err := s.input(e, outputs)
	if err != nil {
		return Start{}, f.named(err)
	}
	w, err := s.start.fill(in)
	return w, f.named(s.explained(err, outputs))
}

// UndoWorkflow returns the start of the workflow that compensates a step. output is the output of the step itself.
func (f *Flow) UndoWorkflow(e *Event, name string, outputs map[string]Output, output Output) (Start, error) {
	s := f.find(name)
	if s == nil || s.undoStart == nil {
		return Start{}, fmt.Errorf("flow %s has no step %q with a workflow in its undo", f.Name, name)
	}
	in, err := s.input(e, outputs)
	if err != nil {
		return Start{}, f.named(err)
	}
	w, err := s.undoStart.fill(in.with("output", values(output)))
	return w, f.named(err)
}

func (s *start) fill(in input) (filled Start, err error) {
	filled = Start{Type: s.Type, TaskQueue: s.TaskQueue, Timeout: s.Timeout, Refusals: s.Refusals}
	if s.input == nil {
		return filled, nil
	}
	v, err := s.input.evaluate(in)
	if err != nil {
		return filled, err
	}
	if filled.Input, err = encodeJSON(v, MaxBody); err != nil {
		return filled, &Error{Field: s.input.path, Problem: err.Error()}
	}
	return filled, nil
}

// Refuses reports whether an application error of this type refuses the customer or the order.
func (s Start) Refuses(errorType string) bool { return slices.Contains(s.Refusals, errorType) }

// TrialWorkflow is a workflow that a step would start. Input contains $STEP.NAME in place of each output of a step.
// Problem is the reason why the input cannot be built without an output, or "".
type TrialWorkflow struct {
	Type      string          `json:"type"`
	TaskQueue string          `json:"task_queue"`
	Timeout   time.Duration   `json:"timeout,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Problem   string          `json:"problem,omitempty"`
}

func trialOfStart(s Start, err error, of *start) *TrialWorkflow {
	t := &TrialWorkflow{Type: of.Type, TaskQueue: of.TaskQueue, Timeout: of.Timeout, Input: s.Input}
	if err != nil {
		t.Input, t.Problem = nil, err.Error()
	}
	return t
}
