package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Workspace is the target state of an account's workspace: the body of PUT {base}/workspaces/{account}.
type Workspace struct {
	Account string `json:"account"`
	Mode    string `json:"mode"`
	// Plan is "" unless State is active.
	Plan     string   `json:"plan"`
	Quantity int64    `json:"quantity"`
	Features []string `json:"features"`
	// State is active, suspended or released.
	State string `json:"state"`
	// Version increases with each change of the account's target. The sink must ignore a request if it has already
	// applied a request with a higher version.
	Version int64 `json:"version"`
}

// WorkspaceOf returns the workspace for a target.
func WorkspaceOf(mode, account string, t fold.Target) Workspace {
	return Workspace{Account: account, Mode: mode, Plan: t.Plan, Quantity: t.Quantity, Features: t.Features,
		State: t.State, Version: t.Version}
}

func (w Workspace) target() fold.Target {
	return fold.Target{Version: w.Version, State: w.State, Plan: w.Plan, Quantity: w.Quantity, Features: w.Features}
}

// Request returns the request that sets the workspace.
func (w Workspace) Request() Request {
	header := map[string]string{"Pawl-Mode": w.Mode, "Pawl-Target-Version": strconv.FormatInt(w.Version, 10)}
	return Request{http.MethodPut, "/workspaces/" + url.PathEscape(w.Account), header, w}
}

// Targets reads the current target of an account's workspace.
type Targets interface {
	Target(ctx context.Context, mode, account string) (fold.Target, error)
}

// Workspaces brings workspaces to a target state.
type Workspaces struct {
	Effects *effect.Runner
	Targets Targets
	// Sinks are the workspace APIs by mode. If the mode has no API, the effects are skipped.
	Sinks map[string]Sink
}

// WorkspaceRef identifies the workspace of an account.
type WorkspaceRef struct {
	Mode    string
	Account string
}

// AlignWorkspace sends the current target to a workspace, even if it was sent before.
func (w *Workspaces) AlignWorkspace(ctx context.Context, in EffectInput[WorkspaceRef]) (effect.Result, error) {
	newest, err := w.Targets.Target(ctx, in.For.Mode, in.For.Account)
	if err != nil {
		return effect.Result{}, fmt.Errorf("read the target of %s: %w", in.For.Account, err)
	}
	return w.ProvisionWorkspace(ctx,
		EffectInput[Workspace]{in.Effect, WorkspaceOf(in.For.Mode, in.For.Account, newest)})
}

// ProvisionWorkspace brings an account's workspace to a target. Only one effect at a time uses a workspace. It skips a
// target that is older than the account's current target, so it never sends an older target after a newer one. The
// result reports whether an earlier attempt got no response. The sink may still apply such an attempt later;
// [Workspaces.AlignWorkspace] repairs that.
func (w *Workspaces) ProvisionWorkspace(ctx context.Context, in EffectInput[Workspace]) (effect.Result, error) {
	if err := in.Effect.Check(in.For.Mode); err != nil {
		return effect.Result{}, err
	}
	sink, configured := w.Sinks[in.For.Mode]
	if !configured {
		return LeaveOut(ctx, w.Effects, in.Effect)
	}
	if in.For.Features == nil {
		in.For.Features = []string{} // encode an empty list, not null
	}
	body, err := json.Marshal(in.For)
	if err != nil {
		return effect.Result{}, fmt.Errorf("encode workspace of %s: %w", in.For.Account, err)
	}
	policy := sink.Policy
	policy.About = in.For.Mode + ":" + in.For.Account
	policy.Exclusive = "workspace:" + in.For.Mode + ":" + in.For.Account
	policy.ByHand = func(a *effect.Attempt, reference string) any {
		a.Also(billing.RecordWorkspace(in.For.Mode, in.For.Account, in.For.target(), in.Effect.Key))
		return map[string]string{"reference": reference}
	}
	return w.Effects.Do(ctx, in.Effect, policy, body, func(ctx context.Context, a *effect.Attempt) (any, error) {
		var sent Workspace // the bytes of the first attempt
		if err := json.Unmarshal(a.Request, &sent); err != nil {
			return nil, effect.Infrastructure(fmt.Errorf("decode the stored request: %w", err))
		}
		if err := w.current(ctx, sent); err != nil {
			if _, stale := errors.AsType[*effect.NotWanted](err); stale {
				w.Effects.Stale(ctx, in.Effect)
			}
			return nil, err
		}
		if _, err := sink.send(ctx, sent.Request(), a); err != nil {
			return nil, err
		}
		a.Also(billing.RecordWorkspace(sent.Mode, sent.Account, sent.target(), in.Effect.Key))
		return nil, nil
	})
}

// current returns an error of type [effect.NotWanted] if the account has a newer target than sent.
func (w *Workspaces) current(ctx context.Context, sent Workspace) error {
	newest, err := w.Targets.Target(ctx, sent.Mode, sent.Account)
	if err != nil {
		return effect.Infrastructure(err)
	}
	if sent.Version < newest.Version {
		return &effect.NotWanted{Reason: fmt.Sprintf("superseded by version %d", newest.Version)}
	}
	return nil
}
