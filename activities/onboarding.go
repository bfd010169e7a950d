package activities

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Onboarding opens tasks for the customer success team, in our own database.
type Onboarding struct {
	Effects *effect.Runner
}

// taskTimeout bounds what does no more than write one row.
const taskTimeout = 5 * time.Second

// CreateOnboardingTask opens the task of the account and paid period; exactly once.
func (o *Onboarding) CreateOnboardingTask(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	f := in.Fact
	return o.write(ctx, in.Effect, billing.OpenOnboardingTask(f, "Welcome "+f.Account+" to "+f.Plan, in.Effect.Key))
}

// CancelOnboardingTask cancels the task that this invoice's effect opened, while it is open.
func (o *Onboarding) CancelOnboardingTask(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	return o.write(ctx, in.Effect, billing.CancelOnboardingTask(in.Fact, in.Effect.Compensates, in.Effect.Key))
}

// write runs a statement in the commit that records the effect as done: with those of other effects, where
// a transaction of its own would wait for the disk alone.
func (o *Onboarding) write(ctx context.Context, c effect.Call, statement ledger.Statement) (effect.Result, error) {
	return o.Effects.Do(ctx, c, effect.Policy{Timeout: taskTimeout}, nil, func(_ context.Context, a *effect.Attempt) (any, error) {
		a.Also(statement)
		return nil, nil
	})
}
