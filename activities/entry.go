package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
)

// EntryKind says what an entry books, and so which way the money went: amounts are not negative, but for those of a
// dispute that were withdrawn, and for a correction of too high an entry.
type EntryKind string

// The kinds of entries.
const (
	PaymentEntry        EntryKind = "payment"
	ReversalEntry       EntryKind = "reversal" // takes back what a payment was booked for; the cash stays
	RefundEntry         EntryKind = "refund"
	RefundReversalEntry EntryKind = "refund_reversal" // a refund that failed after all
	CreditEntry         EntryKind = "credit"
	CreditReversalEntry EntryKind = "credit_reversal"
	DisputeEntry        EntryKind = "dispute"
	CorrectionEntry     EntryKind = "correction" // of an entry that was read, or mapped, wrongly
)

// Entry is what finance books: the body of POST {base}/entries.
type Entry struct {
	Kind EntryKind `json:"kind"`
	Mode string    `json:"mode"`
	// Account is the one that it is booked under; it stays where it was booked.
	Account string `json:"account"`
	// ProviderAccount is the connected account that the money moved on, "" for the provider's own.
	ProviderAccount string `json:"provider_account,omitempty"`
	// Object is what the entry is about: an invoice, a refund, a credit note, a balance transaction of a dispute.
	Object       string `json:"object"`
	Invoice      string `json:"invoice,omitempty"`
	Subscription string `json:"subscription,omitempty"`
	Plan         string `json:"plan,omitempty"`
	// Amount and Tax, which is a part of it, are in minor units of Currency.
	Amount   int64  `json:"amount"`
	Tax      int64  `json:"tax"`
	Currency string `json:"currency"`
	// Due is what was to be paid of an invoice: more or less than Amount where more or less of it was paid. Balance is
	// what the customer's balance has paid beside it; negative for what it has added to Due.
	Due     int64 `json:"due,omitempty"`
	Balance int64 `json:"balance,omitempty"`
	// How says how the money moved: [ByCharge] and so on, "" where the kind says it.
	How string `json:"how,omitempty"`
	// Settlement is how the money moved on the provider's balance, nil where nothing has told.
	Settlement *billing.Settlement `json:"settlement,omitempty"`
	// SettlementUnknown says why it is not known, though it was asked for: [SettlementLate] and so on.
	SettlementUnknown string `json:"settlement_unknown,omitempty"`
	// PeriodStart and PeriodEnd bound the paid period, zero for a payment of none.
	PeriodStart time.Time `json:"period_start,omitzero"`
	PeriodEnd   time.Time `json:"period_end,omitzero"`
	OccurredAt  time.Time `json:"occurred_at"`
	// Reverses is the key of the entry that this one takes back; "" stands for the key that the effect undoes.
	Reverses string `json:"reverses,omitempty"`
	// Corrects is the key of the entry that a correction is about.
	Corrects string `json:"corrects,omitempty"`
}

// How money moved. What moved out of band is not on the provider's balance, and what moved on the customer's balance is
// no cash.
const (
	ByCharge  = "charge"
	OutOfBand = "out_of_band"
	ByBalance = "balance"
	Unknown   = "unknown" // nothing has told, until it was booked
)

// Request is how the entry is sent.
func (e Entry) Request() Request {
	return Request{http.MethodPost, "/entries", map[string]string{"Pawl-Mode": e.Mode}, e}
}

// Net is the cash that the entry brings in, negative for what it takes away: 0 for what only moves the customer's
// balance.
func (e Entry) Net() int64 {
	if e.How == ByBalance {
		return 0
	}
	switch e.Kind {
	case ReversalEntry, RefundEntry, CreditEntry:
		return -e.Amount
	}
	return e.Amount
}

// Finance exports entries to the accounting system.
type Finance struct {
	Effects *effect.Runner
	// Facts knows which entries were booked, and which are still to be.
	Facts *billing.Store
	// Objects are asked how money has settled, nil for not at all. Settle is how long an entry waits for that.
	Objects *Objects
	Settle  time.Duration
	// Sinks are the finance APIs by mode. A mode without one has its effects left out.
	Sinks map[string]Sink
}

// PostEntry books an entry, once those that it comes after are settled, and it is known how its money has settled, or
// the time for that is over. A run that waits for it goes on then.
func (f *Finance) PostEntry(ctx context.Context, in EffectInput[Entry]) (effect.Result, error) {
	if err := in.Effect.Check(in.For.Mode); err != nil {
		return effect.Result{}, err
	}
	result, err := f.waits(ctx, in.Effect)
	if err == nil && result.State == "" {
		result, err = f.settle(ctx, &in)
	}
	if err == nil && result.State == "" {
		result, err = f.post(ctx, in)
	}
	if err == nil && result.State.Settled() {
		// After the commit: a run that begins to wait now reads it. A worker that dies here does this again.
		err = effect.Infrastructure(wakeNext(ctx, f.Effects.Ledger, []string{in.Effect.Key, in.Effect.Compensates}))
	}
	return result, err
}

func (f *Finance) post(ctx context.Context, in EffectInput[Entry]) (effect.Result, error) {
	sink, configured := f.Sinks[in.For.Mode]
	if !configured {
		return leaveOut(ctx, f.Effects, in.Effect)
	}
	entry, inVain, err := f.exact(ctx, in)
	if err != nil {
		return effect.Result{}, effect.Infrastructure(err)
	}
	body, err := json.Marshal(entry)
	if err != nil {
		return effect.Result{}, fmt.Errorf("encode entry of %s: %w", entry.Object, err)
	}
	booked := func(a *effect.Attempt, ref string) any {
		sent := entry
		if len(a.Request) > 0 { // an earlier attempt may have known less
			sent = Entry{}
			_ = json.Unmarshal(a.Request, &sent) // our own encoding
		}
		a.Also(billing.RecordEntry(billing.Entry{
			EffectKey: in.Effect.Key, Mode: sent.Mode, Account: sent.Account, ProviderAccount: sent.ProviderAccount,
			Object: sent.Object, Invoice: sent.Invoice, Kind: string(sent.Kind), Amount: sent.Amount, Tax: sent.Tax,
			Currency: sent.Currency, Settlement: sent.Settlement, SettlementUnknown: sent.SettlementUnknown,
			Reference: ref,
		}))
		return map[string]string{"reference": ref}
	}
	policy := sink.Policy
	policy.About, policy.ByHand = entry.Mode+":"+entry.Account, booked
	return f.Effects.Do(ctx, in.Effect, policy, body, func(ctx context.Context, a *effect.Attempt) (any, error) {
		if inVain != "" {
			return nil, &effect.NotWanted{Reason: inVain}
		}
		answer, err := sink.send(ctx, entry.Request(), a)
		if err != nil {
			return nil, err
		}
		return booked(a, reference(answer)), nil
	})
}

// exact returns the entry as it is sent. One that takes back another takes back what that has booked, under its
// account: facts that have come since may tell more of it. inVain says why there is nothing to take back, "" if there
// is something.
func (f *Finance) exact(ctx context.Context, in EffectInput[Entry]) (entry Entry, inVain string, err error) {
	entry = in.For
	entry.Reverses = cmp.Or(entry.Reverses, in.Effect.Compensates)
	entry.PeriodStart, entry.PeriodEnd, entry.OccurredAt = entry.PeriodStart.UTC(), entry.PeriodEnd.UTC(),
		entry.OccurredAt.UTC()
	if entry.Reverses == "" {
		return entry, "", nil
	}
	of, err := f.Facts.Booked(ctx, entry.Reverses)
	if of == nil && err == nil {
		found, err := f.Effects.Ledger.Read(ctx, []string{entry.Reverses})
		if found[entry.Reverses].State == ledger.Skipped {
			inVain = entry.Reverses + " was skipped: there is nothing to take back"
		}
		return entry, inVain, err
	}
	if err != nil {
		return entry, "", err
	}
	entry.Account, entry.Currency, entry.Tax = of.Account, of.Currency, billing.TaxOf(entry.Amount, of.Amount, of.Tax)
	entry.Settlement = nil
	if entry.Amount = min(entry.Amount, of.Amount); entry.Amount == of.Amount { // else it takes back a part
		entry.Settlement, entry.SettlementUnknown = of.Settlement.Reversed(), of.SettlementUnknown
	}
	return entry, "", nil
}

// waits returns the result of an entry that comes after another one, as long as that is to be booked; the zero result
// for any other. It takes no place at the sink, and claims nothing. An entry that a person says has happened does not
// wait.
//
// It reads once more after it has said that the run waits, since the first may be settled between the two.
func (f *Finance) waits(ctx context.Context, c effect.Call) (effect.Result, error) {
	if len(c.After) == 0 || c.ByHand != nil {
		return effect.Result{}, nil
	}
	first, err := f.Facts.FirstToBook(ctx, c.ReceiptID, c.After)
	var waited time.Duration
	if err == nil && first != "" {
		run := activity.GetInfo(ctx).WorkflowExecution.ID
		if waited, err = f.Effects.Ledger.Wait(ctx, c.Key, run, first); err == nil {
			first, err = f.Facts.FirstToBook(ctx, c.ReceiptID, c.After)
		}
	}
	if err != nil || first == "" {
		return effect.Result{}, effect.Infrastructure(err)
	}
	f.Effects.Waits(ctx, c, "", first, effect.NotFirst)
	return effect.Result{State: effect.Waits, First: first, Reason: waitsFor + first,
		Wait: min(max(waited/4, leastWait), mostWait)}, nil
}

const waitsFor = "waits for "

// An entry looks again by itself after a while. It is told when the first is settled, and when the run of that ends
// otherwise; nobody tells it only of a run that was ended in Temporal. Each look stands in the run's history: the
// longer it has waited, the seldomer.
const (
	leastWait = 5 * time.Second
	mostWait  = 10 * time.Minute
)
