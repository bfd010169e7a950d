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

// EntryKind is the kind of movement that an entry books. Amounts are positive or 0. Only a withdrawal of a dispute, and
// a correction of an entry that was too high, have a negative amount.
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
	// Payment is the ID of the booked payment of an invoice: a payment intent, or a charge without a payment intent. It
	// is "" if only the invoice has reported the amount. pawl uses Payment only to fetch the settlement. It does not
	// send Payment to the sink, because the order of events decides whether the payment is known at the time of the
	// booking.
	Payment string `json:"payment,omitempty"`
	Plan    string `json:"plan,omitempty"`
	// Amount and Tax are in minor units of Currency. Amount includes Tax.
	Amount   int64  `json:"amount"`
	Tax      int64  `json:"tax"`
	Currency string `json:"currency"`
	// Cash is the money that moved: [Entry.Net], set when the entry is sent.
	Cash int64 `json:"cash"`
	// Due is the amount due of an invoice. It differs from Amount if more or less was paid. Balance is the amount that
	// the customer's balance paid. It is negative if the customer owed an amount that was added to Due.
	Due     int64 `json:"amount_due,omitempty"`
	Balance int64 `json:"customer_balance,omitempty"`
	// Method is the way in which the money moved, e.g. [ByCharge]. It is "" if Kind implies it.
	Method string `json:"method,omitempty"`
	// Settlement is the movement on the provider's balance. It is nil if unknown.
	Settlement *fold.Settlement `json:"settlement,omitempty"`
	// SettlementUnknown is the reason why the requested settlement is unknown, e.g. [SettlementLate].
	SettlementUnknown string `json:"settlement_unknown,omitempty"`
	// PeriodStart and PeriodEnd bound the paid period. They are zero for a payment without a period.
	PeriodStart time.Time `json:"period_start,omitzero"`
	PeriodEnd   time.Time `json:"period_end,omitzero"`
	OccurredAt  time.Time `json:"occurred_at"`
	// Reverses is the key of the entry that this entry reverses. If it is "", the entry reverses the effect that it
	// compensates.
	Reverses string `json:"reverses,omitempty"`
	// Corrects is the key of the entry that a correction concerns.
	Corrects string `json:"corrects,omitempty"`
}

// These are the values of [Entry].How. Out-of-band money does not move on the provider's balance. The customer's
// balance is not cash.
const (
	ByCharge  = "charge"
	OutOfBand = "out_of_band"
	ByBalance = "balance"
	Unknown   = "unknown" // no event had reported the way before the booking
)

// Request returns the request that posts the entry, with its cash.
func (e Entry) Request() Request {
	e.Cash = e.Net()
	return Request{http.MethodPost, "/entries", map[string]string{"Pawl-Mode": e.Mode}, e}
}

// Net returns the incoming cash of the entry; outgoing cash is negative. It is 0 if only the customer's balance
// changed. It is also 0 for a reversal, because the money stays until a refund. The sum of an account's entries equals
// the movements on the provider's balance before fees, plus out-of-band payments.
func (e Entry) Net() int64 {
	switch {
	case e.Method == ByBalance || e.Kind == ReversalEntry:
		return 0
	case e.Kind == RefundEntry || e.Kind == CreditEntry:
		return -e.Amount
	}
	return e.Amount
}

func (e Entry) row(key, reference string) fold.Entry {
	return fold.Entry{
		EffectKey: key, Mode: e.Mode, Account: e.Account, ProviderAccount: e.ProviderAccount, Object: e.Object,
		Invoice: e.Invoice, Kind: string(e.Kind), Amount: e.Amount, Tax: e.Tax, Currency: e.Currency, Cash: e.Cash,
		Settlement: e.Settlement, SettlementUnknown: e.SettlementUnknown, Method: e.Method, OccurredAt: e.OccurredAt,
		Reference: reference,
	}
}

// Finance exports entries to the accounting system.
type Finance struct {
	Effects *effect.Runner
	// Facts reports which entries were booked and which are pending.
	Facts *billing.Store
	// Objects fetches settlements. If it is nil, no settlements are fetched. Settle is the maximum wait for a
	// settlement.
	Objects *Objects
	Settle  time.Duration
	// Sinks are the finance APIs by mode. If the mode has no API, the effects are skipped.
	Sinks map[string]Sink
}

// PostEntry books an entry. It first waits for the entries that must be booked before, and for the settlement, at most
// [Finance.Settle]. After the booking, it signals the runs that wait for this entry.
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
		// Signal after the commit, so that a run that starts to wait now reads the committed state. If the worker dies
		// here, the retry signals again.
		err = effect.Infrastructure(wakeNext(ctx, f.Effects.Ledger, []string{in.Effect.Key, in.Effect.Compensates}))
	}
	return result, err
}

func (f *Finance) post(ctx context.Context, in EffectInput[Entry]) (effect.Result, error) {
	sink, configured := f.Sinks[in.For.Mode]
	if !configured {
		return LeaveOut(ctx, f.Effects, in.Effect)
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
		a.Also(billing.RecordEntry(sent.row(in.Effect.Key, ref)))
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

// exact returns the entry to send. A reversal gets the account and the currency of the booked entry, because later
// facts may differ. inVain is the reason why there is nothing to reverse, or "".
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

// waits returns a result with state Waits if another entry must be booked first, and the zero result otherwise. It uses
// no slot of the sink and claims nothing. An entry that a person confirmed does not wait.
//
// After waits has recorded the wait, it checks again, because the other entry may have been booked before the record.
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

// These constants limit the delay between two checks of a waiting entry. The run also gets a signal when the other
// entry is booked, but a terminated run sends no signal. Each check adds events to the history, so the delay grows with
// the time waited.
const (
	leastWait = 5 * time.Second
	mostWait  = 10 * time.Minute
)
