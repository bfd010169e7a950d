package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
)

// Meta describes an event. Expressions read it as the variable meta, with these names in lower case.
type Meta struct {
	ID, Type, Provider, Source, Account, Mode, Object string
}

// Event is the input of a flow.
type Event struct {
	meta       map[string]string
	body       any
	receivedAt time.Time
	// item is the number of the item that the event is evaluated for, from 1, or 0.
	item int
	// budget is the budget of a plan.
	budget *budget
}

// AtItem returns the event for an item of a step with for_each. The first item has the number 1.
func (e *Event) AtItem(item int) *Event {
	of := *e
	of.item = item
	return &of
}

// NewEvent decodes the payload of an event.
func NewEvent(m Meta, payload []byte, receivedAt time.Time) (*Event, error) {
	body, err := decodeJSON(payload)
	if err != nil {
		return nil, fmt.Errorf("the payload cannot be read: %w", err)
	}
	return &Event{body: body, receivedAt: receivedAt, meta: map[string]string{
		"id": m.ID, "type": m.Type, "provider": m.Provider, "source": m.Source, "account": m.Account, "mode": m.Mode,
		"object": m.Object,
	}}, nil
}

// Output holds the values that a step read from the answer of its sink, by name. Missing holds the reason why a value
// could not be read.
type Output struct {
	Values  map[string]any    `json:"values,omitempty"`
	Missing map[string]string `json:"missing,omitempty"`
}

// UnmarshalJSON keeps all digits of whole numbers.
func (o *Output) UnmarshalJSON(text []byte) error {
	var raw struct {
		Values  json.RawMessage
		Missing map[string]string
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*o = Output{Missing: raw.Missing}
	if raw.Values == nil {
		return nil
	}
	v, err := decodeJSON(raw.Values)
	o.Values, _ = v.(map[string]any)
	return err
}

// Plan is the result of a flow for one event. It contains no payload.
type Plan struct {
	// Wanted is false if the condition of the flow is false.
	Wanted  bool
	Account string
	// Steps are in an order in which each step follows the steps of its After.
	Steps []Planned
}

// Planned is a step that the event causes.
type Planned struct {
	Name string
	// Item is the number of the item, from 1, or 0 for a step without for_each.
	Item int `json:",omitempty"`
	// Sink is "" for a task and for a workflow. Workflow is set for a workflow.
	Sink     string
	Workflow bool `json:",omitempty"`
	// Key identifies the business object.
	Key string
	// After lists planned steps.
	After []string
	// Undo is set if the step can be compensated.
	Undo bool
	// Hash is the hash of the request, or of the start of the workflow, if it depends on the event alone. It is ""
	// otherwise, and for a task.
	Hash string
}

// Request is a request to a sink.
type Request struct {
	Sink, Method, Path string
	Body               []byte
	Refusals           []int
}

// Hash returns the hash of the request.
func (r Request) Hash() string {
	sum := sha256.Sum256([]byte(r.Sink + "\x00" + r.Method + "\x00" + r.Path + "\x00" + string(r.Body)))
	return hex.EncodeToString(sum[:8])
}

// named adds the name of the flow to an error.
func (f *Flow) named(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Flow = f.Name
	}
	return err
}

// Plan evaluates everything that depends on the event alone. An error is an [*Error] and contains no value of the
// event.
func (f *Flow) Plan(e *Event) (Plan, error) {
	within := *e
	within.budget = &budget{most: MaxPlanCost}
	p, err := f.plan(&within)
	return p, f.named(err)
}

func (f *Flow) plan(e *Event) (p Plan, err error) {
	if p.Wanted, err = holds(f.when, e.input()); err != nil || !p.Wanted {
		return p, err
	}
	if p.Account, err = f.AccountOf(e); err != nil {
		return p, err
	}
	planned := map[string]bool{}
	for _, s := range f.steps {
		found, err := f.planStep(s, e)
		if err != nil {
			return p, err
		}
		for i := range found {
			for _, o := range f.Definition.before(s.name) { // all, because a step between may be left out
				if planned[o] {
					found[i].After = append(found[i].After, o)
				}
			}
		}
		planned[s.name] = len(found) > 0
		if p.Steps = append(p.Steps, found...); len(p.Steps) > MaxPlanned {
			return p, &Error{Field: "steps", Problem: fmt.Sprintf("the event has more than %d requests and tasks",
				MaxPlanned)}
		}
	}
	return p, nil
}

// AccountOf returns the account of the event, or "". A published event contains its account.
func (f *Flow) AccountOf(e *Event) (string, error) {
	if f.account == nil {
		if e.meta["provider"] == Pawl {
			return e.meta["account"], nil
		}
		return "", nil
	}
	account, err := keyOf(f.account, e.input())
	return account, f.named(err)
}

// holds evaluates a condition. A missing condition is true.
func holds(x *expression, in input) (bool, error) {
	if x == nil {
		return true, nil
	}
	v, err := x.evaluate(in)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, &Error{Field: x.path, Problem: "the value is not true or false"}
	}
	return bool(b), nil
}

// keyOf evaluates a key: text that identifies an object.
func keyOf(x *expression, in input) (string, error) {
	v, err := x.evaluate(in)
	if err != nil {
		return "", err
	}
	key, err := scalar(v)
	switch {
	case err != nil || v.Type() == types.BoolType:
		return "", &Error{Field: x.path, Problem: "the value is not text or a whole number"}
	case strings.TrimSpace(key) == "":
		return "", &Error{Field: x.path, Problem: "the value is empty"}
	case len(key) > MaxKey:
		return "", &Error{Field: x.path, Problem: fmt.Sprintf("the value is longer than %d bytes", MaxKey)}
	case strings.ContainsRune(key, 0):
		return "", &Error{Field: x.path, Problem: "the value contains NUL"}
	}
	return key, nil
}

// Request returns the request of a step. outputs holds the outputs of the steps before it, by name.
func (f *Flow) Request(e *Event, name string, outputs map[string]Output) (Request, error) {
	s := f.find(name)
	if s == nil || s.request == nil {
		return Request{}, fmt.Errorf("flow %s has no step %q with a request", f.Name, name)
	}
	in, err := s.input(e, outputs)
	if err != nil {
		return Request{}, f.named(err)
	}
	r, err := s.request.fill(in)
	r.Refusals = s.Refusals
	return r, f.named(s.explained(err, outputs))
}

// Undo returns the request that compensates a step. output is the output of the step itself.
func (f *Flow) Undo(e *Event, name string, outputs map[string]Output, output Output) (Request, error) {
	s := f.find(name)
	if s == nil || s.undo == nil {
		return Request{}, fmt.Errorf("flow %s has no step %q with an undo", f.Name, name)
	}
	in, err := s.input(e, outputs)
	if err != nil {
		return Request{}, f.named(err)
	}
	r, err := s.undo.fill(in.with("output", values(output)))
	return r, f.named(err)
}

// explained adds the reason why an output is missing.
func (s *step) explained(err error, outputs map[string]Output) error {
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	name, found := strings.CutPrefix(failed.Missing, "steps.")
	if !found {
		return err
	}
	of, field, _ := strings.Cut(name, ".")
	switch why := outputs[of].Missing[field]; {
	case why != "":
		failed.Problem = failed.Missing + " is missing: " + why
	case outputs[of].Values == nil:
		failed.Problem = failed.Missing + " is missing: the step " + of + " has no output; it was skipped or left out"
	}
	return failed
}

// input returns the variables that depend on the event alone.
func (e *Event) input() input {
	return input{map[string]any{"event": e.body, "meta": e.meta}, e.budget}
}

// input returns the variables of the step, with the item that the event is evaluated for.
func (s *step) input(e *Event, outputs map[string]Output) (in input, err error) {
	steps := map[string]any{}
	for name, o := range outputs {
		steps[name] = values(o)
	}
	in = e.input().with("steps", steps)
	if s.forEach == nil {
		return in, nil
	}
	items, err := s.items(e)
	if err != nil {
		return in, err
	}
	if e.item < 1 || e.item > len(items) {
		return in, &Error{Field: s.forEach.path, Problem: fmt.Sprintf("the list has no item %d", e.item)}
	}
	return in.with("item", items[e.item-1]), nil
}

func values(o Output) map[string]any {
	if o.Values == nil {
		return map[string]any{}
	}
	return o.Values
}

func (r *request) fill(in input) (filled Request, err error) {
	filled = Request{Sink: r.Sink, Method: r.Method}
	if filled.Path, err = r.to.fill(in, true); err != nil || r.body == nil {
		return filled, err
	}
	v, err := r.body.evaluate(in)
	if err != nil {
		return filled, err
	}
	if filled.Body, err = encodeJSON(v, MaxBody); err != nil {
		return filled, &Error{Field: r.body.path, Problem: err.Error()}
	}
	return filled, nil
}

// Read evaluates the output of a step on the answer of its sink, or on the result of its workflow. It never fails,
// because the effect has happened: a value that cannot be read is missing.
func (f *Flow) Read(name string, status int, answer []byte) (o Output) {
	s := f.find(name)
	if s == nil || len(s.output) == 0 {
		return o
	}
	o = Output{Values: map[string]any{}, Missing: map[string]string{}}
	body, unreadable := decodeJSON(answer)
	for field, x := range s.output {
		v, err := read(x, input{variables: map[string]any{"status": int64(status), "body": body, "result": body}})
		switch {
		case err == nil:
			o.Values[field] = v
		case unreadable != nil && s.start != nil:
			o.Missing[field] = "the result of the workflow is not JSON"
		case unreadable != nil:
			o.Missing[field] = "the answer of the sink is not JSON"
		default:
			o.Missing[field] = f.named(err).Error()
		}
	}
	return o
}

// read returns a scalar of an answer.
func read(x *expression, in input) (any, error) {
	v, err := x.evaluate(in)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.String:
		if len(v) <= MaxScalar && !strings.ContainsRune(string(v), 0) {
			return string(v), nil
		}
		return nil, &Error{Field: x.path, Problem: fmt.Sprintf("the text is longer than %d bytes or contains NUL",
			MaxScalar)}
	}
	return nil, &Error{Field: x.path, Problem: errNotText.Error()}
}

// PlannedTask is a task for a person.
type PlannedTask struct {
	Title string
	// Due is the deadline, or the zero time.
	Due time.Time
}

// Task returns the task of a step.
func (f *Flow) Task(e *Event, name string) (t PlannedTask, err error) {
	s := f.find(name)
	if s == nil || s.title == nil {
		return t, fmt.Errorf("flow %s has no step %q with a task", f.Name, name)
	}
	if s.Task.Due > 0 {
		t.Due = e.receivedAt.Add(s.Task.Due)
	}
	in, err := s.input(e, nil)
	if err != nil {
		return t, f.named(err)
	}
	t.Title, err = s.titleOf(in)
	return t, f.named(err)
}

func (s *step) titleOf(in input) (string, error) {
	title, err := s.title.fill(in, false)
	if err == nil && (len(title) > maxTitle || strings.ContainsRune(title, 0)) {
		err = &Error{Field: s.title.path, Problem: fmt.Sprintf("the title is longer than %d bytes or contains NUL",
			maxTitle)}
	}
	return title, err
}

func (f *Flow) find(name string) *step {
	for _, s := range f.steps {
		if s.name == name {
			return s
		}
	}
	return nil
}
