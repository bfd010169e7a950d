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
	return p.bring(ctx, in, in.Fact.Plan, active, nil)
}

// ReleaseWorkspace undoes a provisioning: the workspace goes back to the plan that the account's other paid
// invoices give, or is released where there is none. What a newer invoice has provisioned since stays.
func (p *Provisioning) ReleaseWorkspace(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	plan, state, err := p.without(ctx, in.Fact)
	if err != nil {
		return effect.Result{}, err
	}
	return p.bring(ctx, in, plan, state, nil)
}

// AlignWorkspace brings the workspace to what the account's standing invoices give, after an invoice was taken
// back. It is for what the undo of a provisioning cannot see: the workspace may have the invoice's plan from the
// undo of another one, or lack the plan of one whose own provisioning was skipped in favour of this invoice.
func (p *Provisioning) AlignWorkspace(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	plan, state, err := p.without(ctx, in.Fact)
	if err != nil {
		return effect.Result{}, err
	}
	return p.bring(ctx, in, plan, state, p.outdated)
}

// The states of a workspace.
const (
	active   = "active"
	released = "released"
)

// without is what the account's workspace becomes without the invoice: the plan that its other paid invoices
// give, or released where there is none.
func (p *Provisioning) without(ctx context.Context, f billing.InvoicePaid) (plan, state string, err error) {
	plan, err = p.Billing.PlanWithout(ctx, f)
	if plan == "" {
		return f.Plan, released, err
	}
	return plan, active, err
}

// outdated says why a request to align the workspace is not wanted any more, "" where it still is. Every try sends the
// bytes of the first one, and what the account has paid for may have changed since. Nothing is lost by leaving it: who
// changed that has seen this effect at work, and aligns the workspace as well; see [billing.Restoration].
func (p *Provisioning) outdated(ctx context.Context, f billing.InvoicePaid, sent workspace) (unwanted string, err error) {
	plan, state, err := p.without(ctx, f)
	if err != nil {
		return "", err
	}
	if sent.State == state && (state == released || sent.Plan == plan) {
		return "", nil
	}
	return "what the account has paid for has changed meanwhile", nil
}

// bring brings the account's workspace to a target state, unless a newer invoice of the subscription has the say.
// unwanted, where it is not nil, is asked before the request is sent, and says why it shall not be.
func (p *Provisioning) bring(ctx context.Context, in InvoiceEffectInput, plan, state string,
	unwanted func(ctx context.Context, f billing.InvoicePaid, sent workspace) (why string, err error),
) (effect.Result, error) {
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
			p.Effects.Stale(ctx, in.Effect)
			return nil, &effect.NotWanted{Reason: "superseded by newer state of " + newer}
		}
		// What the first try sent, which every later one repeats: by now the account may have paid for something else,
		// and what was sent has to be known for the workspace to be aligned.
		var sent workspace
		if err := json.Unmarshal(a.Request, &sent); err != nil {
			return nil, effect.Infrastructure(fmt.Errorf("read what is to be sent: %w", err))
		}
		if unwanted != nil {
			why, err := unwanted(ctx, in.Fact, sent)
			if err != nil {
				return nil, effect.Infrastructure(err)
			}
			if why != "" {
				return nil, &effect.NotWanted{Reason: why}
			}
		}
		if _, err := p.Sink.send(ctx, http.MethodPut, workspacePath(f), a); err != nil {
			return nil, err
		}
		a.Also(billing.RecordWorkspace(f, sent.Plan, sent.State, in.Effect.Key))
		return nil, nil
	})
}

func (p *Provisioning) policy(f billing.InvoicePaid) effect.Policy {
	policy := p.Sink.Policy
	policy.Exclusive = billing.WorkspaceOf(f)
	return policy
}

func workspacePath(f billing.InvoicePaid) string { return "/workspaces/" + url.PathEscape(f.Account) }
