package activities

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

// EffectInput is the input of an effect's activity: the call, and the data of the request to the outside system.
// Workflow histories contain this struct, so fields can only be added, and must not contain personal data.
type EffectInput[N any] struct {
	Effect effect.Call
	For    N
}

// SinkSettings configures the attempts of a sink's effects. Histories contain it, so that a replay uses the same
// values as the run.
type SinkSettings struct {
	// Timeout bounds one attempt. Zero means the default of the flow.
	Timeout time.Duration `json:",omitempty"`
	// ActivityOnly skips the local activity.
	ActivityOnly bool `json:",omitempty"`
	// Owner is the contact for problems of the sink.
	Owner string `json:",omitempty"`
}

// ErrNotConfigured means that an effect is skipped because its sink is not configured.
var ErrNotConfigured = &effect.NotWanted{Reason: "not configured"}

// LeaveOut records that an effect is skipped because its sink is not configured.
func LeaveOut(ctx context.Context, effects *effect.Runner, c effect.Call) (effect.Result, error) {
	policy := effect.Policy{Timeout: time.Second, Marks: true}
	return effects.Do(ctx, c, policy, nil,
		func(context.Context, *effect.Attempt) (any, error) { return nil, ErrNotConfigured })
}
