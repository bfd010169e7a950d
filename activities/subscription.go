package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Subscriptions changes the billing state in our own database.
type Subscriptions struct {
	Effects *effect.Runner
	Plans   Plans
	// Announced is called after an event has been written to the outbox, to publish it at once.
	Announced func()
}

// ActivateSubscriptionInput says what was paid for.
type ActivateSubscriptionInput struct {
	Effect effect.Call
	Fact   billing.InvoicePaid
	// Reopen lets an ended subscription be reopened: a person has reviewed it.
	Reopen bool
}

// ActivateSubscription marks the invoice as paid, the subscription as active and the plan's features
// as enabled, and announces invoice.paid; exactly once, since the ledger row is in the same
// transaction. The result's Value is a billing.Activation. A subscription that is held as ended is
// refused.
func (s *Subscriptions) ActivateSubscription(ctx context.Context, in ActivateSubscriptionInput) (effect.Result, error) {
	var done billing.Activation
	result, err := s.Effects.DoTx(ctx, in.Effect, func(ctx context.Context, tx ledger.Tx) (any, error) {
		announcement, err := announce(in.Fact)
		if err != nil {
			return nil, err
		}
		done, err = billing.ActivateSubscription(ctx, tx, in.Fact, s.features(in.Fact.Plan), in.Reopen, in.Effect.Key, announcement)
		if errors.Is(err, billing.ErrEnded) {
			return nil, effect.Refuse("subscription_ended: %s is held as ended; it is not provisioned again without review", in.Fact.Subscription)
		}
		return done, err
	})
	if err == nil && result.State == effect.Done {
		s.Announced()
		if done.Superseded {
			s.Effects.Stale(ctx, in.Effect)
		}
	}
	return result, err
}

// RestoreSubscriptionInput says what to undo.
type RestoreSubscriptionInput struct {
	Effect effect.Call
	Fact   billing.InvoicePaid
	// Activation is the Value of the activation's result.
	Activation json.RawMessage
}

// RestoreSubscription undoes an activation: the subscription goes back to what the other paid invoices make
// of it, and the features that none of them gives are withdrawn. What newer invoices wrote since stays. The
// result's Value is a billing.Restoration.
func (s *Subscriptions) RestoreSubscription(ctx context.Context, in RestoreSubscriptionInput) (effect.Result, error) {
	var done billing.Activation
	if err := json.Unmarshal(in.Activation, &done); err != nil {
		return effect.Result{}, fmt.Errorf("read what %s had changed: %w", in.Effect.Compensates, err)
	}
	result, err := s.Effects.DoTx(ctx, in.Effect, func(ctx context.Context, tx ledger.Tx) (any, error) {
		announcement, err := announce(in.Fact)
		if err != nil {
			return nil, err
		}
		return billing.RestoreSubscription(ctx, tx, in.Fact, done, s.features, in.Effect.Key, announcement)
	})
	if err == nil && result.State == effect.Done {
		s.Announced()
	}
	return result, err
}

func (s *Subscriptions) features(plan string) []string { return s.Plans.Features[plan] }

// invoiceEvent is the data of the internal events invoice.paid and invoice.paid.compensated.
type invoiceEvent struct {
	Account      string `json:"account"`
	Invoice      string `json:"invoice"`
	Subscription string `json:"subscription,omitempty"`
	Plan         string `json:"plan"`
	Amount       int64  `json:"amount"`
	Currency     string `json:"currency"`
	PeriodStart  string `json:"period_start"`
	PeriodEnd    string `json:"period_end"`
	Mode         string `json:"mode"`
	SourceEvent  string `json:"source_event"`
}

func announce(f billing.InvoicePaid) (json.RawMessage, error) {
	return json.Marshal(invoiceEvent{
		Account: f.Account, Invoice: f.Invoice, Subscription: f.Subscription, Plan: f.Plan,
		Amount: f.Amount, Currency: f.Currency, PeriodStart: timestamp(f.PeriodStart), PeriodEnd: timestamp(f.PeriodEnd),
		Mode: f.Mode, SourceEvent: f.EventID,
	})
}
