package fold

import (
	"cmp"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Order is a one-time purchase without a subscription.
type Order struct {
	ID string
	fact.Sale
	PaidAt time.Time
	// For is how long the order grants access, counted from its payment. 0 means that it grants nothing.
	For time.Duration

	// sold is set if the order was paid and is not withheld. paidBack is set while the order is fully refunded, and
	// held while it is on hold. cause is the fact of the payment. refundedBy and lostBy are the facts of the refund and
	// of the lost dispute; see [Invoice].
	sold, paidBack, held      bool
	cause, refundedBy, lostBy fact.Cause
}

// Taken returns why a paid order grants nothing, for example "refunded". The values are those of [Subscription.Taken].
func (o Order) Taken() string { return taken(o.held, o.lostBy, o.paidBack) }

// Sold reports whether the order was paid and is not withheld.
func (o Order) Sold() bool { return o.sold }

// Granted reports whether the order grants access, or granted access until it expired. Such an order is paid, and its
// prices include a period of access. It is not fully refunded, withheld or on hold.
func (o Order) Granted() bool { return o.sold && o.For > 0 && !o.held && !o.paidBack }

func (o Order) ends() time.Time { return o.PaidAt.Add(o.For) }

// Grants implements [Object].
func (o Order) Grants() []Grant {
	if !o.Granted() {
		return nil
	}
	return []Grant{{Object: o.ID, Plan: o.Plan, Quantity: o.Quantity, AddOns: o.AddOns, Until: o.ends(), Ends: o.ends(),
		Event: o.cause.EventID}}
}

// Scheduled implements [Object].
func (o Order) Scheduled() []Due {
	if !o.Granted() {
		return nil
	}
	return []Due{{At: o.ends(), Kind: DueOneOff, Object: o.ID, Cause: o.cause}}
}

// Lapsed returns why and when the grant of the order ended, if it has ended at the given time. The reason is the end of
// its duration, a full refund or a lost dispute.
func (o Order) Lapsed(at time.Time) (used Lapse) {
	if !o.sold || o.For == 0 || o.held && o.lostBy == (fact.Cause{}) {
		return Lapse{}
	}
	if !o.ends().After(at) {
		used = Lapse{o.ends(), o.cause}
	}
	if o.paidBack {
		used = used.earlier(lapsedBy(o.refundedBy))
	}
	return used.earlier(lapsedBy(o.lostBy))
}

// NamedFor returns the account that the metadata of a customer's subscriptions names, or "". If they name several
// accounts, the oldest subscription applies. A new subscription therefore never moves the customer's other objects to
// another account.
func NamedFor(customer string, subscriptions []*Subscription) string {
	var first *Subscription
	for _, s := range subscriptions {
		if customer == "" || s.Customer != customer || s.Named == "" || s.NotOurs {
			continue
		}
		if first == nil || cmp.Or(fact.CompareEnds(s.Start, first.Start), cmp.Compare(s.ID, first.ID)) < 0 {
			first = s
		}
	}
	if first == nil {
		return ""
	}
	return first.Named
}
