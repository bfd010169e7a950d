package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// Finance exports entries to the accounting system: POST {base}/entries.
type Finance struct {
	Effects *effect.Runner
	Sink    Sink
}

// entry is what finance gets. Amount is in minor units; a reversal carries the same amount and says so
// by its type, so that no sign can be read two ways.
type entry struct {
	Type      string `json:"type"`
	Account   string `json:"account"`
	Invoice   string `json:"invoice"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	Plan      string `json:"plan"`
	PaidAt    string `json:"paid_at"`
	Mode      string `json:"mode"`
	Reverses  string `json:"reverses,omitempty"`
	SourceRef string `json:"source_event"`
}

// Kinds of finance entries.
const (
	paymentEntry  = "payment"
	reversalEntry = "reversal"
)

// ExportToFinance books the payment.
func (f *Finance) ExportToFinance(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	return f.book(ctx, in, paymentEntry)
}

// ReverseFinanceEntry books the reversal of a payment that was undone.
func (f *Finance) ReverseFinanceEntry(ctx context.Context, in InvoiceEffectInput) (effect.Result, error) {
	return f.book(ctx, in, reversalEntry)
}

func (f *Finance) book(ctx context.Context, in InvoiceEffectInput, kind string) (effect.Result, error) {
	fact := in.Fact
	body, err := json.Marshal(entry{
		Type: kind, Account: fact.Account, Invoice: fact.Invoice, Amount: fact.Amount, Currency: fact.Currency,
		Plan: fact.Plan, PaidAt: timestamp(fact.OccurredAt), Mode: fact.Mode, Reverses: in.Effect.Compensates, SourceRef: fact.EventID,
	})
	if err != nil {
		return effect.Result{}, fmt.Errorf("encode finance entry of %s: %w", fact.Invoice, err)
	}
	return f.Effects.Do(ctx, in.Effect, f.Sink.Policy, body, func(ctx context.Context, a *effect.Attempt) (any, error) {
		answer, err := f.Sink.send(ctx, http.MethodPost, "/entries", a)
		if err != nil {
			return nil, err
		}
		ref := reference(answer)
		a.Also(billing.RecordFinanceEntry(fact, kind, ref, in.Effect.Key))
		return map[string]string{"reference": ref}, nil
	})
}
