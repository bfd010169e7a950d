package workflows

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// InvoicePaid is what happens when an invoice has been paid: the subscription is activated, the
// workspace brought to the plan, the payment booked, a receipt mailed, and for some plans an
// onboarding task opened.
//
// When provisioning is refused for good, the customer cannot get what was paid for: all of it is taken
// back and the run ends compensated.
func InvoicePaid(ctx workflow.Context, in EventInput) (EventResult, error) {
	f, err := newFlow(ctx, "InvoicePaid", in)
	if err != nil {
		return EventResult{}, err
	}
	w := &invoicePaid{flow: f}
	return w.run()
}

type invoicePaid struct {
	*flow
	fact       billing.InvoicePaid
	onboarding bool
	// reopen is set when a person has reviewed an ended subscription and lets it be reopened.
	reopen bool
}

func (w *invoicePaid) run() (EventResult, error) {
	dismissed, err := w.load()
	if err != nil {
		return EventResult{}, err
	}
	if dismissed != "" {
		return w.finish(processed, dismissed)
	}

	// Activation goes first and alone: its fence decides whether the rest may happen at all.
	activation := w.activate()
	whyUndo, err := w.settle(activation)
	switch {
	case err != nil:
	case whyUndo != "":
		err = w.join(activation, w.effects())
	case w.dismissed(activation):
		return w.finish(processed, "nothing done: "+activation.result.Reason)
	default:
		whyUndo, err = w.settle(w.effects()...)
	}
	if err != nil {
		return EventResult{}, err
	}
	if whyUndo == "" {
		return w.finish(processed, "")
	}
	if err := w.compensate(); err != nil {
		return EventResult{}, err
	}
	return w.finish(compensated, whyUndo)
}

// join registers, for a run that takes back an activation before it has done anything else, the effects that the run
// which activated may have done since.
func (w *invoicePaid) join(activation *step, effects []*step) error {
	if !activation.result.MayHaveHappened() || !w.knows("join-another-run") {
		return nil
	}
	w.begin(effects)
	_, err := w.compare(effects)
	return err
}

// dismissed reports whether a person has said that the subscription shall not be activated: in this run, or about
// another event of the invoice, or before a reset. Nothing of what the activation allows is done then.
func (w *invoicePaid) dismissed(activation *step) bool {
	if activation.skipped || activation.result.State != effect.Skipped {
		return activation.skipped
	}
	return w.knows("skipped-before")
}

// load reads the fact, and parks for as long as a person must look at it first. It returns a reason
// when a person decided that nothing shall be done.
func (w *invoicePaid) load() (dismissed string, err error) {
	for {
		var loaded activities.LoadInvoicePaidResult
		err := w.execute(w.ctx, attempt{
			name: "load", activity: invoices.LoadInvoicePaid,
			input: activities.LoadInvoicePaidInput{
				ReceiptID: w.in.ReceiptID, Provider: w.in.Provider, EventID: w.in.EventID, Mode: w.in.Mode, Reopen: w.reopen,
			},
		}, &loaded)
		if err != nil {
			return "", err
		}
		w.fact, w.onboarding, w.settings = loaded.Fact, loaded.Onboarding, loaded.Effects
		if loaded.Review == "" {
			return "", nil
		}
		if dismissed, err := w.review(loaded.Review); err != nil || dismissed != "" {
			return dismissed, err
		}
		w.reopen = w.reopen || loaded.Ended
	}
}

func (w *invoicePaid) activate() *step {
	s := &step{
		kind:     "activate-subscription",
		key:      w.key("activate-subscription", w.fact.Invoice),
		activity: subscriptions.ActivateSubscription,
		undo: func(done effect.Result) *step {
			return &step{
				kind:     "restore-subscription",
				key:      w.key("restore-subscription", w.fact.Invoice),
				activity: subscriptions.RestoreSubscription,
				input: func(c effect.Call) any {
					return activities.RestoreSubscriptionInput{Effect: c, Fact: w.fact, Activation: done.Value}
				},
				then: w.align,
			}
		},
	}
	s.input = func(c effect.Call) any {
		// A retry of what was refused is a person's word that the subscription may be reopened.
		return activities.ActivateSubscriptionInput{Effect: c, Fact: w.fact, Reopen: w.reopen || s.result.State == effect.Refused}
	}
	return s
}

// effects are independent of each other: what fails does not keep the others from being done.
func (w *invoicePaid) effects() []*step {
	steps := []*step{
		w.provision(),
		w.simple("finance-export", w.fact.Account+":"+w.fact.Invoice, finance.ExportToFinance,
			"reverse-finance-entry", finance.ReverseFinanceEntry),
		w.simple("receipt-email", w.fact.Invoice, email.SendReceiptEmail,
			"correction-notice", email.SendCorrectionNotice),
	}
	if w.onboarding {
		// One task a period, whichever invoice asks for it; but no invoice takes back another's.
		period := w.fact.PeriodStart.UTC().Format(time.DateOnly)
		object := w.fact.Account + ":" + period + ":" + w.fact.Invoice
		steps = append(steps, w.simple("onboarding-task", object, onboarding.CreateOnboardingTask,
			"cancel-onboarding-task", onboarding.CancelOnboardingTask))
	}
	return steps
}

// align is the step that brings the workspace to what the standing invoices give, where the restoration has
// found that it differs. Only then: the undo of the provisioning has mostly seen to it.
func (w *invoicePaid) align(restored effect.Result) *step {
	var found billing.Restoration
	if json.Unmarshal(restored.Value, &found) != nil || !found.WorkspaceDiffers {
		return nil
	}
	return &step{
		kind: "align-workspace", key: w.key("align-workspace", w.fact.Account+":"+w.fact.Invoice),
		activity: provisioning.AlignWorkspace,
		input:    func(c effect.Call) any { return activities.InvoiceEffectInput{Effect: c, Fact: w.fact} },
	}
}

func (w *invoicePaid) provision() *step {
	s := w.simple("provision-workspace", w.fact.Account+":"+w.fact.Invoice, provisioning.ProvisionWorkspace,
		"release-workspace", provisioning.ReleaseWorkspace)
	s.refusalUndoesAll = true
	return s
}

// simple is a step, and its undo, that need nothing but the fact.
func (w *invoicePaid) simple(kind, object string, do any, undoKind string, undo any) *step {
	input := func(c effect.Call) any { return activities.InvoiceEffectInput{Effect: c, Fact: w.fact} }
	return &step{
		kind: kind, key: w.key(kind, object), activity: do, input: input,
		undo: func(effect.Result) *step {
			return &step{kind: undoKind, key: w.key(undoKind, object), activity: undo, input: input}
		},
	}
}

// key names an effect of this fact: <kind>:<provider>:<mode>[:<connected account>]:<object>.
func (w *invoicePaid) key(kind, object string) string {
	return kind + ":" + w.fact.Scope() + ":" + object
}
