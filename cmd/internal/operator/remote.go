package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/request"
	"github.com/pawlhq/pawl/workflows"
)

// The kinds of requests that a worker executes for a console. Each is a method of [Operator].
const (
	remoteDecide     = "decide"
	remotePreview    = "preview"
	remotePreviewJob = "preview_job"
	remoteExamine    = "examine"
	remoteShowBody   = "show_body"
)

// remoteInput is the input of a request.
type remoteInput struct {
	// ID is the event of examine and show_body.
	ID string `json:",omitempty"`
	// Decision is complete except for Found. Job is its Found, or the job of a preview_job request by the person By.
	Decision *Decision `json:",omitempty"`
	Job      *NewJob   `json:",omitempty"`
	By       *Person   `json:",omitempty"`
}

// remoteOutput is the response to a request: a value or an error.
type remoteOutput struct {
	Value json.RawMessage `json:",omitempty"`
	// Result is the Result field of an [Answer].
	Result json.RawMessage `json:",omitempty"`
	// Bytes and Decisions are fields that the JSON of [Body], [Rejection] and [Choice] omits.
	Bytes     []byte      `json:",omitempty"`
	Held      bool        `json:",omitempty"`
	Decisions []*Decision `json:",omitempty"`
	Refused   *RefusedError
	Fault     *Fault
	// Error is the text of any other error. Away is set if Postgres did not answer the worker.
	Error string `json:",omitempty"`
	Away  bool   `json:",omitempty"`
}

// remote sends a request to a worker and decodes the response.
func remote[T any](ctx context.Context, o *Operator, kind string, in remoteInput) (made *T, err error) {
	if in.Decision != nil && in.Decision.Found != nil {
		j, is := in.Decision.Found.(*NewJob)
		if !is {
			return nil, invalid("%s is decided by the command line only", in.Decision.Verb)
		}
		d := *in.Decision
		d.Found, in.Decision, in.Job = nil, &d, j
	}
	input, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	patient, cancel := context.WithTimeout(ctx, patience(kind))
	defer cancel()
	answer, err := request.Send(patient, o.DB, kind, input)
	switch {
	case errors.Is(err, request.ErrNoWorker) && kind == remoteDecide:
		return nil, fault(Later, "%v: check that a worker runs. The decision may have been recorded or not, and the "+
			"same request finds out", err)
	case errors.Is(err, request.ErrNoWorker):
		return nil, fault(Later, "%v: check that a worker runs", err)
	case err != nil:
		return nil, err
	}
	var out remoteOutput
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", kind, err)
	}
	if err := out.err(); err != nil {
		return nil, err
	}
	made = new(T)
	if err := json.Unmarshal(out.Value, made); err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", kind, err)
	}
	return made, out.complete(made)
}

// patience is how long a console waits for a worker. It is short for an event's page, which needs no worker.
func patience(kind string) time.Duration {
	switch kind {
	case remoteExamine, remoteShowBody:
		return 4 * time.Second
	case remotePreview:
		return 10 * time.Second
	}
	return request.Within
}

// withoutWorker returns an operator for a console without a worker. It has no previews.
func (o *Operator) withoutWorker() *Operator {
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
		out.decisions(out.Refused.Try)
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

// complete sets the fields that the JSON of a value omits.
func (out *remoteOutput) complete(value any) error {
	switch v := value.(type) {
	case *Evidence:
		out.decisions(v.Choices)
	case *Preview:
		out.decisions(v.Choices)
	case *Body:
		v.Bytes = out.bytes()
	case *Answer:
		of := VerbNamed(v.Verb)
		if of == nil || out.Result == nil {
			return nil
		}
		result := reflect.New(of.rule.result())
		if err := json.Unmarshal(out.Result, result.Interface()); err != nil {
			return fmt.Errorf("read the result of %s: %w", v.Verb, err)
		}
		v.Result = result.Elem().Interface()
		switch r := v.Result.(type) {
		case *Body:
			r.Bytes = out.bytes()
		case *Rejection:
			r.Body = out.bytes()
		}
	}
	return nil
}

func (out *remoteOutput) bytes() []byte {
	if out.Held && out.Bytes == nil {
		return []byte{}
	}
	return out.Bytes
}

func (out *remoteOutput) decisions(of []Choice) {
	for i := range min(len(of), len(out.Decisions)) {
		of[i].Decision = out.Decisions[i]
	}
}

// ServeConsoles executes the requests of consoles until ctx ends, at most atOnce at the same time.
func (o *Operator) ServeConsoles(ctx context.Context, db *pgxpool.Pool, atOnce int, log *slog.Logger) {
	(&request.Server{DB: db, Execute: o.execute, AtOnce: atOnce, Log: log}).Run(ctx)
}

// execute executes one request. A panic would end the worker, which a request must not.
func (o *Operator) execute(ctx context.Context, kind string, input json.RawMessage) (answer json.RawMessage) {
	defer func() {
		if p := recover(); p != nil {
			answer, _ = json.Marshal(remoteOutput{Error: fmt.Sprintf("%s panics: %v", kind, p)})
		}
	}()
	var in remoteInput
	err := json.Unmarshal(input, &in)
	var value any
	if err == nil {
		value, err = o.called(ctx, kind, in)
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

// called calls the method of the request. A request without a person is refused, because it would have the rights of
// the command line.
func (o *Operator) called(ctx context.Context, kind string, in remoteInput) (any, error) {
	if d := in.Decision; d != nil {
		if d.By == nil || CheckName(d.By.Name) != nil && !d.By.program() {
			return nil, invalid("a request of a console names the person who decides")
		}
		if in.Job != nil {
			d.Found = in.Job
		}
	}
	switch {
	case kind == remoteDecide && in.Decision != nil:
		return o.Decide(ctx, *in.Decision)
	case kind == remotePreview && in.Decision != nil:
		return o.Preview(ctx, *in.Decision)
	case kind == remotePreviewJob && in.Job != nil && in.By != nil:
		return o.PreviewJob(ctx, in.By, in.Job)
	case kind == remoteExamine:
		return o.Examine(ctx, in.ID)
	case kind == remoteShowBody:
		return o.ShowBody(ctx, in.ID)
	}
	return nil, invalid("a worker executes no %q as it was sent", kind)
}

// set encodes a value.
func (out *remoteOutput) set(value any) (err error) {
	switch v := value.(type) {
	case *Evidence:
		out.choices(v.Choices)
	case *Preview:
		out.choices(v.Choices)
	case *Body:
		out.Bytes, out.Held = v.Bytes, v.Bytes != nil
	case *Answer:
		switch r := v.Result.(type) {
		case *Body:
			out.Bytes, out.Held = r.Bytes, r.Bytes != nil
		case *Rejection:
			out.Bytes, out.Held = r.Body, r.Body != nil
		}
		if v.Result != nil {
			if out.Result, err = json.Marshal(v.Result); err != nil {
				return err
			}
		}
		short := *v
		short.Result, value = nil, &short
	}
	out.Value, err = json.Marshal(value)
	return err
}

func (out *remoteOutput) choices(of []Choice) {
	for _, c := range of {
		out.Decisions = append(out.Decisions, c.Decision)
	}
}

// failed encodes an error.
func failed(err error) (out remoteOutput) {
	if refused, is := errors.AsType[*RefusedError](err); is {
		out.Refused = refused
		out.choices(refused.Try)
	} else if f, is := errors.AsType[*Fault](err); is {
		out.Fault = f
	} else {
		out.Error, out.Away = err.Error(), Away(err)
	}
	return out
}
