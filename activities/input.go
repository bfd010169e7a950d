package activities

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

// EffectInput is what the activity of an effect takes: which effect it is, and what the outside system is to be told,
// in a noun of that system's own. It stands in workflow histories: fields of nouns can be added, and none holds
// personal data.
type EffectInput[N any] struct {
	Effect effect.Call
	For    N
}

// SinkSettings says how the effects of a sink are to be tried. It stands in histories, so that a replay sees what the
// run saw.
type SinkSettings struct {
	// Timeout bounds one try; zero is the flow's default.
	Timeout time.Duration `json:",omitempty"`
	// ActivityOnly leaves out the local try.
	ActivityOnly bool `json:",omitempty"`
	// Owner is whom to turn to about the sink.
	Owner string `json:",omitempty"`
}

var errNotConfigured = &effect.NotWanted{Reason: "not configured"}

// leaveOut records that an effect is not wanted, because its sink is not configured.
func leaveOut(ctx context.Context, effects *effect.Runner, c effect.Call) (effect.Result, error) {
	policy := effect.Policy{Timeout: time.Second, Marks: true}
	return effects.Do(ctx, c, policy, nil,
		func(context.Context, *effect.Attempt) (any, error) { return nil, errNotConfigured })
}
