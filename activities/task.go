package activities

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
)

// The kinds of tasks.
const (
	TaskOnboarding = billing.TaskOnboarding // welcome an account on its plan
	TaskCorrection = "correction"           // decide about the money for a grant that was taken back
	TaskReview     = billing.TaskReview     // review what no rule decides
	TaskReconcile  = billing.TaskReconcile  // hold an object against the provider's
	TaskRelease    = billing.TaskRelease    // release a workspace that nobody has access to any more
)

// Task is something that a person has to do.
type Task struct {
	Kind    string
	Mode    string
	Account string
	// Object is the ID of its object. There is one task of a kind for each.
	Object string
	// Subscription is the one with whose end it is cancelled, "" for none.
	Subscription string `json:",omitempty"`
	// Plan is the one that it welcomes on: it is cancelled while the subscription does not grant that.
	Plan  string `json:",omitempty"`
	Title string
}

// Tasks opens and closes tasks in our own database: exactly once, since a task is written in the commit that records
// the effect as done.
type Tasks struct {
	Effects *effect.Runner
}

// OpenTask opens a task.
func (t *Tasks) OpenTask(ctx context.Context, in EffectInput[Task]) (effect.Result, error) {
	return t.write(ctx, in, billing.OpenTask(row(in)))
}

// CloseTask closes a task that is open: it is done.
func (t *Tasks) CloseTask(ctx context.Context, in EffectInput[Task]) (effect.Result, error) {
	return t.write(ctx, in, billing.CloseTask(row(in), billing.TaskDone))
}

// CancelTask closes a task that is open: it need not be done any more. A task that is done stays done.
func (t *Tasks) CancelTask(ctx context.Context, in EffectInput[Task]) (effect.Result, error) {
	return t.write(ctx, in, billing.CloseTask(row(in), billing.TaskCancelled))
}

// taskTimeout bounds what does no more than have one row written.
const taskTimeout = 2 * time.Second

// write runs a statement in the commit that records the effect as done, together with those of other effects: a
// transaction of its own would wait for the disk alone. A claim that ran out has written nothing.
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
		Account: t.Account, Title: t.Title, EffectKey: in.Effect.Key}
}
