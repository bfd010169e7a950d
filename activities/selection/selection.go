// Package selection selects the destinations of an event.
package selection

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Rule selects events of sources for one destination. The zero value selects all events.
type Rule struct {
	// Types lists event types, and prefixes such as "orders/*". If it is empty, the rule selects all types.
	Types []string
	// When is a condition on the event, or nil.
	When *flow.Condition
}

// HasType reports whether the rule selects an event type. A rule with the type of a snapshot event of Stripe also
// selects the thin event.
func (r Rule) HasType(provider, eventType string) bool {
	return len(r.Types) == 0 || flow.Matches(r.Types, eventType) ||
		provider == "stripe" && flow.Matches(r.Types, stripe.SnapshotType(eventType))
}

// Event is a stored event. Its payload is read once, when the first condition needs it.
type Event struct {
	Receipts *receipt.Store
	Receipt  receipt.Receipt
	read     *flow.Event
	// fault is the reason why no condition can read the payload. gone is set if the payload was deleted.
	fault error
	gone  bool
}

// Selects reports whether the rule selects an event. fault is the reason why the condition cannot be evaluated. err is
// a failure of the database. A condition on a deleted payload selects nothing, because pawl could not deliver the
// event.
func (r Rule) Selects(ctx context.Context, e *Event) (selected bool, fault, err error) {
	if !r.HasType(e.Receipt.Provider, e.Receipt.Type) || r.When == nil {
		return r.HasType(e.Receipt.Provider, e.Receipt.Type), nil, nil
	}
	if !r.When.ReadsPayload() {
		of, err := flow.NewEvent(e.meta(), []byte("null"), e.Receipt.ReceivedAt)
		if err != nil {
			return false, nil, err
		}
		selected, fault = r.When.Holds(of)
		return selected, fault, nil
	}
	if err := e.load(ctx); err != nil {
		return false, nil, err
	}
	if e.gone {
		return false, nil, nil
	}
	if e.fault != nil {
		return false, fmt.Errorf("%s: %w", r.When.Path, e.fault), nil
	}
	selected, fault = r.When.Holds(e.read)
	return selected, fault, nil
}

// Require returns nil if the rule of a destination selects an event. A condition that cannot be evaluated is a fault.
// If the rule excludes the event, the delivery is not wanted.
func (r Rule) Require(ctx context.Context, e *Event, destination string) error {
	selected, fault, err := r.Selects(ctx, e)
	switch {
	case err != nil:
		return effect.Infrastructure(err)
	case fault != nil:
		return effect.Fault("%w: correct the condition of destination %s and retry, or skip the delivery", fault,
			destination)
	case !selected:
		return &effect.NotWanted{Reason: "destination " + destination +
			" does not select the event: its types exclude the event, or its condition is false"}
	}
	return nil
}

// load reads the payload, unless an earlier call has read it.
func (e *Event) load(ctx context.Context) error {
	if e.read != nil || e.fault != nil || e.gone {
		return nil
	}
	body, err := e.Receipts.Body(ctx, e.Receipt.ID)
	if errors.Is(err, schema.ErrNotFound) {
		e.gone = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the payload of receipt %s: %w", e.Receipt.ID, err)
	}
	e.read, e.fault = flow.NewEvent(e.meta(), body.Bytes, e.Receipt.ReceivedAt)
	return nil
}

func (e *Event) meta() flow.Meta {
	r := e.Receipt.Ref()
	id := r.EventID
	if r.RelayOf != "" {
		id = r.RelayOf
	}
	return flow.Meta{ID: id, Type: r.Type, Provider: r.Provider, Source: e.Receipt.Source, Account: r.Account,
		Mode: r.Mode, Object: r.ObjectID}
}

// Choice lists the selected destinations of an event.
type Choice struct {
	// To lists the destinations that get a delivery.
	To []string
	// Undecided lists the destinations among To with a condition that cannot be evaluated.
	Undecided []string
	// None is the reason why no destination is selected, or "".
	None string
}

// Choose selects the destinations of an event among names, and keeps their order. If the condition of a destination
// cannot be evaluated, the destination is included, so that its delivery fails and a person decides.
func Choose(ctx context.Context, e *Event, names []string, rule func(name string) Rule) (c Choice, err error) {
	r := e.Receipt
	c.None = fmt.Sprintf("no destination of source %s selects the type %s", r.Source, r.Type)
	for _, name := range names {
		selected, fault, err := rule(name).Selects(ctx, e)
		switch {
		case err != nil:
			return Choice{}, err
		case fault != nil:
			c.Undecided = append(c.Undecided, name)
			fallthrough
		case selected:
			c.To = append(c.To, name)
		case rule(name).HasType(r.Provider, r.Type):
			c.None = fmt.Sprintf("no destination of source %s selects the event: the conditions of the destinations for "+
				"the type %s are false", r.Source, r.Type)
		}
	}
	switch {
	case len(c.To) > 0:
		c.None = ""
	case e.gone:
		c.None = "the payload was deleted, so no condition of a destination can select the event"
	}
	return c, nil
}
