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

// ProvisionWorkspace creates the account's workspace or brings it to the paid plan. One account's
// workspace is touched by one effect at a time, and an invoice of a period that a newer one has
// superseded is skipped: an older plan never lands after a newer one.
func (p *Provisioning) ProvisionWorkspace(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	return p.bring(ctx, in, in.Fact.Plan, "active")
}

// ReleaseWorkspace undoes a provisioning: the workspace goes back to the plan that the account's other paid
// invoices give, or is released where there is none. What a newer invoice has provisioned since stays.
func (p *Provisioning) ReleaseWorkspace(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	plan, err := p.Billing.PlanWithout(ctx, in.Fact)
	switch {
	case err != nil:
		return effect.Result{}, err
	case plan == "":
		return p.bring(ctx, in, in.Fact.Plan, "released")
	}
	return p.bring(ctx, in, plan, "active")
}

// bring brings the account's workspace to a target state, unless a newer invoice has the say.
func (p *Provisioning) bring(ctx context.Context, in InvoiceEffectInput, plan, state string) (effect.Result, error) {
	f := in.Fact
	f.Plan = plan
	target, err := json.Marshal(workspace{Account: f.Account, Plan: f.Plan, State: state, Invoice: f.Invoice, Mode: f.Mode})
	if err != nil {
		return effect.Result{}, fmt.Errorf("encode workspace of %s: %w", f.Account, err)
	}
	return p.Effects.Do(ctx, in.Effect, p.policy(f), target, func(ctx context.Context, a *effect.Attempt) (any, error) {
		newer, err := p.Billing.SupersededBy(ctx, f)
		if err != nil {
			return nil, effect.Infrastructure(err)
		}
		if newer != "" {
			return nil, &effect.NotWanted{Reason: "superseded by newer state of " + newer}
		}
		if _, err := p.Sink.send(ctx, http.MethodPut, workspacePath(f), a); err != nil {
			return nil, err
		}
		a.Also(billing.RecordWorkspace(f, state, in.Effect.Key))
		return nil, nil
	})
}

func (p *Provisioning) policy(f billing.InvoicePaid) effect.Policy {
	policy := p.Sink.Policy
	policy.Exclusive = "workspace:" + f.Mode + ":" + f.Account
	return policy
}

func workspacePath(f billing.InvoicePaid) string { return "/workspaces/" + url.PathEscape(f.Account) }
