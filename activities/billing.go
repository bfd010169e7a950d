package activities

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/money"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Billing parses billing events and stores their facts and the resulting state.
type Billing struct {
	Effects  *effect.Runner
	Receipts Receipts
	Facts    *billing.Store
	// Policy holds the rules to process facts until billing rules are active. Planning configures which effects
	// follow from a change of the billing state.
	Policy   fact.Policy
	Planning Planning
	// Sinks configures how effects are attempted, by sink.
	Sinks map[string]SinkSettings
	// Destinations relays events in addition to the effects of their flow.
	Destinations *Destinations
	// Fetches lists the sources with an API key to fetch objects from their provider.
	Fetches map[string]bool
	// ApplyFacts and ApplyDue call Announced after they have written events to the outbox, so that the publisher
	// sends the events at once.
	Announced func()

	// untested holds the API versions that noteVersion has logged.
	untested sync.Map
}

// Receipts reads receipts for activities.
type Receipts interface {
	Get(ctx context.Context, receiptID string) (receipt.Receipt, error)
	// Load returns a receipt with its body. Its Bytes are nil if the payload was deleted.
	Load(ctx context.Context, receiptID string) (receipt.Receipt, receipt.Body, error)
}

// Planning is the configuration that affects the effects of a change. Histories contain it with the facts, so that a
// replay uses the same values as the run.
type Planning struct {
	// Onboarding lists the plans with an onboarding task for new customers.
	Onboarding []string `json:",omitempty"`
	// BookZero is set if invoices that were paid with an amount of 0 are booked.
	BookZero bool `json:",omitempty"`
	// SellsOnce is set if any price grants its plan without a subscription. The flow then fetches the lines of a
	// checkout session.
	SellsOnce bool `json:",omitempty"`
	// WaitForName is how long the run of a new customer's event waits until another event reports the account. Zero
	// disables the wait.
	WaitForName time.Duration `json:",omitempty"`
	// CancelCompensates is set if a cancellation in Temporal compensates the effects of the run.
	CancelCompensates bool `json:",omitempty"`
}

// Onboards reports whether the plan's customers get an onboarding task.
func (p Planning) Onboards(plan string) bool { return slices.Contains(p.Onboarding, plan) }

// Reconciled is the type of a receipt with an object that a person fetched, for example a subscription. For refunds,
// disputes and credit notes, it is the prefix of the type.
const Reconciled = stripe.Reconciled

// LoadFactsInput names the receipt to read.
type LoadFactsInput struct {
	event.Ref
	// Due is set for a scheduled run. The facts of the event are already stored.
	Due bool `json:",omitempty"`
	// Fetched contains the facts of the object of a thin event.
	Fetched []fact.Fact `json:",omitempty"`
}

// LoadFactsResult contains the facts of an event, or the reason why there are no facts.
type LoadFactsResult struct {
	Facts []fact.Fact
	// Code and Reason, if set, explain why the event has no effects (if Ignored is set), or why it needs a review
	// first.
	Code    string `json:",omitempty"`
	Reason  string `json:",omitempty"`
	Ignored bool   `json:",omitempty"`
	// Paid is the money of an event that is ignored. It is nil if the event reports no payment.
	Paid *Paid `json:",omitempty"`
	// Asks is set if the run must open a task to link the event's connected account.
	Asks bool `json:",omitempty"`
	// Related is the object of a thin event, which the run must fetch.
	Related *Wanted `json:",omitempty"`
	// Unnamed is the ID of the customer if the account is unknown, or "".
	Unnamed string `json:",omitempty"`
	// Destinations and Undecided are as in [LoadRelayResult].
	Destinations []string `json:",omitempty"`
	Undecided    []string `json:",omitempty"`
	// Fetches is set if the event's source can fetch objects.
	Fetches bool `json:",omitempty"`
	// Withhold is set if the event occurred before effects began: it changes state and has no effects.
	Withhold bool `json:",omitempty"`
	Planning Planning
	// Sinks configures the attempts for each sink, and for each destination under "destinations:" and its name.
	Sinks map[string]SinkSettings `json:",omitempty"`
}

// Reason codes of events that are ignored or need a review.
const (
	CodeAccountNotMapped = "account_not_mapped"
	CodeBodyErased       = "body_erased"
	CodeUnreadable       = "unreadable_payload"
	// CodeBodyChanged is the reason code of a payload that was changed after it was received.
	CodeBodyChanged = "body_changed"
)

// LoadFacts parses the payload of the receipt and returns its facts. It changes nothing. If the event needs a review,
// the result contains the reason. An error means a failure of pawl's own infrastructure. If the payload was deleted,
// LoadFacts returns the stored facts.
func (b *Billing) LoadFacts(ctx context.Context, in LoadFactsInput) (LoadFactsResult, error) {
	held, body, err := b.Receipts.Load(ctx, in.ReceiptID)
	if err != nil {
		return LoadFactsResult{}, fmt.Errorf("load receipt %s: %w", in.ReceiptID, err)
	}
	if err := checkRef(in.Ref, held); err != nil {
		return LoadFactsResult{}, err
	}
	result := LoadFactsResult{Planning: b.Planning, Sinks: map[string]SinkSettings{}}
	result.Withhold = held.BeforeEffects && !in.Due
	maps.Copy(result.Sinks, b.Sinks)
	if in.Due || len(in.Fetched) > 0 {
		result.Unnamed, err = b.unnamed(ctx, in.Fetched)
		return result, err
	}
	b.noteVersion(ctx, held)
	result.Fetches = b.Fetches[held.Source]
	if err := b.relay(ctx, held, &result); err != nil {
		return LoadFactsResult{}, err
	}
	subject := fact.Subject{Provider: in.Provider, ProviderAccount: in.Account, Mode: in.Mode,
		EventID: in.EventID, EventType: in.Type, ReceiptID: in.ReceiptID}
	if in.Account != "" {
		// A connected account must not choose the account of its events, so only the configuration maps it.
		policy, err := b.Facts.ActiveRules(ctx, b.Policy)
		if err != nil {
			return LoadFactsResult{}, err
		}
		if policy.Accounts[fact.Connected{Mode: in.Mode, ID: in.Account}] == "" {
			result.Ignored, result.Code = true, CodeAccountNotMapped
			maps := len(policy.Accounts) > 0 || slices.Contains(b.Policy.Linked, in.Mode)
			result.Asks = maps && !policy.LeaveUnknown
			result.Reason = fmt.Sprintf("the event belongs to connected account %s, which no source of the mode maps to an account (sources.%s.accounts)", in.Account, held.Source)
			if !policy.LeaveUnknown {
				result.Paid = stripe.Paid(body.Bytes, subject)
			}
			return result, nil
		}
	}
	if body.Bytes == nil {
		return b.kept(ctx, in, result)
	}
	if hash := sha256.Sum256(body.Bytes); !bytes.Equal(hash[:], held.BodyHash) {
		result.Code, result.Reason = CodeBodyChanged,
			"the stored body differs from the received body: its hash does not match"
		return result, nil
	}
	if result.Fetches && result.thin(body.Bytes, subject, held.OccurredAt) {
		return result, nil
	}
	var review *stripe.ReviewError
	switch result.Facts, err = stripe.Read(body.Bytes, subject); {
	case errors.As(err, &review):
		result.Facts, result.Code, result.Reason, err = nil, review.Code, review.Reason, nil
	case err != nil:
		result.Facts, result.Code, result.Reason, err = nil, CodeUnreadable, err.Error(), nil
	default:
		result.Unnamed, err = b.unnamed(ctx, result.Facts)
	}
	return result, err
}

// relay adds the destinations of an event. pawl does not relay an object that it has fetched.
func (b *Billing) relay(ctx context.Context, held receipt.Receipt, result *LoadFactsResult) error {
	if stripe.IsReconciled(held.Type) {
		return nil
	}
	to, err := b.Destinations.destinationsOf(ctx, held, result.Sinks)
	result.Destinations, result.Undecided = to.To, to.Undecided
	return err
}

// noteVersion logs an API version that the parser was not tested with, once per process. Events with this version run
// as usual.
func (b *Billing) noteVersion(ctx context.Context, r receipt.Receipt) {
	if !stripe.IsVersion(r.APIVersion) || stripe.Tested(r.APIVersion) {
		return
	}
	if _, logged := b.untested.LoadOrStore(r.APIVersion, true); !logged {
		b.Effects.Log.WarnContext(ctx, "the parser was not tested with the API version of an event", "source", r.Source,
			"api_version", r.APIVersion, "event_id", r.EventID)
	}
}

// unnamed returns the ID of the customer if the run must wait until another event reports the account, or "".
func (b *Billing) unnamed(ctx context.Context, facts []fact.Fact) (customer string, err error) {
	if b.Planning.WaitForName > 0 && !b.Policy.NotOurs(facts) {
		customer, err = b.Facts.Unnamed(ctx, facts)
	}
	return customer, err
}

// thin sets Related for a thin event and reports whether the event is thin.
func (r *LoadFactsResult) thin(body []byte, s fact.Subject, created *time.Time) bool {
	tag, id, thin, err := stripe.Related(body)
	if review, ok := errors.AsType[*stripe.ReviewError](err); ok {
		r.Code, r.Reason = review.Code, review.Reason
	} else if thin {
		s.EventType = stripe.SnapshotType(s.EventType)
		if created != nil {
			s.OccurredAt = *created
		}
		r.Related = &Wanted{Subject: s, Tag: tag, Object: id}
	}
	return thin
}

// kept returns the stored facts of an event with a deleted payload.
func (b *Billing) kept(ctx context.Context, in LoadFactsInput, result LoadFactsResult) (LoadFactsResult, error) {
	facts, err := b.Facts.OfReceipt(ctx, in.ReceiptID)
	if err != nil {
		return result, err
	}
	if result.Facts = facts; len(facts) == 0 {
		result.Code, result.Reason = CodeBodyErased,
			"its payload was deleted, by retention.payloads or by pawl forget, and pawl has no facts of the event: reject it; pawl reconcile brings its account to the provider's state"
	}
	return result, nil
}

// Facts contains the facts of one event, one for each object.
type Facts struct {
	Facts []fact.Fact
	// Withhold is set for an event that occurred before effects began.
	Withhold bool `json:",omitempty"`
	// Asks is the result of [fact.Policy.Asks].
	Asks bool `json:",omitempty"`
}

// ApplyFacts stores facts and computes the states of their objects. It writes the facts, the states, the outbox events
// and the ledger row in one transaction, so facts are applied exactly once. The result's Value is a fold.Change.
func (b *Billing) ApplyFacts(ctx context.Context, in EffectInput[Facts]) (effect.Result, error) {
	for _, f := range in.For.Facts {
		if err := in.Effect.Check(f.Mode); err != nil {
			return effect.Result{}, err
		}
	}
	return b.apply(ctx, in.Effect, in.For, func(ctx context.Context, tx ledger.Tx) error {
		if err := keepAddress(ctx, tx, in.Effect, in.For.Facts); err != nil {
			return err
		}
		return b.askForCurrency(ctx, tx, in.Effect, in.For.Facts)
	})
}

// askForCurrency opens one task per unknown currency. pawl does not know the number of decimals of such a currency, so
// it books amounts in the provider's minor unit.
func (b *Billing) askForCurrency(ctx context.Context, tx ledger.Tx, call effect.Call, facts []fact.Fact) error {
	unknown := func(f fact.Fact) bool { return f.Currency() != "" && !money.Known(f.Currency()) }
	i := slices.IndexFunc(facts, unknown)
	if i < 0 {
		return nil
	}
	policy, err := billing.ActiveRules(ctx, tx, b.Policy)
	if err != nil || policy.LeaveUnknown {
		return err
	}
	code := facts[i].Currency()
	open := billing.OpenTask(billing.Task{
		Mode: call.Mode, Kind: billing.TaskCurrency, Object: code, EffectKey: call.Key,
		Title: "Check the amounts in " + code + ": pawl does not know its minor unit, and books the " +
			"provider's amounts unchanged",
	})
	_, err = tx.Exec(ctx, open.SQL, open.Args...)
	return err
}

// keepAddress stores the customer's address that the payload of the event contains.
func keepAddress(ctx context.Context, tx ledger.Tx, call effect.Call, facts []fact.Fact) error {
	if len(facts) > 0 && !slices.ContainsFunc(facts, func(f fact.Fact) bool {
		return f.Origin != fact.FromOperator &&
			(f.Kind == fact.InvoiceSeen || f.Kind == fact.CheckoutSeen || f.Kind == fact.Linked)
	}) {
		return nil
	}
	body, err := receipt.BodyIn(ctx, tx, call.ReceiptID)
	if err != nil || body == nil {
		return err
	}
	of := fact.Subject{Provider: call.Provider, ProviderAccount: call.Account, Mode: call.Mode,
		EventID: call.EventID, EventType: call.Type}
	return billing.KeepAddress(ctx, tx, stripe.ReadAddress(body, of))
}

// apply applies facts. If also is set, apply calls it in the same transaction.
func (b *Billing) apply(ctx context.Context, call effect.Call, of Facts,
	also func(context.Context, ledger.Tx) error) (effect.Result, error) {
	facts, policy := of.Facts, b.Policy
	policy.Silent, policy.Asks = of.Withhold, of.Asks
	var queue string
	if len(facts) > 0 { // the same lock order as in billing.Apply
		queue = fmt.Sprintf("customer %s (%s)", cmp.Or(facts[0].Customer, facts[0].Object), facts[0].Mode)
	}
	return b.inTx(ctx, call, queue, func(ctx context.Context, tx ledger.Tx) (any, error) {
		change, err := billing.Apply(ctx, tx, facts, policy, call.Key, time.Time{})
		if err == nil && also != nil {
			err = also(ctx, tx)
		}
		return change, err
	})
}

// inTx runs an effect in pawl's database and then publishes its events.
func (b *Billing) inTx(ctx context.Context, call effect.Call, queue string,
	fn func(context.Context, ledger.Tx) (any, error)) (effect.Result, error) {
	result, err := b.Effects.DoTx(ctx, call, queue, fn)
	if err == nil && result.State == effect.Done {
		b.Announced()
	}
	return result, err
}

// AccountDue identifies the due actions of an account. Its subject is the subject of the fact that caused them.
type AccountDue struct {
	fact.Subject
	Account string
	At      time.Time
}

// ApplyDue applies the due actions of an account in pawl's database. Each action is applied exactly once, because the
// ledger row is part of the same transaction. The result's Value is a fold.Change.
func (b *Billing) ApplyDue(ctx context.Context, in EffectInput[AccountDue]) (effect.Result, error) {
	of := in.For
	if err := in.Effect.Check(of.Mode); err != nil {
		return effect.Result{}, err
	}
	queue := fmt.Sprintf("account %s (%s)", of.Account, of.Mode)
	return b.inTx(ctx, in.Effect, queue, func(ctx context.Context, tx ledger.Tx) (any, error) {
		return billing.ApplyDue(ctx, tx, of.Subject, of.Account, of.At, b.Policy, in.Effect.Key)
	})
}
