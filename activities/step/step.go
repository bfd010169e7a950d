// Package step executes the steps of flows in the configuration.
package step

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/flowversion"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/task"
)

// Flows plans and executes the flows of the configuration. A run keeps the version with which it began, so Flows also
// executes earlier versions, which it reads from the database.
type Flows struct {
	Effects  *effect.Runner
	Receipts *receipt.Store
	Versions *flowversion.Store
	// Active holds the flows of the configuration. At most one of them handles an event.
	Active []*flow.Flow
	// Sinks holds the sinks by name and mode.
	Sinks map[string]map[string]activities.Sink
	// Settings configures the attempts, by sink.
	Settings map[string]activities.SinkSettings
	// Temporal starts the workflows of steps. A preview does not need it.
	Temporal client.Client

	mu sync.Mutex
	// saved contains the hashes of the versions that the database contains.
	saved map[string]bool
	// earlier holds the versions read from the database, by hash.
	earlier map[string]*flow.Flow
}

// record stores the account of the event, and the version of the flow before the first run begins with it. A preview
// stores nothing.
func (f *Flows) record(ctx context.Context, active *flow.Flow, r receipt.Receipt, account string) error {
	if f.Effects == nil {
		return nil
	}
	if account != "" {
		if err := f.Receipts.SetAccount(ctx, r.ID, account); err != nil {
			return err
		}
	}
	return f.save(ctx, active)
}

// save stores a version, so that a run can keep it.
func (f *Flows) save(ctx context.Context, active *flow.Flow) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.saved[active.Hash] {
		return nil
	}
	v := flowversion.Version{Hash: active.Hash, Name: active.Name, Body: active.Version}
	if err := f.Versions.Save(ctx, v); err != nil {
		return err
	}
	if f.saved == nil {
		f.saved = map[string]bool{}
	}
	f.saved[active.Hash] = true
	return nil
}

// handling returns the active flow that handles a receipt, or nil.
func (f *Flows) handling(r receipt.Receipt) *flow.Flow {
	if r.RelayOf != "" { // the event runs with another receipt
		return nil
	}
	for _, active := range f.Active {
		if active.Definition.Handles(r.Provider, r.Source, r.Type) {
			return active
		}
	}
	return nil
}

// Plan evaluates a flow for a receipt. code and why are set if the run must park.
func Plan(ctx context.Context, receipts *receipt.Store, f *flow.Flow, r receipt.Receipt) (p flow.Plan, code, why string,
	err error) {
	e, code, why, err := eventOf(ctx, receipts, r)
	if err != nil || code != "" {
		return p, code, why, err
	}
	p, err = f.Plan(e)
	if failed, ok := errors.AsType[*flow.Error](err); ok {
		return p, activities.CodeFlowFault, failed.Error(), nil
	}
	return p, "", "", err
}

// hashesSigned lists the providers with events that have [receipt.New.Signed]. The hash in their receipts covers the
// signed content, and not the stored bytes.
var hashesSigned = []string{"adyen", "linear", "twilio"}

// HashesBody reports whether the hash in the receipts of a provider covers the stored bytes.
func HashesBody(provider string) bool { return !slices.Contains(hashesSigned, provider) }

// eventOf reads the payload of a receipt. code and why are set if no flow can read it.
func eventOf(ctx context.Context, receipts *receipt.Store, r receipt.Receipt) (e *flow.Event, code, why string,
	err error) {
	body, err := receipts.Body(ctx, r.ID)
	if errors.Is(err, schema.ErrNotFound) {
		return nil, activities.CodeBodyErased, "the payload was deleted", nil
	}
	if err != nil {
		return nil, "", "", err
	}
	if hash := sha256.Sum256(body.Bytes); HashesBody(r.Provider) && !bytes.Equal(hash[:], r.BodyHash) {
		return nil, activities.CodeBodyChanged,
			"the stored body differs from the received body: its hash does not match", nil
	}
	e, err = flow.NewEvent(flow.Meta{ID: r.EventID, Type: r.Type, Provider: r.Provider, Source: r.Source,
		Account: r.Account, Mode: r.Mode, Object: r.ObjectID}, body.Bytes, r.ReceivedAt)
	if err != nil {
		return nil, activities.CodeUnreadable, err.Error(), nil
	}
	return e, "", "", nil
}

// version returns a version of a flow by its hash.
func (f *Flows) version(ctx context.Context, name, hash string) (*flow.Flow, error) {
	for _, active := range f.Active {
		if active.Hash == hash {
			return active, nil
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.earlier[hash]; known != nil {
		return known, nil
	}
	stored, err := f.Versions.Get(ctx, hash)
	if errors.Is(err, schema.ErrNotFound) {
		return nil, effect.Fault("the database does not contain the version of flow %s with which this run began", name)
	}
	if err != nil {
		return nil, effect.Infrastructure(err)
	}
	read, err := flow.Decode(stored.Body)
	if err != nil {
		return nil, effect.Fault("%s", err)
	}
	if f.earlier == nil {
		f.earlier = map[string]*flow.Flow{}
	}
	f.earlier[hash] = read
	return read, nil
}

// performed is the result of a step in the ledger.
type performed struct {
	Status   int         `json:"status,omitempty"`
	Output   flow.Output `json:"output,omitzero"`
	Workflow *ended      `json:"workflow,omitempty"`
}

// stepFlow is a step with everything that its effect needs.
type stepFlow struct {
	*flow.Flow
	event   *flow.Event
	outputs map[string]flow.Output
	// own is the output of the step itself. Only an undo has it.
	own             flow.Output
	account, source string
	occurredAt      time.Time
}

// open reads the version, the payload and the outputs of a step.
func (f *Flows) open(ctx context.Context, in activities.EffectInput[flow.Call]) (s stepFlow, err error) {
	if s.Flow, err = f.version(ctx, in.For.Flow, in.For.Hash); err != nil {
		return s, err
	}
	r, err := f.Receipts.Get(ctx, in.Effect.ReceiptID)
	if err != nil {
		return s, effect.Infrastructure(err)
	}
	s.source, s.occurredAt = r.Source, *cmp.Or(r.OccurredAt, &r.ReceivedAt)
	var why string
	if s.event, _, why, err = eventOf(ctx, f.Receipts, r); err != nil {
		return s, effect.Infrastructure(err)
	}
	if why != "" {
		return s, effect.Fault("%s", why)
	}
	if s.account, err = s.AccountOf(s.event); err != nil {
		return s, effect.Fault("%s", err)
	}
	var keys []string
	for _, key := range in.For.Before {
		keys = append(keys, key)
	}
	if in.Effect.Compensates != "" {
		keys = append(keys, in.Effect.Compensates)
	}
	if len(keys) == 0 {
		return s, nil
	}
	found, err := f.Effects.Ledger.Read(ctx, keys)
	if err != nil {
		return s, effect.Infrastructure(err)
	}
	s.outputs = map[string]flow.Output{}
	for name, key := range in.For.Before {
		if done := found[key]; done.State == ledger.Done || done.State == ledger.Compensated {
			s.outputs[name] = outputOf(done)
		}
	}
	s.own = outputOf(found[in.Effect.Compensates])
	return s, nil
}

// outputOf returns the output of a step that the ledger contains. If a person marked the step as done, the output is
// empty.
func outputOf(done ledger.Grant) flow.Output {
	var p performed
	_ = json.Unmarshal(done.Result, &p) // our own encoding, or the reference of a person
	return p.Output
}

// RunFlowStep sends the request of a step, runs its workflow, or opens its task. It records the output in the ledger.
func (f *Flows) RunFlowStep(ctx context.Context, in activities.EffectInput[flow.Call]) (effect.Result, error) {
	if in.For.Workflow {
		return f.runWorkflow(ctx, in)
	}
	if in.For.Sink == "" {
		return f.openTask(ctx, in)
	}
	return f.sendRequest(ctx, in)
}

// UndoFlowStep sends the request or runs the workflow that compensates a step. It cancels a task, unless the task is
// done.
func (f *Flows) UndoFlowStep(ctx context.Context, in activities.EffectInput[flow.Call]) (effect.Result, error) {
	if in.For.Workflow {
		return f.runWorkflow(ctx, in)
	}
	if in.For.Sink == "" {
		return f.write(ctx, in, nil, task.Cancel(in.Effect.Mode, in.For.Object))
	}
	return f.undoRequest(ctx, in)
}

func (f *Flows) sendRequest(ctx context.Context, in activities.EffectInput[flow.Call]) (effect.Result, error) {
	return f.send(ctx, in, func(s stepFlow) (flow.Request, error) {
		return s.Request(s.event.AtItem(in.For.Item), in.For.Step, s.outputs)
	}, func(s stepFlow, status int, answer []byte) flow.Output { return s.Read(in.For.Step, status, answer) })
}

func (f *Flows) undoRequest(ctx context.Context, in activities.EffectInput[flow.Call]) (effect.Result, error) {
	return f.send(ctx, in, func(s stepFlow) (flow.Request, error) {
		return s.Undo(s.event.AtItem(in.For.Item), in.For.Step, s.outputs, s.own)
	}, func(stepFlow, int, []byte) flow.Output { return flow.Output{} })
}

func (f *Flows) send(ctx context.Context, in activities.EffectInput[flow.Call], build func(stepFlow) (flow.Request,
	error),
	read func(stepFlow, int, []byte) flow.Output) (effect.Result, error) {
	modes, known := f.Sinks[in.For.Sink]
	sink, serves := modes[in.Effect.Mode]
	if known && !serves {
		return activities.LeaveOut(ctx, f.Effects, in.Effect)
	}
	s, err := f.open(ctx, in)
	var request flow.Request
	if err == nil {
		if request, err = build(s); err != nil {
			err = effect.Fault("%s", err)
		} else if in.For.Request != "" && request.Hash() != in.For.Request {
			err = effect.Fault("the request of step %s differs from the request that the run planned", in.For.Step)
		}
	}
	if _, fault := errors.AsType[*effect.Failure](err); err != nil && !fault {
		return effect.Result{}, err
	}
	if err == nil && !known {
		err = effect.Fault("sink %s is not configured", in.For.Sink)
	}
	policy := sink.Policy
	policy.About = in.Effect.Mode + ":" + s.account
	if s.account == "" {
		policy.About = ""
	}
	if policy.Timeout == 0 {
		policy.Timeout = time.Second // to record the fault
	}
	if request.Refusals != nil {
		sink.Refusals = nil
	}
	for _, status := range request.Refusals {
		sink.Refusals = append(sink.Refusals, activities.Refusal{Status: status})
	}
	failed := err
	result, err := f.Effects.Do(ctx, in.Effect, policy, request.Body, func(ctx context.Context,
		a *effect.Attempt) (any, error) {
		if failed != nil {
			return nil, failed
		}
		got, err := sink.Exchange(ctx, activities.Request{Method: request.Method, Path: request.Path,
			Header: map[string]string{"Pawl-Mode": in.Effect.Mode, "Pawl-Event-Id": in.Effect.EventID}}, a)
		if err != nil {
			return nil, err
		}
		return performed{Status: got.StatusCode, Output: read(s, got.StatusCode, got.Content)}, nil
	})
	result.Value = nil // histories contain no output
	return result, err
}

func (f *Flows) openTask(ctx context.Context, in activities.EffectInput[flow.Call]) (effect.Result, error) {
	s, err := f.open(ctx, in)
	var opened flow.PlannedTask
	if err == nil {
		if opened, err = s.Task(s.event.AtItem(in.For.Item), in.For.Step); err != nil {
			err = effect.Fault("%s", err)
		}
	}
	return f.write(ctx, in, err, task.Open(task.Task{Mode: in.Effect.Mode, Object: in.For.Object, Account: s.account,
		Title: opened.Title, DueBy: opened.Due, EffectKey: in.Effect.Key}))
}

// write adds a statement to the transaction that records the effect as done. failed is the reason why there is nothing
// to write, or nil.
func (f *Flows) write(ctx context.Context, in activities.EffectInput[flow.Call], failed error,
	s ledger.Statement) (effect.Result,
	error) {
	if _, fault := errors.AsType[*effect.Failure](failed); failed != nil && !fault {
		return effect.Result{}, failed
	}
	return f.Effects.Do(ctx, in.Effect, effect.Policy{Timeout: writing, Marks: true}, nil,
		func(_ context.Context, a *effect.Attempt) (any, error) {
			if failed != nil {
				return nil, failed
			}
			a.Also(s)
			return nil, nil
		})
}

// writing is the timeout of an effect that writes a single row.
const writing = 2 * time.Second

// PlanFlow implements [activities.Planner].
func (f *Flows) PlanFlow(ctx context.Context, r receipt.Receipt, result *activities.LoadRelayResult) error {
	active := f.handling(r)
	if active == nil {
		return nil
	}
	p, code, why, err := Plan(ctx, f.Receipts, active, r)
	if err == nil && code == "" {
		err = f.record(ctx, active, r, p.Account)
	}
	if err != nil {
		return fmt.Errorf("plan flow %s for %s: %w", active.Name, r.EventID, err)
	}
	result.Flow = &flow.Run{Name: active.Name, Hash: active.Hash, Steps: p.Steps}
	switch {
	case code != "":
		result.Code, result.Reason = code, why
	case !p.Wanted:
		result.Left = activities.Left{Code: activities.CodeFlowCondition,
			Reason: "the condition of flow " + active.Name + " is false for this event"}
	}
	for _, s := range p.Steps {
		if s.Sink != "" {
			result.Sinks[s.Sink] = f.Settings[s.Sink]
		}
	}
	return nil
}

// ForecastStep implements [activities.Planner].
func (f *Flows) ForecastStep(c flow.Call, mode string) (policy effect.Policy, why error) {
	modes, known := f.Sinks[c.Sink]
	sink, serves := modes[mode]
	switch {
	case known && !serves:
		return policy, activities.ErrNotConfigured
	case c.Sink != "" && !known:
		return policy, effect.Fault("sink %s is not configured", c.Sink)
	}
	return sink.Policy, nil
}
