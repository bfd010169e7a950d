package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/request"
	"github.com/pawlhq/pawl/workflows"
)

// Call is a request that a worker executes for a console.
type Call struct {
	Name string
	// Within is the timeout for the worker's response. Zero means [request.Within].
	Within time.Duration
	// execute decodes the input and executes the request.
	execute func(ctx context.Context, o *Operator, input json.RawMessage) (any, error)
}

// NewCall returns the call of a function.
func NewCall[In, Out any](name string, within time.Duration,
	execute func(ctx context.Context, o *Operator, in In) (*Out, error)) Call {
	return Call{name, within, func(ctx context.Context, o *Operator, input json.RawMessage) (any, error) {
		var in In
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, err
		}
		return execute(ctx, o, in)
	}}
}

// Omitting is implemented by values with fields that their JSON omits. The console's protocol sends the values of
// these fields in addition to the JSON.
type Omitting interface {
	// Omitted returns pointers to these fields, in the same order for the original value and for the decoded value.
	Omitted() []any
}

// OmittedDecisions returns pointers to the decisions of choices.
func OmittedDecisions(choices []Choice) (omitted []any) {
	for i := range choices {
		omitted = append(omitted, &choices[i].Decision)
	}
	return omitted
}

// Omitted implements [Omitting].
func (p *Preview) Omitted() []any { return OmittedDecisions(p.Choices) }

// Omitted implements [Omitting].
func (e *RefusedError) Omitted() []any { return OmittedDecisions(e.Try) }

// The names of the calls that make decisions.
const (
	callDecide  = "decide"
	callPreview = "preview"
)

// sentDecision is the input of the calls of decisions.
type sentDecision struct {
	// Decision is complete except for Found. Job is the Found of a new job.
	Decision *Decision
	Job      *NewJob `json:",omitempty"`
}

// sent returns the input of the call of a decision.
func (d Decision) sent() (in sentDecision, err error) {
	if d.Found != nil {
		var is bool
		if in.Job, is = d.Found.(*NewJob); !is {
			return in, Invalidf("%s is possible only on the command line", d.Verb)
		}
	}
	d.Found = nil
	in.Decision = &d
	return in, nil
}

// received returns the decision that a call contains. It refuses a decision without a person, because such a decision
// would have the rights of the command line.
func (in sentDecision) received() (d Decision, err error) {
	if in.Decision == nil || in.Decision.By == nil ||
		CheckName(in.Decision.By.Name) != nil && !in.Decision.By.IsProgram() {
		return d, Invalidf("a request of a console must contain the person who decides")
	}
	if d = *in.Decision; in.Job != nil {
		d.Found = in.Job
	}
	return d, nil
}

// decisionCalls are the calls of [Operator.Decide] and [Operator.Preview].
var decisionCalls = []Call{
	NewCall(callDecide, 0, func(ctx context.Context, o *Operator, in sentDecision) (*Answer, error) {
		d, err := in.received()
		if err != nil {
			return nil, err
		}
		return o.Decide(ctx, d)
	}),
	NewCall(callPreview, previewWithin, func(ctx context.Context, o *Operator, in sentDecision) (*Preview, error) {
		d, err := in.received()
		if err != nil {
			return nil, err
		}
		return o.Preview(ctx, d)
	}),
}

// previewWithin is the timeout of a console for a preview.
const previewWithin = 10 * time.Second

// remoteOutput is the response to a request: a value or an error.
type remoteOutput struct {
	Value json.RawMessage `json:",omitempty"`
	// Result is the Result field of an [Answer].
	Result json.RawMessage `json:",omitempty"`
	// Omitted holds the fields that the JSON of the value, the result or the refusal omits; see [Omitting].
	Omitted []json.RawMessage `json:",omitempty"`
	Refused *RefusedError
	Fault   *Fault
	// Error is the text of any other error. Away is set if Postgres did not respond to the worker.
	Error string `json:",omitempty"`
	Away  bool   `json:",omitempty"`
}

// CallWorker sends a request to a worker and decodes the response.
func CallWorker[T any](ctx context.Context, o *Operator, call string, within time.Duration, in any) (made *T,
	err error) {
	input, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", call, err)
	}
	patient, cancel := context.WithTimeout(ctx, cmp.Or(within, request.Within))
	defer cancel()
	answer, err := request.Send(patient, o.DB, call, input)
	switch {
	case errors.Is(err, request.ErrNoWorker) && call == callDecide:
		return nil, Faultf(Later, "%v: check that a worker runs. pawl may have recorded the decision: repeat the "+
			"same request to find out", err)
	case errors.Is(err, request.ErrNoWorker):
		return nil, Faultf(Later, "%v: check that a worker runs", err)
	case err != nil:
		return nil, err
	}
	var out remoteOutput
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", call, err)
	}
	if err := out.err(); err != nil {
		return nil, err
	}
	made = new(T)
	if err := json.Unmarshal(out.Value, made); err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", call, err)
	}
	return made, out.complete(o, made)
}

// WithoutWorker returns an operator for a console without a worker. It cannot preview decisions.
func (o *Operator) WithoutWorker() *Operator {
	alone := *o
	alone.Remote = false
	alone.Outlook = func(context.Context) (workflows.Outlook, func(), error) {
		return nil, nil, errors.New("no worker has answered")
	}
	return &alone
}

// err returns the worker's error, or nil if the response is a value.
func (out *remoteOutput) err() error {
	switch {
	case out.Refused != nil:
		if err := out.restore(out.Refused); err != nil {
			return err
		}
		return out.Refused
	case out.Fault != nil:
		return out.Fault
	case out.Away:
		return fmt.Errorf("%s: %w", out.Error, ErrAway)
	case out.Error != "":
		return errors.New(out.Error)
	}
	return nil
}

// complete sets the result of an answer, and the fields that the JSON of a value omits.
func (out *remoteOutput) complete(o *Operator, value any) error {
	answer, is := value.(*Answer)
	if !is {
		return out.restore(value)
	}
	v := o.Verbs.Named(answer.Verb)
	if v == nil || out.Result == nil {
		return nil
	}
	result := reflect.New(v.Rule.result())
	if err := json.Unmarshal(out.Result, result.Interface()); err != nil {
		return fmt.Errorf("read the result of %s: %w", answer.Verb, err)
	}
	answer.Result = result.Elem().Interface()
	return out.restore(answer.Result)
}

// restore sets the fields that the JSON of a value omits.
func (out *remoteOutput) restore(value any) error {
	omitting, is := value.(Omitting)
	if !is {
		return nil
	}
	for i, field := range omitting.Omitted() {
		if i >= len(out.Omitted) {
			break
		}
		if err := json.Unmarshal(out.Omitted[i], field); err != nil {
			return fmt.Errorf("read a field of %T: %w", value, err)
		}
	}
	return nil
}

// omit encodes the fields that the JSON of a value omits.
func (out *remoteOutput) omit(value any) error {
	omitting, is := value.(Omitting)
	if !is {
		return nil
	}
	for _, field := range omitting.Omitted() {
		text, err := json.Marshal(field)
		if err != nil {
			return err
		}
		out.Omitted = append(out.Omitted, text)
	}
	return nil
}

// ServeConsoles executes the requests of consoles (decisions, previews and calls) until ctx ends, at most atOnce at
// the same time.
func (o *Operator) ServeConsoles(ctx context.Context, db *pgxpool.Pool, calls []Call, atOnce int, log *slog.Logger) {
	calls = append(slices.Clone(decisionCalls), calls...)
	(&request.Server{DB: db, AtOnce: atOnce, Log: log,
		Execute: func(ctx context.Context, kind string, input json.RawMessage) json.RawMessage {
			return o.execute(ctx, calls, kind, input)
		}}).Run(ctx)
}

// execute executes one request. It recovers from a panic, because a request must not end the worker.
func (o *Operator) execute(ctx context.Context, calls []Call, kind string,
	input json.RawMessage) (answer json.RawMessage) {
	defer func() {
		if p := recover(); p != nil {
			answer, _ = json.Marshal(remoteOutput{Error: fmt.Sprintf("%s panics: %v", kind, p)})
		}
	}()
	i := slices.IndexFunc(calls, func(c Call) bool { return c.Name == kind })
	err := Invalidf("the worker does not know the request %q: console and worker may have different versions", kind)
	var value any
	if i >= 0 {
		value, err = calls[i].execute(ctx, o, input)
	}
	var out remoteOutput
	if err == nil {
		err = out.set(value)
	}
	if err != nil {
		out = failed(err)
	}
	answer, err = json.Marshal(out)
	if err != nil {
		answer, _ = json.Marshal(remoteOutput{Error: fmt.Sprintf("encode the answer to %s: %v", kind, err)})
	}
	return answer
}

// set encodes a value.
func (out *remoteOutput) set(value any) (err error) {
	if answer, is := value.(*Answer); is {
		if answer.Result != nil {
			if out.Result, err = json.Marshal(answer.Result); err != nil {
				return err
			}
		}
		short := *answer
		short.Result, value = nil, &short
		err = out.omit(answer.Result)
	} else {
		err = out.omit(value)
	}
	if err == nil {
		out.Value, err = json.Marshal(value)
	}
	return err
}

// failed encodes an error.
func failed(err error) (out remoteOutput) {
	if refused, is := errors.AsType[*RefusedError](err); is {
		out.Refused = refused
		if err := out.omit(refused); err != nil {
			out = remoteOutput{Error: err.Error()}
		}
	} else if f, is := errors.AsType[*Fault](err); is {
		out.Fault = f
	} else {
		out.Error, out.Away = err.Error(), Away(err)
	}
	return out
}
