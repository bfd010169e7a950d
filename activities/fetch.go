package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/ledger"
)

// Objects fetches objects from the provider if events do not contain enough data.
type Objects struct {
	Effects  *effect.Runner
	Receipts Receipts
	Facts    *billing.Store
	// APIs are the clients by source. A source without a key has no entry.
	APIs   map[string]*stripe.Client
	Policy effect.Policy
	Now    func() time.Time

	// denied maps a source to the time at which Stripe last refused the source's key access to settlements.
	denied sync.Map
}

// api returns the client of a receipt's source. It is nil if the source has no key.
func (o *Objects) api(ctx context.Context, receiptID string) (api *stripe.Client, source string, err error) {
	held, err := o.Receipts.Get(ctx, receiptID)
	return o.APIs[held.Source], held.Source, effect.Infrastructure(err)
}

// Wanted identifies an object to fetch.
type Wanted struct {
	fact.Subject
	// Kind is the kind of facts to fetch: SubscriptionSeen, InvoiceSeen, PaymentSeen (the invoice of a payment intent)
	// or RefundSeen (the refunds of a charge).
	Kind   fact.Kind
	Object string
	// Tag is the type of the related object of a thin event. It replaces Kind.
	Tag string `json:",omitempty"`
	// List is set if the event contains only a part of a list. If the rest cannot be fetched within [listPatience],
	// the known part is used.
	List bool `json:",omitempty"`
	// Shown is the fact about a subscription in the event. The fetched state must not be older than this fact.
	Shown *fact.Fact `json:",omitempty"`
	// OfInvoice is set if Object is an invoice and its payments are wanted.
	OfInvoice bool `json:",omitempty"`
	// After is the time after which the object may be fetched. Zero means at once.
	After time.Time
}

// FetchedObject is the part of the provider's response that the ledger stores.
type FetchedObject struct{ Facts []fact.Fact }

// settled is the time between [Wanted].After and the request: clocks differ, and Stripe's API can be behind the events.
const settled = 2 * time.Second

// lag is how long FetchObject retries if Stripe returns 404, because Stripe's API can be behind the events.
const lag = 5 * time.Minute

// listPatience is how long a run waits for the rest of a list. After that, it executes the effects of the known part.
const listPatience = 30 * time.Second

// FetchObject fetches one object. The Value of the result is a [FetchedObject]. If the returned state is older than the
// known state, FetchObject retries.
//
// If Stripe still does not return the object after [lag], the effect is refused: the key may belong to another
// account or mode, which only a person can check. [Wanted.mayBeAbsent] lists the exceptions.
func (o *Objects) FetchObject(ctx context.Context, in EffectInput[Wanted]) (effect.Result, error) {
	if err := in.Effect.Check(in.For.Mode); err != nil {
		return effect.Result{}, err
	}
	policy := o.Policy
	if in.For.List { // do not wait while the circuit breaker is open
		policy.Gate = nil
	}
	return o.Effects.Do(ctx, in.Effect, policy, nil, func(ctx context.Context, a *effect.Attempt) (any, error) {
		api, source, err := o.api(ctx, in.Effect.ReceiptID)
		switch {
		case err != nil:
			return nil, err
		case api == nil && in.For.Tag != "":
			return nil, effect.Refuse("source %s has no api_key to fetch %s", source, in.For.Object)
		case api == nil:
			return nil, &effect.NotWanted{Reason: "source " + source + " has no api_key"}
		}
		if err := o.wait(ctx, in.For.After); err != nil {
			return nil, err
		}
		fetched, err := o.fetch(ctx, api, in.For, a)
		if class, _ := effect.Classify(err); in.For.List && err != nil &&
			(class != ledger.Transient || a.Trying > listPatience) {
			return nil, &effect.NotWanted{Reason: "the rest of the list could not be fetched, so the known part is " +
				"used: " + err.Error()}
		}
		return fetched, err
	})
}

// wait waits until the time [settled] after second.
func (o *Objects) wait(ctx context.Context, second time.Time) error {
	if second.IsZero() {
		return nil
	}
	select {
	case <-time.After(second.Add(settled).Sub(o.Now())):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *Objects) fetch(ctx context.Context, api *stripe.Client, w Wanted, a *effect.Attempt) (FetchedObject, error) {
	answers, err := w.ask(ctx, api)
	switch {
	case errors.Is(err, stripe.ErrNoPayment) && w.OfInvoice:
		return FetchedObject{}, &effect.NotWanted{Reason: "Stripe has no payment of " + w.Object}
	case errors.Is(err, stripe.ErrNoPayment):
		return FetchedObject{[]fact.Fact{w.noInvoice(o.Now())}}, nil
	case errors.Is(err, stripe.ErrNotFound) && w.mayBeAbsent():
		return FetchedObject{}, &effect.NotWanted{Reason: "Stripe has no " + w.Object}
	case errors.Is(err, stripe.ErrNotFound) && a.Trying < lag:
		return FetchedObject{}, &effect.Failure{Class: ledger.Transient,
			Err: fmt.Errorf("read %s: Stripe does not return it yet", w.Object)}
	case errors.Is(err, stripe.ErrNotFound):
		return FetchedObject{}, effect.Refuse("Stripe returns no %s for the source's api_key: check that the key "+
			"belongs to the account and mode of the event", w.Object)
	}
	if class, _ := effect.Classify(err); w.OfInvoice && err != nil && class != ledger.Transient {
		// The event contains everything else, so a missing permission must not block the entry.
		reason := "the payments of " + w.Object + " cannot be read: " + err.Error()
		return FetchedObject{}, &effect.NotWanted{Reason: reason}
	}
	if err != nil {
		return FetchedObject{}, err
	}
	var facts []fact.Fact
	for _, fetched := range answers {
		some, err := fetched.Facts(w.subject())
		if err != nil {
			return FetchedObject{}, effect.Fault("read %s as fetched from Stripe: %w", w.Object, err)
		}
		facts = append(facts, some...)
		if w.Tag != "" { // the event's body has no address
			for _, keep := range billing.AddressKept(fetched.Address(w.Subject)) {
				a.Also(keep)
			}
		}
	}
	switch {
	case len(facts) == 0 && w.Tag != "":
		return FetchedObject{}, nil
	case len(facts) == 0:
		return FetchedObject{}, effect.Fault("%s as fetched from Stripe contains no facts", w.Object)
	}
	return FetchedObject{facts}, o.caughtUp(ctx, w, facts[0])
}

// mayBeAbsent reports whether the run can continue without the object. It returns true if the object only refines known
// data: the order of a subscription's changes, or the payment of an invoice. It also returns true for an invoice,
// because Stripe deletes draft invoices.
func (w Wanted) mayBeAbsent() bool {
	if w.Tag != "" {
		return w.EventType == "invoice.deleted"
	}
	return w.Kind == fact.SubscriptionSeen || w.OfInvoice
}

func (w Wanted) ask(ctx context.Context, api *stripe.Client) ([]stripe.Fetched, error) {
	one := func(found stripe.Fetched, err error) ([]stripe.Fetched, error) { return []stripe.Fetched{found}, err }
	object := cmp.Or(w.Tag, "subscription")
	switch {
	case w.Kind == fact.PaymentSeen && w.OfInvoice:
		return api.PaymentsOf(ctx, w.Object, w.ProviderAccount)
	case w.Kind == fact.PaymentSeen:
		return one(api.InvoicePayment(ctx, w.Object, w.ProviderAccount))
	case w.Kind == fact.RefundSeen:
		return one(api.Refunds(ctx, w.Object, w.ProviderAccount))
	case w.Kind == fact.InvoiceSeen:
		object = "invoice"
	case w.Kind == fact.CheckoutSeen:
		object = "checkout.session"
	}
	found, err := api.Object(ctx, object, w.Object, w.ProviderAccount)
	return one(found.Fetched, err)
}

// subject returns the subject of the fetched facts. If the event itself has facts, the fetched facts get another event
// ID, so that both are stored. A thin event itself has no facts.
func (w Wanted) subject() fact.Subject {
	s := w.Subject
	if w.Tag != "" {
		return s
	}
	s.EventID, s.EventType = "fetched:"+w.EventID, "fetched"
	return s
}

// noInvoice returns a fact which states that a payment belongs to no invoice.
func (w Wanted) noInvoice(at time.Time) fact.Fact {
	f := fact.Fact{Subject: w.subject(), Kind: fact.PaymentSeen, Object: w.Object, Rank: fact.RankFetched,
		Origin: fact.FromFetch, Data: fact.Data{Payment: &fact.Payment{NoInvoice: true}}}
	f.OccurredAt = at.UTC().Truncate(time.Second)
	return f
}

// caughtUp returns an error if the fetched state is older than the known state.
func (o *Objects) caughtUp(ctx context.Context, w Wanted, answer fact.Fact) error {
	known, err := o.Facts.About(ctx, w.Subject, w.Object)
	if err != nil {
		return effect.Infrastructure(err)
	}
	if w.Shown != nil {
		known = append(known, *w.Shown)
	}
	if fact.Behind(answer, known) {
		return &effect.Failure{Class: ledger.Transient, RetryAfter: settled,
			Err: fmt.Errorf("read %s: Stripe returned a state that is older than the known state", w.Object)}
	}
	return nil
}
