// Package flow reads and evaluates flows: definitions in the configuration that turn an event of any provider into
// requests to named sinks, workflows of the user, and tasks.
//
// Expressions are CEL. They have no side effects, no clock and no random values, and each evaluation and each plan have
// a cost limit. The same definition and the same event therefore give the same keys and the same bytes in every
// process. The package sends nothing and reads no database: package activities runs the steps.
package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// These limits bound the work of one event.
const (
	// MaxSteps is the maximum number of steps of a flow.
	MaxSteps = 50
	// MaxItems is the maximum number of items of a step, and MaxPlanned of requests and tasks of one event.
	MaxItems   = 100
	MaxPlanned = 500
	// MaxExpression is the maximum length of an expression or a template, in bytes.
	MaxExpression = 4 << 10
	// MaxCost is the maximum cost of one evaluation, in CEL's units: about one per operation, and one per ten bytes of
	// text.
	MaxCost = 1_000_000
	// MaxPlanCost is the maximum cost of all expressions that plan the steps of one event. It allows about a second.
	MaxPlanCost = 10 * MaxCost
	// MaxBody is the maximum size of a request body, in bytes.
	MaxBody = 256 << 10
	// MaxKey is the maximum length of a key, and MaxScalar of a value in the output of a step, in bytes.
	MaxKey    = 200
	MaxScalar = 200
	// MaxOutputs is the maximum number of values in the output of a step.
	MaxOutputs = 20
	maxTitle   = 500
)

// Definition is a flow as written in the configuration. The database stores each version as JSON, because a run keeps
// the version with which it began.
type Definition struct {
	On Trigger `yaml:"on" json:"on"`
	// When is a condition on the event. The flow does nothing if it is false.
	When string `yaml:"when" json:"when,omitempty"`
	// Account is your account that the event concerns. Tasks and the circuit breakers of sinks use it.
	Account string          `yaml:"account" json:"account,omitempty"`
	Steps   map[string]Step `yaml:"steps" json:"steps"`
}

// Trigger selects the events of a flow.
type Trigger struct {
	Provider string `yaml:"provider" json:"provider,omitempty"`
	Source   string `yaml:"source" json:"source,omitempty"`
	// Types lists event types. If it is empty, the flow handles every type.
	Types []string `yaml:"types" json:"types,omitempty"`
	// Published lists types of the events that pawl publishes. The flow then has no provider, source or types.
	Published []string `yaml:"published" json:"published,omitempty"`
}

// Pawl is the provider of the events that pawl publishes.
const Pawl = "pawl"

// Step is one effect of a flow: a request, a workflow of the user, or a task for a person.
type Step struct {
	// After lists the steps that must be settled first.
	After []string `yaml:"after" json:"after,omitempty"`
	// ForEach is an expression for a list. The step then runs once for each item, with the variable item.
	ForEach  string    `yaml:"for_each" json:"for_each,omitempty"`
	When     string    `yaml:"when" json:"when,omitempty"`
	HTTP     *HTTP     `yaml:"http" json:"http,omitempty"`
	Workflow *Workflow `yaml:"workflow" json:"workflow,omitempty"`
	Task     *Task     `yaml:"task" json:"task,omitempty"`
	// Key identifies the business object of the effect, such as an order. Events with the same key cause one effect.
	Key  string `yaml:"key" json:"key"`
	Body string `yaml:"body" json:"body,omitempty"`
	// Output holds expressions on the answer of the sink or on the result of the workflow, by name. Later steps and the
	// undo read the values.
	Output map[string]string `yaml:"output" json:"output,omitempty"`
	// Refusals lists the statuses with which the sink refuses the request. If it is nil, the sink's refusals apply.
	Refusals []int `yaml:"refusals" json:"refusals"`
	Undo     *Undo `yaml:"undo" json:"undo,omitempty"`
}

// HTTP is the request of a step. Path is a template: {expression} is replaced by its escaped value.
type HTTP struct {
	Sink   string `yaml:"sink" json:"sink"`
	Method string `yaml:"method" json:"method,omitempty"`
	Path   string `yaml:"path" json:"path"`
}

// Undo is the request or the workflow that compensates a step.
type Undo struct {
	HTTP     *HTTP     `yaml:"http" json:"http"`
	Body     string    `yaml:"body" json:"body,omitempty"`
	Workflow *Workflow `yaml:"workflow" json:"workflow,omitempty"`
}

// Task opens a task for a person. Title is a template.
type Task struct {
	Title string `yaml:"title" json:"title"`
	// Due is the time from the receipt of the event to the deadline. Zero means no deadline.
	Due time.Duration `yaml:"due" json:"due,omitempty" min:"0s"`
}

// Fault is a fault of a definition.
type Fault struct {
	// Path is the field: "steps.reserve.body".
	Path string
	// Line and Column are the position inside the expression, from 1. Both are 0 if the fault has no position.
	Line, Column int
	Problem, Fix string
}

func (f Fault) Error() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Problem
	}
	return fmt.Sprintf("%s (line %d, column %d): %s", f.Path, f.Line, f.Column, f.Problem)
}

// stored is the JSON form of a version.
type stored struct {
	Name       string     `json:"name"`
	Definition Definition `json:"definition"`
}

// encode returns the stored form of a definition and its hash.
func encode(name string, d Definition) (version []byte, hash string) {
	version, err := json.Marshal(stored{name, d}) // the keys of maps are sorted
	if err != nil {
		panic("flow: " + err.Error()) // a definition contains only text and numbers
	}
	sum := sha256.Sum256(version)
	return version, hex.EncodeToString(sum[:])
}

// Decode compiles a stored version.
func Decode(version []byte) (*Flow, error) {
	var s stored
	if err := json.Unmarshal(version, &s); err != nil {
		return nil, fmt.Errorf("read the definition of a flow: %w", err)
	}
	f, faults := Compile(s.Name, s.Definition)
	if len(faults) > 0 {
		return nil, fmt.Errorf("compile the stored definition of flow %s: %w", s.Name, faults[0])
	}
	return f, nil
}

// Sinks returns the names of the sinks that the flow uses.
func (d Definition) Sinks() map[string][]string {
	used := map[string][]string{}
	for name, s := range d.Steps {
		if s.HTTP != nil {
			used[s.HTTP.Sink] = append(used[s.HTTP.Sink], "steps."+name+".http.sink")
		}
		if s.Undo != nil && s.Undo.HTTP != nil {
			used[s.Undo.HTTP.Sink] = append(used[s.Undo.HTTP.Sink], "steps."+name+".undo.http.sink")
		}
	}
	return used
}

// Handles reports whether the flow handles a type of a source's provider.
func (d Definition) Handles(provider, source, eventType string) bool {
	if provider == Pawl || d.On.Published != nil {
		return provider == Pawl && slices.Contains(d.On.Published, eventType)
	}
	if d.On.Source != "" && d.On.Source != source || d.On.Provider != "" && d.On.Provider != provider {
		return false
	}
	return len(d.On.Types) == 0 || slices.Contains(d.On.Types, eventType)
}
