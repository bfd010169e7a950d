package activities

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// Onboarding opens tasks for the customer success team, in our own database.
type Onboarding struct {
	Effects *effect.Runner
}

// CreateOnboardingTask opens the task of the account and paid period; exactly once.
func (o *Onboarding) CreateOnboardingTask(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	return o.Effects.DoTx(ctx, in.Effect, func(ctx context.Context, tx pgx.Tx) (any, error) {
		return nil, billing.CreateOnboardingTask(ctx, tx, in.Fact, "Welcome "+in.Fact.Account+" to "+in.Fact.Plan, in.Effect.Key)
	})
}

// CancelOnboardingTask cancels the task while it is open.
func (o *Onboarding) CancelOnboardingTask(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	return o.Effects.DoTx(ctx, in.Effect, func(ctx context.Context, tx pgx.Tx) (any, error) {
		return nil, billing.CancelOnboardingTask(ctx, tx, in.Fact)
	})
}
