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
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Billing reads what billing events say and keeps it: facts, and what they fold to.
type Billing struct {
	Effects  *effect.Runner
	Receipts Receipts
	Facts    *billing.Store
	// Policy says how facts are folded while no meaning is in force, Planning what follows from them.
	Policy   billing.Policy
	Planning Planning
	// Sinks says how effects are to be tried, by sink.
	Sinks map[string]SinkSettings
	// Consumers relays events beside what their flow does.
	Consumers *Consumers
	// Fetches lists the sources whose provider can be asked for objects.
	Fetches map[string]bool
	// Announced is called after an event has been written to the outbox, to publish it at once.
	Announced func()
}

// Receipts is what activities need of the receipts.
type Receipts interface {
	Get(ctx context.Context, receiptID string) (receipt.Receipt, error)
	// Load returns a receipt with its body, whose Bytes are nil when it is no longer held.
	Load(ctx context.Context, receiptID string) (receipt.Receipt, receipt.Body, error)
}

// Planning is what configuration decides about what follows from a change. It stands in histories with the facts, so
// that a replay sees what the run saw.
type Planning struct {
	// Onboarding lists the plans whose customers get an onboarding task.
	Onboarding []string `json:",omitempty"`
	// BookZero books paid invoices of 0 as well.
	BookZero bool `json:",omitempty"`
	// WaitForName is how long a new customer's event waits for one that names the account; zero for not at all.
	WaitForName time.Duration `json:",omitempty"`
	// CancelCompensates lets the cancellation of a run in Temporal take back its effects.
	CancelCompensates bool `json:",omitempty"`
}

// Onboards reports whether the plan's customers get an onboarding task.
func (p Planning) Onboards(plan string) bool { return slices.Contains(p.Onboarding, plan) }

// Reconciled is the type of a receipt that holds an object which a person had fetched; of money that has moved, the
// beginning of it.
const Reconciled = stripe.Reconciled

// LoadFactsInput names the receipt to read.
type LoadFactsInput struct {
	event.Ref
	// Due is set for what the clock does: the event has told all that it says.
	Due bool `json:",omitempty"`
	// Fetched are the facts of the object that a thin event is about.
	Fetched []billing.Fact `json:",omitempty"`
}

// LoadFactsResult is what an event says, or why it is left alone.
type LoadFactsResult struct {
	Facts []billing.Fact
	// Code and Reason, where set, say why a person must review the event first; or, with Ignored, why nothing is done.
	Code    string `json:",omitempty"`
	Reason  string `json:",omitempty"`
	Ignored bool   `json:",omitempty"`
	// Asks is set where a person is to be asked, once, which account of ours the event's connected account is.
	Asks bool `json:",omitempty"`
	// Related is the object that a thin event is about; its facts are those of the object as it is now.
	Related *Wanted `json:",omitempty"`
	// Unnamed is the customer whose account is not known yet, "" for none.
	Unnamed string `json:",omitempty"`
	// Consumers are those of the event's source.
	Consumers []string `json:",omitempty"`
	// Fetches is set where objects of the event's source can be asked for.
	Fetches  bool `json:",omitempty"`
	Planning Planning
	// Sinks says how to try the effects of each sink, and of each consumer as "consumers:" and its name.
	Sinks map[string]SinkSettings `json:",omitempty"`
}

// The codes of reasons to do nothing, or to ask first.
const (
	CodeAccountNotMapped = "account_not_mapped"
	CodeBodyErased       = "body_erased"
	CodeUnreadable       = "unreadable_payload"
	// CodeBodyChanged is the code of a body that was changed after it was received.
	CodeBodyChanged = "body_changed"
	// CodeLinesIncomplete is the code of a paid invoice whose event carries only its first lines, while the others
	// cannot be asked for.
	CodeLinesIncomplete = "lines_incomplete"
)

// LoadFacts reads the receipt's payload and returns its facts. It changes nothing. A question for a person is a
// result; an error is only trouble of our own. If the receipt's body is erased, LoadFacts returns the facts that were
// kept.
func (b *Billing) LoadFacts(ctx context.Context, in LoadFactsInput) (LoadFactsResult, error) {
	held, body, err := b.Receipts.Load(ctx, in.ReceiptID)
	if err != nil {
		return LoadFactsResult{}, fmt.Errorf("load receipt %s: %w", in.ReceiptID, err)
	}
	if err := checkRef(in.Ref, held); err != nil {
		return LoadFactsResult{}, err
	}
	result := LoadFactsResult{Planning: b.Planning, Sinks: map[string]SinkSettings{}}
	maps.Copy(result.Sinks, b.Sinks)
	if in.Due || len(in.Fetched) > 0 {
		result.Unnamed, err = b.unnamed(ctx, in.Fetched)
		return result, err
	}
	result.Fetches = b.Fetches[held.Source]
	if !stripe.IsReconciled(in.Type) { // which no provider has sent
		result.Consumers = b.Consumers.of(held, result.Sinks)
	}
	subject := billing.Subject{Provider: in.Provider, ProviderAccount: in.Account, Mode: in.Mode,
		EventID: in.EventID, EventType: in.Type, ReceiptID: in.ReceiptID}
	if in.Account != "" {
		// A connected account must not decide, by its own word, about an account of ours.
		policy, err := b.Facts.InForce(ctx, b.Policy)
		if err != nil {
			return LoadFactsResult{}, err
		}
		if policy.Accounts[billing.Connected{Mode: in.Mode, ID: in.Account}] == "" {
			result.Ignored, result.Code = true, CodeAccountNotMapped
			maps := len(policy.Accounts) > 0 || slices.Contains(b.Policy.Linked, in.Mode)
			result.Asks = maps && !policy.LeaveUnknown
			result.Reason = fmt.Sprintf("the event is of the connected account %s, which no source of the mode (sources.%s.accounts) maps to one of ours", in.Account, held.Source)
			return result, nil
		}
	}
	if body.Bytes == nil {
		return b.kept(ctx, in, result)
	}
	if hash := sha256.Sum256(body.Bytes); !bytes.Equal(hash[:], held.BodyHash) {
		result.Code, result.Reason = CodeBodyChanged,
			"the body that is held is not the one that was received: its hash is another"
		return result, nil
	}
	if result.Fetches && result.thin(body.Bytes, subject) {
		return result, nil
	}
	var review *stripe.ReviewError
	switch result.Facts, err = stripe.Read(body.Bytes, subject); {
	case errors.As(err, &review):
		result.Facts, result.Code, result.Reason, err = nil, review.Code, review.Reason, nil
	case err != nil:
		result.Facts, result.Code, result.Reason, err = nil, CodeUnreadable, err.Error(), nil
	case !result.Fetches && slices.ContainsFunc(result.Facts, billing.Fact.LacksLines):
		result.Code = CodeLinesIncomplete
		result.Reason = fmt.Sprintf("the event carries only the first of the invoice's lines, which do not tell for sure what was bought: give sources.%s an api_key, and retry", held.Source)
	default:
		result.Unnamed, err = b.unnamed(ctx, result.Facts)
	}
	return result, err
}

// unnamed returns the customer of facts that wait for an event which names its account, "" for none.
func (b *Billing) unnamed(ctx context.Context, facts []billing.Fact) (customer string, err error) {
	if b.Planning.WaitForName > 0 && !b.Policy.NotOurs(facts) {
		customer, err = b.Facts.Unnamed(ctx, facts)
	}
	return customer, err
}

// thin has the object asked for that a thin event is about, and reports whether the event is one.
func (r *LoadFactsResult) thin(body []byte, s billing.Subject) bool {
	tag, id, thin, err := stripe.Related(body)
	if review, ok := errors.AsType[*stripe.ReviewError](err); ok {
		r.Code, r.Reason = review.Code, review.Reason
	} else if thin {
		s.EventType = stripe.SnapshotType(s.EventType)
		r.Related = &Wanted{Subject: s, Tag: tag, Object: id}
	}
	return thin
}

// kept returns the facts that an event left before its body was erased.
func (b *Billing) kept(ctx context.Context, in LoadFactsInput, result LoadFactsResult) (LoadFactsResult, error) {
	facts, err := b.Facts.OfReceipt(ctx, in.ReceiptID)
	if err != nil {
		return result, err
	}
	if result.Facts = facts; len(facts) == 0 {
		result.Code, result.Reason = CodeBodyErased,
			"the receipt's body is no longer held, and no facts of it were kept"
	}
	return result, nil
}

// Facts are what one event says: one fact for each object that it speaks of.
type Facts struct{ Facts []billing.Fact }

// ApplyFacts appends facts, folds what they are about, and writes what that comes to: rows, outbox and ledger in one
// transaction, exactly once. The result's Value is a billing.Change.
func (b *Billing) ApplyFacts(ctx context.Context, in EffectInput[Facts]) (effect.Result, error) {
	for _, f := range in.For.Facts {
		if err := in.Effect.Check(f.Mode); err != nil {
			return effect.Result{}, err
		}
	}
	return b.apply(ctx, in.Effect, in.For.Facts, func(ctx context.Context, tx ledger.Tx) error {
		if err := keepAddress(ctx, tx, in.Effect, in.For.Facts); err != nil {
			return err
		}
		return b.askForCurrency(ctx, tx, in.Effect, in.For.Facts)
	})
}

// askForCurrency asks a person, once, about a currency that is not known: amounts of it are booked in the provider's
// minor unit, and nothing says which that is.
func (b *Billing) askForCurrency(ctx context.Context, tx ledger.Tx, call effect.Call, facts []billing.Fact) error {
	unknown := func(f billing.Fact) bool { return f.Currency() != "" && !stripe.IsCurrency(f.Currency()) }
	i := slices.IndexFunc(facts, unknown)
	if i < 0 {
		return nil
	}
	policy, err := billing.InForce(ctx, tx, b.Policy)
	if err != nil || policy.LeaveUnknown {
		return err
	}
	code := facts[i].Currency()
	return opening(billing.Task{
		Mode: call.Mode, Kind: billing.TaskCurrency, Object: code, EffectKey: call.Key,
		Title: "Check the amounts in " + code + ", booked in the provider's minor unit, which this version does not " +
			"know: finance must take them so",
	})(ctx, tx)
}

// keepAddress keeps how the customer is written to, as the body of the event tells it.
func keepAddress(ctx context.Context, tx ledger.Tx, call effect.Call, facts []billing.Fact) error {
	if len(facts) > 0 && !slices.ContainsFunc(facts, func(f billing.Fact) bool {
		return f.Kind == billing.InvoiceSeen || f.Kind == billing.CheckoutSeen || f.Kind == billing.Linked
	}) {
		return nil
	}
	body, err := receipt.BodyIn(ctx, tx, call.ReceiptID)
	if err != nil || body == nil {
		return err
	}
	of := billing.Subject{Provider: call.Provider, ProviderAccount: call.Account, Mode: call.Mode,
		EventID: call.EventID, EventType: call.Type}
	return billing.KeepAddress(ctx, tx, stripe.ReadAddress(body, of))
}

// apply applies facts; also, where it is set, is done in the same commit.
func (b *Billing) apply(ctx context.Context, call effect.Call, facts []billing.Fact,
	also func(context.Context, ledger.Tx) error) (effect.Result, error) {
	var queue string
	if len(facts) > 0 { // what billing.Apply locks first
		queue = fmt.Sprintf("customer %s (%s)", cmp.Or(facts[0].Customer, facts[0].Object), facts[0].Mode)
	}
	return b.inTx(ctx, call, queue, func(ctx context.Context, tx ledger.Tx) (any, error) {
		change, err := billing.Apply(ctx, tx, facts, b.Policy, call.Key, time.Time{})
		if err == nil && also != nil {
			err = also(ctx, tx)
		}
		return change, err
	})
}

// inTx runs an effect in our database, and has its news published at once.
func (b *Billing) inTx(ctx context.Context, call effect.Call, queue string,
	fn func(context.Context, ledger.Tx) (any, error)) (effect.Result, error) {
	result, err := b.Effects.DoTx(ctx, call, queue, fn)
	if err == nil && result.State == effect.Done {
		b.Announced()
	}
	return result, err
}

// AccountDue names an account and since when something is due for it. Its subject is that of the fact behind that.
type AccountDue struct {
	billing.Subject
	Account string
	At      time.Time
}

// ApplyDue applies an account's due steps to our own database: exactly once, since the ledger row is in the same
// transaction. The result's Value is a billing.Change.
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

// Withholding says whose grant is taken back, and what of it.
type Withholding struct {
	billing.Subject
	// Account is ours.
	Account string
	// Object is the subscription, or the one-off invoice or the session that was paid for.
	Object  string
	Prices  []billing.Bought
	Invoice string
	// Checkout is the session, "" for another object.
	Checkout string `json:",omitempty"`
	// Change is set where a change of the subscription was refused: the plan and the quantity that it has now.
	Change string `json:",omitempty"`
}

// WithholdingOf takes back the grants of a change.
func WithholdingOf(c billing.Change) Withholding {
	w := Withholding{Subject: c.Subject, Account: c.After.Access.Account}
	if o := c.After.Checkout; o != nil && o.Sells() {
		w.Object, w.Checkout, w.Prices = o.ID, o.ID, o.Prices
	}
	if i := c.After.Invoice; i != nil {
		w.Object, w.Invoice, w.Prices = i.Bought(), i.ID, i.Prices
	}
	if s := c.After.Subscription; s != nil {
		w.Object, w.Prices = s.ID, s.Given().Prices
	}
	return w
}

// WithholdingOfChange is the taking back of a change to a subscription that granted before.
func WithholdingOfChange(c billing.Change) Withholding {
	w := WithholdingOf(c)
	is := c.After.Subscription.Given()
	w.Change = fmt.Sprintf("%s:%d", is.Plan, is.Quantity)
	return w
}

// WithholdGrant takes back the grant of a subscription, or of an order, for as long as it is of the same prices and
// quantities. It appends a fact, and the account's access is folded anew. A task asks a person what becomes of the
// customer's money. The result's Value is a billing.Change.
func (b *Billing) WithholdGrant(ctx context.Context, in EffectInput[Withholding]) (effect.Result, error) {
	w := in.For
	if w.Object == "" { // there is nothing that was granted
		return b.apply(ctx, in.Effect, nil, nil)
	}
	if err := in.Effect.Check(w.Mode); err != nil {
		return effect.Result{}, err
	}
	task := billing.Task{
		Mode: w.Mode, Kind: TaskCorrection, Object: w.Object, Account: w.Account, EffectKey: in.Effect.Key,
		Title: fmt.Sprintf("%s of %s was taken back: refund it, or mend what refused it", w.Object, w.Account),
	}
	if w.Change == "" {
		return b.apply(ctx, in.Effect, w.facts(in.Effect.Compensates), opening(task))
	}
	task.Object += ":" + w.Change // one for each change that was refused, whichever event of it comes first
	task.Title = fmt.Sprintf("The change of %s of %s to %s was refused, and what was before stays: refund the difference, or mend what refused it", w.Object, w.Account, w.Change)
	return b.apply(ctx, in.Effect, w.facts(""), opening(task))
}

func opening(task billing.Task) func(context.Context, ledger.Tx) error {
	return func(ctx context.Context, tx ledger.Tx) error {
		open := billing.OpenTask(task)
		_, err := tx.Exec(ctx, open.SQL, open.Args...)
		return err
	}
}

// facts say that what an effect granted is taken back; none where nothing was granted.
func (w Withholding) facts(compensates string) []billing.Fact {
	if w.Object == "" {
		return nil
	}
	why := "taken back with " + compensates
	if w.Change != "" {
		why = "the change to " + w.Change + " was refused"
	}
	return []billing.Fact{{
		Subject: w.Subject, Kind: billing.Withheld, Object: w.Object, Rank: billing.RankChange,
		Origin: billing.FromEvent,
		Data: billing.Data{Decision: &billing.DecisionFact{By: "pawl", Why: why,
			Prices: w.Prices, Invoice: w.Invoice, Checkout: w.Checkout}},
	}}
}
