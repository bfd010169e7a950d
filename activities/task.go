package activities

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Kinds of tasks.
const (
	TaskOnboarding = billing.TaskOnboarding // welcome a customer who got a plan
	TaskReview     = billing.TaskReview     // review a case for which there is no rule
	TaskReconcile  = billing.TaskReconcile  // compare an object with the provider's data
	TaskRelease    = billing.TaskRelease    // release a workspace without access
)

// Task is a task for a person.
type Task struct {
	Kind    string
	Mode    string
	Account string
	// Object is the ID of the task's object. There is one task per kind and object.
	Object string
	// Subscription is the ID of a subscription. If it ends, the task is cancelled. It may be "".
	Subscription string `json:",omitempty"`
	// Plan is the plan of an onboarding task. If the subscription no longer grants the plan, the task is cancelled.
	Plan string `json:",omitempty"`
	// While is the state in which the task is necessary. If an event changes the state, the task is cancelled.
	While billing.While `json:",omitempty"`
	Title string
}

// Tasks opens and closes tasks in pawl's database, exactly once: a task is written in the transaction that records
// the effect as done.
type Tasks struct {
	Effects *effect.Runner
}

// OpenTask opens a task.
func (t *Tasks) OpenTask(ctx context.Context, in EffectInput[Task]) (effect.Result, error) {
	return t.write(ctx, in, billing.OpenTask(row(in)))
}

// CloseTask marks an open task as done.
func (t *Tasks) CloseTask(ctx context.Context, in EffectInput[Task]) (effect.Result, error) {
	return t.write(ctx, in, billing.CloseTask(row(in), fold.TaskDone))
}

// CancelTask cancels an open task. It does not change a task that is done.
func (t *Tasks) CancelTask(ctx context.Context, in EffectInput[Task]) (effect.Result, error) {
	return t.write(ctx, in, billing.CloseTask(row(in), fold.TaskCancelled))
}

// taskTimeout is the timeout of an effect that writes a single row.
const taskTimeout = 2 * time.Second

// write adds a statement to the transaction that records the effect as done. Such transactions are grouped, so a task
// needs no commit of its own. If the claim has expired, nothing is written.
func (t *Tasks) write(ctx context.Context, in EffectInput[Task], s ledger.Statement) (effect.Result, error) {
	if err := in.Effect.Check(in.For.Mode); err != nil {
		return effect.Result{}, err
	}
	return t.Effects.Do(ctx, in.Effect, effect.Policy{Timeout: taskTimeout, Marks: true}, nil,
		func(_ context.Context, a *effect.Attempt) (any, error) {
			a.Also(s)
			return nil, nil
		})
}

func row(in EffectInput[Task]) billing.Task {
	t := in.For
	return billing.Task{Mode: t.Mode, Kind: t.Kind, Object: t.Object, Subscription: t.Subscription, Plan: t.Plan,
		While: t.While, Account: t.Account, Title: t.Title, EffectKey: in.Effect.Key}
}
