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
	"github.com/pawlhq/pawl/schema/ledger"
)

// Objects asks the provider for objects that events do not tell for sure.
type Objects struct {
	Effects  *effect.Runner
	Receipts Receipts
	Facts    *billing.Store
	// APIs are the clients by source; a source without a key has none.
	APIs   map[string]*stripe.Client
	Policy effect.Policy
	Now    func() time.Time

	// denied says by source when its key was last refused how money has settled.
	denied sync.Map
}

// api returns the client of a receipt's source, nil where that has no key.
func (o *Objects) api(ctx context.Context, receiptID string) (api *stripe.Client, source string, err error) {
	held, err := o.Receipts.Get(ctx, receiptID)
	return o.APIs[held.Source], held.Source, effect.Infrastructure(err)
}

// Wanted is an object that is asked for.
type Wanted struct {
	billing.Subject
	// Kind is what shall be known: SubscriptionSeen, InvoiceSeen, PaymentSeen, which is the invoice of a payment
	// intent, or RefundSeen, which are the refunds of a charge.
	Kind   billing.Kind
	Object string
	// Tag is what a thin event calls the object that it is about, in the place of a kind.
	Tag string `json:",omitempty"`
	// OfInvoice is set if Object is an invoice, and its payment is asked for.
	OfInvoice bool `json:",omitempty"`
	// After is a second that shall be over when it is asked for; zero where any time will do.
	After time.Time
}

// FetchedObject is what the ledger keeps of an answer.
type FetchedObject struct{ Facts []billing.Fact }

// settled is how long after a second its last state is asked for: clocks differ, and a copy of the provider's data
// needs its time to catch up.
const settled = 2 * time.Second

// FetchObject asks for one object. The result's Value is a [FetchedObject]. One that the provider does not have is left
// out; but an invoice whose event we hold is there, and a key that does not see it is the wrong one. An answer that is
// older than a known state is asked for again, like one that did not come.
func (o *Objects) FetchObject(ctx context.Context, in EffectInput[Wanted]) (effect.Result, error) {
	if err := in.Effect.Check(in.For.Mode); err != nil {
		return effect.Result{}, err
	}
	return o.Effects.Do(ctx, in.Effect, o.Policy, nil, func(ctx context.Context, a *effect.Attempt) (any, error) {
		api, source, err := o.api(ctx, in.Effect.ReceiptID)
		if err != nil {
			return nil, err
		}
		if api == nil {
			return nil, &effect.NotWanted{Reason: "source " + source + " has no api_key"}
		}
		if err := o.wait(ctx, in.For.After); err != nil {
			return nil, err
		}
		return o.fetch(ctx, api, in.For, a)
	})
}

// wait waits until the second is over for good.
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
	fetched, err := w.ask(ctx, api)
	switch {
	case errors.Is(err, stripe.ErrNotFound) && w.Kind == billing.InvoiceSeen:
		return FetchedObject{}, effect.Fault("Stripe shows no %s to the key of the source: is it of the same account and mode?", w.Object)
	case errors.Is(err, stripe.ErrNotFound) && w.Kind == billing.PaymentSeen && !w.OfInvoice:
		return FetchedObject{[]billing.Fact{w.noInvoice(o.Now())}}, nil
	case errors.Is(err, stripe.ErrNotFound) && w.OfInvoice:
		return FetchedObject{}, &effect.NotWanted{Reason: "Stripe shows no payment of " + w.Object}
	case errors.Is(err, stripe.ErrNotFound):
		return FetchedObject{}, &effect.NotWanted{Reason: "Stripe has no " + w.Object}
	}
	if class, _ := effect.Classify(err); w.OfInvoice && err != nil && class != ledger.Transient {
		// Everything else is known: that a key may not read this holds nothing back.
		return FetchedObject{}, &effect.NotWanted{Reason: "what " + w.Object + " was paid by cannot be read: " + err.Error()}
	}
	if err != nil {
		return FetchedObject{}, err
	}
	facts, err := fetched.Facts(w.subject())
	if err != nil {
		return FetchedObject{}, effect.Fault("%s as Stripe shows it: %w", w.Object, err)
	}
	if w.Tag != "" { // the event's body has no address
		for _, keep := range billing.AddressKept(fetched.Address(w.Subject)) {
			a.Also(keep)
		}
	}
	switch {
	case len(facts) == 0 && w.Tag != "":
		return FetchedObject{}, &effect.NotWanted{Reason: w.Object + " as Stripe shows it tells nothing"}
	case len(facts) == 0:
		return FetchedObject{}, effect.Fault("%s as Stripe shows it tells nothing", w.Object)
	case facts[0].Invoice != nil && facts[0].Invoice.Partial:
		return FetchedObject{}, effect.Fault("%s has more lines than can be read", w.Object)
	}
	return FetchedObject{facts}, o.caughtUp(ctx, w, facts[0])
}

func (w Wanted) ask(ctx context.Context, api *stripe.Client) (stripe.Fetched, error) {
	object := cmp.Or(w.Tag, "subscription")
	switch {
	case w.Kind == billing.PaymentSeen && w.OfInvoice:
		return api.PaymentOf(ctx, w.Object, w.ProviderAccount)
	case w.Kind == billing.PaymentSeen:
		return api.InvoicePayment(ctx, w.Object, w.ProviderAccount)
	case w.Kind == billing.RefundSeen:
		return api.Refunds(ctx, w.Object, w.ProviderAccount)
	case w.Kind == billing.InvoiceSeen:
		object = "invoice"
	}
	found, err := api.Object(ctx, object, w.Object, w.ProviderAccount)
	return found.Fetched, err
}

// subject is that of the fetched facts: the event's own fact about the object stays beside them. A thin event has
// none, and the fetched ones are its own.
func (w Wanted) subject() billing.Subject {
	s := w.Subject
	if w.Tag != "" {
		return s
	}
	s.EventID, s.EventType = "fetched:"+w.EventID, "fetched"
	return s
}

// noInvoice is the fact that a payment has paid no invoice.
func (w Wanted) noInvoice(at time.Time) billing.Fact {
	f := billing.Fact{Subject: w.subject(), Kind: billing.PaymentSeen, Object: w.Object, Rank: billing.RankFetched,
		Origin: billing.FromFetch, Data: billing.Data{Payment: &billing.PaymentFact{NoInvoice: true}}}
	f.OccurredAt = at.UTC().Truncate(time.Second)
	return f
}

// caughtUp returns an error if the answer is older than the event that it was asked for.
func (o *Objects) caughtUp(ctx context.Context, w Wanted, answer billing.Fact) error {
	known, err := o.Facts.About(ctx, w.Subject, w.Object)
	if err != nil {
		return effect.Infrastructure(err)
	}
	if billing.Behind(answer, known) {
		return &effect.Failure{Class: ledger.Transient, RetryAfter: settled,
			Err: fmt.Errorf("%s was shown as it had been before what is known already", w.Object)}
	}
	return nil
}
