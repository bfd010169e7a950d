package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
)

// A workflow of the user is started by an activity and not as a child of pawl's run. Temporal binds a child to one run
// of its parent: a reset of the run would cancel the child, and a replay or another event with the same key could not
// wait for it. The activity can always join the execution by its ID, which is the key of the effect.

const (
	// patience is how long an attempt waits for the end of the workflow. It is short, because an attempt occupies a
	// slot of the worker, and a local activity also its workflow task. After a cancellation, an attempt waits for
	// untilCancelled.
	patience       = time.Second
	untilCancelled = 5 * time.Second
	// calling is the time for the requests of an attempt to Temporal.
	calling = 5 * time.Second
	// remembered is how long Temporal certainly knows a workflow ID. The retention of a namespace is at least an hour.
	remembered = 50 * time.Minute
	// firstPoll and lastPoll bound the delay between two attempts.
	firstPoll, lastPoll = time.Second, time.Minute
	// begins is how long a workflow may wait for its worker before the event shows it.
	begins = 5 * time.Second
)

// StartedInput is the input of the user's workflow. It contains no payload.
type StartedInput struct {
	EventID   string `json:"event_id"`
	ReceiptID string `json:"receipt_id"`
	Mode      string `json:"mode"`
	Source    string `json:"source"`
	Type      string `json:"type"`
	// Key is the ledger key of the effect. Account is the account of the flow.
	Key     string `json:"key"`
	Account string `json:"account,omitempty"`
	// Input is the value of the step's expression.
	Input json.RawMessage `json:"input,omitempty"`
}

// ended is the evidence of a completed workflow in the ledger.
type ended struct {
	ID    string `json:"workflow_id"`
	RunID string `json:"run_id"`
	// Result is the result as JSON. It is omitted if it is longer than all outputs of a step may be.
	Result json.RawMessage `json:"result,omitempty"`
}

const maxResult = flow.MaxOutputs * flow.MaxScalar

// runWorkflow starts the workflow of a step, or joins its execution, and records its result. While the workflow runs,
// it returns an error, so that Temporal calls the activity again.
func (f *Flows) runWorkflow(ctx context.Context, in activities.EffectInput[flow.Call]) (effect.Result, error) {
	x := &execution{Flows: f, in: in}
	if in.Effect.ByHand == nil && !in.For.Cancel {
		if err := x.running(ctx); err != nil {
			return effect.Result{}, err
		}
	}
	s, err := f.open(ctx, in)
	var request []byte
	if err == nil {
		request, err = x.prepare(s)
	}
	if _, fault := errors.AsType[*effect.Failure](err); err != nil && !fault {
		return effect.Result{}, err
	}
	failed := err
	policy := effect.Policy{Timeout: calling + untilCancelled, Marks: true}
	result, err := f.Effects.Do(ctx, in.Effect, policy, request, func(ctx context.Context,
		a *effect.Attempt) (any, error) {
		if failed != nil && !in.For.Cancel {
			return nil, failed
		}
		done, err := x.attempt(ctx, a)
		if err != nil {
			return nil, err
		}
		output := flow.Output{}
		if in.Effect.Compensates == "" && failed == nil {
			output = s.Read(in.For.Step, 0, done.Result)
		}
		if len(done.Result) > maxResult {
			done.Result = nil
		}
		return performed{Output: output, Workflow: done}, nil
	})
	if x.unfinished && in.For.Cancel {
		return effect.Result{State: effect.Failed, Reason: "not done when the run was cancelled; its workflow was cancelled and has not ended yet"}, nil
	}
	result.Value = nil // histories contain no output
	return result, err
}

// execution is the execution of the user's workflow for one effect.
type execution struct {
	*Flows
	in    activities.EffectInput[flow.Call]
	start flow.Start
	// occurredAt is when the event occurred, or was received if the provider sends no time.
	occurredAt time.Time
	// unfinished is set if the last attempt found that the workflow runs.
	unfinished bool
}

// prepare builds the start of the workflow and returns its input.
func (x *execution) prepare(s stepFlow) (request []byte, err error) {
	at := s.event.AtItem(x.in.For.Item)
	x.occurredAt = s.occurredAt
	if x.in.Effect.Compensates != "" {
		x.start, err = s.UndoWorkflow(at, x.in.For.Step, s.outputs, s.own)
	} else {
		x.start, err = s.Workflow(at, x.in.For.Step, s.outputs)
	}
	switch {
	case err != nil:
		return nil, effect.Fault("%s", err)
	case x.in.For.Request != "" && x.start.Hash() != x.in.For.Request:
		return nil, effect.Fault("the workflow of step %s differs from the workflow that the run planned",
			x.in.For.Step)
	}
	c := x.in.Effect
	return json.Marshal(StartedInput{EventID: c.EventID, ReceiptID: c.ReceiptID, Mode: c.Mode, Source: s.source,
		Type: c.Type, Key: c.Key, Account: s.account, Input: x.start.Input})
}

// running returns an error with the delay of the next attempt if an earlier attempt of this round has started the
// workflow, and the workflow still runs. It claims nothing, because a workflow can run for days.
func (x *execution) running(ctx context.Context) (err error) {
	c := x.in.Effect
	found, err := x.Effects.Ledger.Read(ctx, []string{c.Key})
	if err != nil {
		return effect.Infrastructure(err)
	}
	g, known := found[c.Key]
	if !known || g.State != ledger.Failed || g.Class != ledger.Transient || c.Round > g.Round {
		return nil
	}
	waits := x.describe(ctx, effect.IdempotencyKey(c.Key, g.Generation))
	if waits == nil {
		return nil
	}
	x.Effects.Retrying(ctx, c, waits.Reason)
	return x.Effects.Later(ctx, waits)
}

// describe returns the state of a workflow that runs. It returns nil if the workflow does not run, or if Temporal does
// not answer: the caller then requests the result, which reports both.
func (x *execution) describe(ctx context.Context, id string) *effect.Unfinished {
	description, err := x.Temporal.DescribeWorkflow(ctx, id, "")
	if err != nil || description.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil
	}
	found := description.RawResponse
	info := found.GetWorkflowExecutionInfo()
	age := time.Since(info.GetStartTime().AsTime())
	waits := &effect.Unfinished{Wait: min(max(age/8, firstPoll), lastPoll)}
	name := fmt.Sprintf("workflow %s on task queue %s (ID %s)", info.GetType().GetName(), info.GetTaskQueue(), id)
	switch {
	case info.GetHistoryLength() <= notBegun && age > begins:
		waits.Reason = receipt.WorkflowStuck + ": no worker has begun " + name + ": start a worker for the task queue"
	case found.GetPendingWorkflowTask().GetAttempt() > failing:
		waits.Reason = receipt.WorkflowStuck + ": the worker fails to execute " + name +
			": see its workflow task in the Temporal UI"
	default:
		waits.Reason = receipt.WaitingForWorkflow + ": " + name + " runs"
	}
	return waits
}

const (
	// notBegun is the length of the history before the first workflow task begins: the start and the scheduled task.
	notBegun = 2
	// failing is the number of attempts after which a workflow task counts as failing.
	failing = 3
)

// attempt starts the workflow or joins its execution, and waits a short time for the end.
func (x *execution) attempt(ctx context.Context, a *effect.Attempt) (*ended, error) {
	x.unfinished = false
	run, err := x.join(ctx, a)
	if err != nil {
		return nil, err
	}
	wait := patience
	if x.in.For.Cancel {
		wait = untilCancelled
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var result converter.RawValue
	err = run.Get(waiting, &result)
	if err == nil {
		return &ended{ID: run.GetID(), RunID: run.GetRunID(), Result: textOf(result)}, nil
	}
	failed, closed := errors.AsType[*temporal.WorkflowExecutionError](err)
	if !closed && waiting.Err() == nil {
		return nil, unavailable(err)
	}
	// A workflow that was reset in Temporal has ended with an error and runs again.
	if waits := x.describe(ctx, run.GetID()); waits != nil || !closed {
		x.unfinished = true
		return nil, cmp.Or(waits, &effect.Unfinished{Reason: "workflow " + run.GetID() + " runs", Wait: firstPoll})
	}
	return nil, x.failure(failed)
}

// join starts the workflow, or returns the execution that an earlier attempt has started. Temporal starts at most one
// execution with an ID. Only a retry by a person, after the workflow has failed, leads to another ID: see
// [effect.IdempotencyKey].
func (x *execution) join(ctx context.Context, a *effect.Attempt) (client.WorkflowRun, error) {
	id := a.IdempotencyKey
	if x.in.For.Cancel {
		err := x.Temporal.CancelWorkflow(ctx, id, "")
		if is[*serviceerror.NotFound](err) {
			err = nil // it has ended, or it has never begun
		}
		return x.Temporal.GetWorkflow(ctx, id, ""), unavailable(err)
	}
	doubt := a.Lost(x.occurredAt)
	if doubt == nil && a.Repeat && a.Age > remembered {
		doubt = effect.Doubt("the first attempt was %s ago, and Temporal does not have the workflow %s any more: it may have completed",
			a.Age.Round(time.Minute), id)
	}
	if doubt != nil {
		_, err := x.Temporal.DescribeWorkflow(ctx, id, "")
		if is[*serviceerror.NotFound](err) {
			return nil, doubt
		}
		if err != nil {
			return nil, unavailable(err)
		}
	}
	run, err := x.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: x.start.TaskQueue, WorkflowExecutionTimeout: x.start.Timeout,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "pawl: step " + x.in.For.Step + " of flow " + x.in.For.Flow,
	}, x.start.Type, json.RawMessage(a.Request))
	return run, unavailable(err)
}

// unavailable classifies an error of Temporal's API. An invalid request stays invalid; any other error, also a missing
// permission, is retried without limit, like an outage of the database.
func unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case is[*serviceerror.InvalidArgument](err):
		return effect.Fault("Temporal rejects the workflow: %s", err)
	case is[*serviceerror.NotFound](err):
		return effect.Fault("the run was cancelled before the workflow began")
	}
	return effect.Infrastructure(err)
}

// is reports whether the chain of err contains an error of a type.
func is[E error](err error) bool {
	_, found := errors.AsType[E](err)
	return found
}

// failure returns the failure that the end of a workflow means.
func (x *execution) failure(failed *temporal.WorkflowExecutionError) error {
	name := "workflow " + x.start.Type
	//nolint:errorlint // an activity of the workflow may have failed in the same way
	switch errors.Unwrap(failed).(type) {
	case *temporal.TimeoutError:
		return effect.Fault("%s exceeded its timeout", name)
	case *temporal.TerminatedError:
		return effect.Fault("%s was terminated", name)
	case *temporal.CanceledError:
		if x.in.For.Cancel {
			return effect.Fault("not done when the run was cancelled: %s was cancelled with it", name)
		}
		return effect.Fault("%s was cancelled", name)
	}
	// The chain contains the error of the workflow, the error of the activity that made it fail, and errors that they
	// wrap.
	result := effect.Fault("%s failed", name)
	for of := range applicationErrors(failed) {
		switch {
		case x.start.Refuses(of.Type()):
			result = effect.Refuse("%s refused with %s", name, of.Type())
		case result.Detail == "":
			result = effect.Fault("%s failed with %s", name, of.Type())
		default:
			continue
		}
		result.Detail = of.Message() // it is the user's text, which can contain personal data
	}
	if result.Detail == "" {
		result.Detail = errors.Unwrap(failed).Error()
	}
	return result
}

// applicationErrors iterates over the application errors in the chain of err.
func applicationErrors(err error) iter.Seq[*temporal.ApplicationError] {
	return func(yield func(*temporal.ApplicationError) bool) {
		for {
			of, found := errors.AsType[*temporal.ApplicationError](err)
			if !found || !yield(of) {
				return
			}
			err = of.Unwrap()
		}
	}
}

// textOf returns the result of a workflow if it is JSON, otherwise nil.
func textOf(result converter.RawValue) json.RawMessage {
	p := result.Payload()
	switch string(p.GetMetadata()[converter.MetadataEncoding]) {
	case converter.MetadataEncodingJSON, converter.MetadataEncodingProtoJSON:
		if json.Valid(p.GetData()) { // the JSON of some SDKs can contain NaN
			return p.GetData()
		}
	}
	return nil
}
