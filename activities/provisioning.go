package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// Provisioning brings workspaces to a target state: PUT {base}/workspaces/{account}.
type Provisioning struct {
	Effects *effect.Runner
	Billing *billing.Store
	Sink    Sink
}

// workspace is the target state that is sent.
type workspace struct {
	Account string `json:"account"`
	Plan    string `json:"plan"`
	State   string `json:"state"`
	Invoice string `json:"invoice"`
	Mode    string `json:"mode"`
}

// provisioned is what the ledger keeps of a provisioning, so that it can be undone.
type provisioned struct {
	// Before is the plan that the workspace had, "" when there was none.
	Before string
}

// ProvisionWorkspace creates the account's workspace or brings it to the paid plan. One account's
// workspace is touched by one effect at a time, and an invoice of a period that a newer one has
// superseded is skipped: an older plan never lands after a newer one.
func (p *Provisioning) ProvisionWorkspace(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	f := in.Fact
	target, err := json.Marshal(workspace{Account: f.Account, Plan: f.Plan, State: "active", Invoice: f.Invoice, Mode: f.Mode})
	if err != nil {
		return effect.Result{}, fmt.Errorf("encode workspace of %s: %w", f.Account, err)
	}
	return p.Effects.Do(ctx, in.Effect, p.policy(f), target, func(ctx context.Context, a *effect.Attempt) (any, error) {
		now, err := p.standing(ctx, f)
		if err != nil {
			return nil, err
		}
		if _, err := p.Sink.send(ctx, http.MethodPut, workspacePath(f), a); err != nil {
			return nil, err
		}
		a.Also(billing.RecordWorkspace(f, "active", in.Effect.Key))
		return provisioned{Before: now.Workspace}, nil
	})
}

// ReleaseWorkspaceInput says what to undo.
type ReleaseWorkspaceInput struct {
	Effect effect.Call
	Fact   billing.InvoicePaid
	// Provisioned is the Value of the provisioning's result, empty when nobody knows whether it happened.
	Provisioned json.RawMessage
}

// ReleaseWorkspace undoes a provisioning: the workspace goes back to the plan it had, or is released
// when it had none. What a newer invoice has provisioned since stays.
func (p *Provisioning) ReleaseWorkspace(ctx context.Context, in ReleaseWorkspaceInput) (effect.Result, error) {
	before, err := p.before(ctx, in)
	if err != nil {
		return effect.Result{}, err
	}
	f, state := in.Fact, "active"
	if f.Plan = before; f.Plan == "" {
		f.Plan, state = in.Fact.Plan, "released"
	}
	target, err := json.Marshal(workspace{Account: f.Account, Plan: f.Plan, State: state, Invoice: f.Invoice, Mode: f.Mode})
	if err != nil {
		return effect.Result{}, fmt.Errorf("encode workspace of %s: %w", f.Account, err)
	}
	return p.Effects.Do(ctx, in.Effect, p.policy(f), target, func(ctx context.Context, a *effect.Attempt) (any, error) {
		if _, err := p.standing(ctx, in.Fact); err != nil {
			return nil, err
		}
		if _, err := p.Sink.send(ctx, http.MethodPut, workspacePath(f), a); err != nil {
			return nil, err
		}
		a.Also(billing.RecordWorkspace(f, state, in.Effect.Key))
		return nil, nil
	})
}

// standing returns how the fact's account stands, or why its workspace is to be left alone.
func (p *Provisioning) standing(ctx context.Context, f billing.InvoicePaid) (billing.Standing, error) {
	now, err := p.Billing.Standing(ctx, f)
	if err != nil {
		return now, effect.Infrastructure(err)
	}
	if now.SupersededBy != "" {
		return now, &effect.NotWanted{Reason: "superseded by newer state of " + now.SupersededBy}
	}
	return now, nil
}

// before returns the plan that the workspace had before the provisioning, "" when there was none. A
// provisioning that was never answered has recorded nothing: what we hold is then still the state before it.
func (p *Provisioning) before(ctx context.Context, in ReleaseWorkspaceInput) (string, error) {
	if len(in.Provisioned) == 0 {
		now, err := p.Billing.Standing(ctx, in.Fact)
		return now.Workspace, err
	}
	var done provisioned
	if err := json.Unmarshal(in.Provisioned, &done); err != nil {
		return "", fmt.Errorf("read what %s had changed: %w", in.Effect.Compensates, err)
	}
	return done.Before, nil
}

func (p *Provisioning) policy(f billing.InvoicePaid) effect.Policy {
	policy := p.Sink.Policy
	policy.Exclusive = "workspace:" + f.Mode + ":" + f.Account
	return policy
}

func workspacePath(f billing.InvoicePaid) string { return "/workspaces/" + url.PathEscape(f.Account) }
