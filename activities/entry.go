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
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
)

// EntryKind is the kind of movement that an entry books. Amounts are positive or 0, except for a withdrawal of a
// dispute and a correction of an entry that was too high.
type EntryKind string

// The kinds of entries.
const (
	PaymentEntry        EntryKind = "payment"
	ReversalEntry       EntryKind = "reversal" // reverses the sale of a payment; the cash stays until a refund
	RefundEntry         EntryKind = "refund"
	RefundReversalEntry EntryKind = "refund_reversal" // a refund that failed after its success
	CreditEntry         EntryKind = "credit"
	CreditReversalEntry EntryKind = "credit_reversal"
	DisputeEntry        EntryKind = "dispute"
	CorrectionEntry     EntryKind = "correction" // corrects an entry that was parsed or mapped wrongly
)

// Entry is a finance entry: the body of POST {base}/entries.
type Entry struct {
	Kind EntryKind `json:"kind"`
	Mode string    `json:"mode"`
	// Account is the account at the time of the booking. It does not change if the customer is linked to another
	// account.
	Account string `json:"account"`
	// ProviderAccount is the connected account that received or paid the money, or "" for the provider's own account.
	ProviderAccount string `json:"provider_account,omitempty"`
	// Object is the ID of an invoice, a refund, a credit note, or a balance transaction of a dispute.
	Object       string `json:"object"`
	Invoice      string `json:"invoice,omitempty"`
	Subscription string `json:"subscription,omitempty"`
	// Payment is the booked payment of an invoice: a payment intent, or a charge without one. It is "" if only the
	// invoice has reported the amount. It selects the settlement and is not sent, because the order of delivery decides
	// whether it is known.
	Payment string `json:"payment,omitempty"`
	Plan    string `json:"plan,omitempty"`
	// Amount and Tax are in minor units of Currency. Amount includes Tax.
	Amount   int64  `json:"amount"`
	Tax      int64  `json:"tax"`
	Currency string `json:"currency"`
	// Cash is the money that moved: [Entry.Net], set when the entry is sent.
	Cash int64 `json:"cash"`
	// Due is the amount due of an invoice. It differs from Amount if more or less was paid. Balance is the part that
	// the customer's balance paid; it is negative if the invoice transferred an amount from the balance to Due.
	Due     int64 `json:"due,omitempty"`
	Balance int64 `json:"balance,omitempty"`
	// How is the way the money moved, e.g. [ByCharge], or "" if Kind implies it.
	How string `json:"how,omitempty"`
	// Settlement is the movement on the provider's balance. It is nil if unknown.
	Settlement *fold.Settlement `json:"settlement,omitempty"`
	// SettlementUnknown is the reason why the requested settlement is unknown, e.g. [SettlementLate].
	SettlementUnknown string `json:"settlement_unknown,omitempty"`
	// PeriodStart and PeriodEnd bound the paid period. They are zero for a payment without a period.
	PeriodStart time.Time `json:"period_start,omitzero"`
	PeriodEnd   time.Time `json:"period_end,omitzero"`
	OccurredAt  time.Time `json:"occurred_at"`
	// Reverses is the key of the entry that this one reverses. If it is "", the key of the compensated effect is
	// used.
	Reverses string `json:"reverses,omitempty"`
	// Corrects is the key of the entry that a correction concerns.
	Corrects string `json:"corrects,omitempty"`
}

// Ways in which money moves. Out-of-band money is not on the provider's balance, and the customer's balance is not
// cash.
const (
	ByCharge  = "charge"
	OutOfBand = "out_of_band"
	ByBalance = "balance"
	Unknown   = "unknown" // no event had reported it before the booking
)

// Request returns the request that posts the entry, with its cash.
func (e Entry) Request() Request {
	e.Cash = e.Net()
	return Request{http.MethodPost, "/entries", map[string]string{"Pawl-Mode": e.Mode}, e}
}

// Net returns the cash that the entry brings in, negative for outgoing cash. It is 0 if only the customer's balance
// moved, and for a reversal, because the money stays until a refund. The sum over an account's entries equals the
// movements on the provider's balance before fees, plus out-of-band payments.
func (e Entry) Net() int64 {
	switch {
	case e.How == ByBalance || e.Kind == ReversalEntry:
		return 0
	case e.Kind == RefundEntry || e.Kind == CreditEntry:
		return -e.Amount
	}
	return e.Amount
}

// Finance exports entries to the accounting system.
type Finance struct {
	Effects *effect.Runner
	// Facts reports which entries were booked and which are pending.
	Facts *billing.Store
	// Objects fetches settlements; nil disables that. Settle is the maximum wait for a settlement.
	Objects *Objects
	Settle  time.Duration
	// Sinks are the finance APIs by mode. Without an API for the mode, the effects are skipped.
	Sinks map[string]Sink
}

// PostEntry books an entry after the entries that must come first, and after its settlement is known or
// [Finance.Settle] has passed. It then wakes runs that wait for this entry.
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
		// Wake after the commit: a run that starts to wait now reads the committed state. If the worker dies here,
		// the retry wakes again.
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
	entry.Cash, entry.Payment = entry.Net(), ""
	body, err := json.Marshal(entry)
	if err != nil {
		return effect.Result{}, fmt.Errorf("encode entry of %s: %w", entry.Object, err)
	}
	booked := func(a *effect.Attempt, ref string) any {
		sent := entry
		if len(a.Request) > 0 { // an earlier attempt may have sent a different entry
			sent = Entry{}
			_ = json.Unmarshal(a.Request, &sent) // our own encoding
		}
		a.Also(billing.RecordEntry(fold.Entry{
			EffectKey: in.Effect.Key, Mode: sent.Mode, Account: sent.Account, ProviderAccount: sent.ProviderAccount,
			Object: sent.Object, Invoice: sent.Invoice, Kind: string(sent.Kind), Amount: sent.Amount, Tax: sent.Tax,
			Currency: sent.Currency, Cash: sent.Cash,
			Settlement: sent.Settlement, SettlementUnknown: sent.SettlementUnknown,
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

// exact returns the entry as it is sent. An entry that reverses another uses the account and currency of the booked
// entry, because later facts may differ. inVain is the reason why there is nothing to reverse, or "".
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
			inVain = entry.Reverses + " was skipped: there is nothing to reverse"
		}
		return entry, inVain, err
	}
	if err != nil {
		return entry, "", err
	}
	entry.Account, entry.Currency, entry.Tax = of.Account, of.Currency, fold.TaxOf(entry.Amount, of.Amount, of.Tax)
	entry.Settlement = nil
	entry.Amount = min(entry.Amount, of.Amount)
	if entry.Kind != ReversalEntry && entry.Amount == of.Amount { // the whole movement is reversed
		entry.Settlement, entry.SettlementUnknown = of.Settlement.Reversed(), of.SettlementUnknown
	}
	return entry, "", nil
}

// waits returns a waiting result if another entry must be booked first, and the zero result otherwise. It takes no
// place at the sink and claims nothing. An entry that a person confirmed does not wait.
//
// It checks again after it has recorded the wait, because the first entry may be settled between the two.
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

// Limits of the wait between two checks. The run is woken if the first entry is settled, or if the run of that entry
// ends. A run that was terminated in Temporal sends no signal, so the entry also polls. Each poll adds events to
// the history, so the interval grows with the time waited.
const (
	leastWait = 5 * time.Second
	mostWait  = 10 * time.Minute
)
