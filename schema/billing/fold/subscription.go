package fold

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Subscription is the state of a subscription, computed from its facts.
type Subscription struct {
	// Ref contains the account: Named, or else the account of the customer; see [fact.LinkOf].
	Ref
	// Named is the account in the metadata of the subscription or of its invoices. If it is empty, the customer
	// determines the account.
	Named string `json:",omitempty"`
	// Start is the start of the subscription. It is zero if no snapshot is known.
	Start time.Time `json:",omitzero"`
	// Status is the provider's status. If only a paid invoice is known, it is active or trialing. It is empty while
	// only unpaid invoices are known.
	Status string
	// Sale is the sale of the items: the order. ByUse is set if the plan is billed by usage alone.
	fact.Sale
	ByUse bool `json:",omitempty"`
	// Instead is the sale that the subscription grants in place of the order. It is set while the customer has ordered
	// more than was paid (see Policy.GrantOnPayment), and while the order is withheld after a refusal. It is nil if the
	// order itself is granted.
	Instead *fact.Sale `json:",omitempty"`
	// PeriodStart and PeriodEnd bound the current period of the plan's item.
	PeriodStart time.Time `json:",omitzero"`
	PeriodEnd   time.Time `json:",omitzero"`
	TrialEnd    time.Time `json:",omitzero"`
	// Unpaid is the provider's action at the end of a trial without a payment method: "cancel" or "pause". It is empty
	// if the subscription continues, or if it has a payment method.
	Unpaid string `json:",omitempty"`
	// PlannedEnd is the planned end, set by the customer or by the merchant. It is zero if there is none.
	PlannedEnd time.Time `json:",omitzero"`
	// Version increases when the granted plan, its quantity or the planned end changes.
	Version int64 `json:",omitempty"`
	// Until is the expected end of access, for information only. It is zero if no end is expected.
	Until time.Time `json:",omitzero"`
	// EndsAt is when a scheduled action ends the grant. It is the planned end, or the end of the grace period of a past
	// due subscription. For an ended subscription it is the end of the paid period, if the policy grants access until
	// then. It is zero if no action is scheduled.
	EndsAt time.Time `json:",omitzero"`
	// RenewsBy is the deadline for an event that shows the next period. It is zero if no renewal is expected.
	RenewsBy time.Time `json:",omitzero"`
	// PastDueSince is when the subscription became past due. It is zero if the subscription is not past due.
	PastDueSince time.Time `json:",omitzero"`
	// EndedAt is when the subscription ended for good, or zero. An ended subscription is never reactivated.
	EndedAt time.Time `json:",omitzero"`
	// Cause is the fact that determines the status. PastDueBy is the fact of PastDueSince.
	Cause     fact.Cause `json:",omitzero"`
	PastDueBy fact.Cause `json:",omitzero"`
	// EverGranted is set after the first grant. Without a grant, there is no access to remove.
	EverGranted bool `json:",omitempty"`
	// GrantedAt is the time of the first snapshot that grants access, or zero.
	GrantedAt time.Time `json:",omitzero"`
	// Evidence is set while Status is derived from a paid invoice, because no snapshot shows it.
	Evidence bool `json:",omitempty"`
	// Unsettled is the fact of a paid invoice that no later snapshot confirms. The invoice replaces a missing snapshot,
	// or it was paid after the subscription became past due or unpaid. Unsettled is zero if there is no such invoice.
	Unsettled fact.Cause `json:",omitzero"`
	// Partial is set while no fact contains all items.
	Partial bool `json:",omitempty"`
	// Uncertain is set if two facts have the same second and their order cannot be determined.
	Uncertain bool `json:",omitempty"`
	// UnknownPrice is an unmapped price of the newest snapshot. It is set only if no price of the snapshot is mapped to
	// a plan.
	UnknownPrice string `json:",omitempty"`
	// Asks lists the unmapped prices that open a task, of plans and of add-ons.
	Asks []string `json:",omitempty"`
	// Refused is set while the order is withheld. Withheld is set if, in addition, nothing is granted in its place.
	// Held is set while the subscription is on hold. LostBy is the fact of a lost dispute that caused the hold; it is
	// zero for any other hold.
	Refused  bool       `json:",omitempty"`
	Withheld bool       `json:",omitempty"`
	Held     bool       `json:",omitempty"`
	LostBy   fact.Cause `json:",omitzero"`
	// RefusedSale is the withheld order. Owed is the money that was paid for the order and is not paid back yet.
	// Settled is set if all money is paid back, or if the subscription has ended without any payment.
	RefusedSale *fact.Sale `json:",omitempty"`
	Owed        Money      `json:",omitzero"`
	Settled     bool       `json:",omitempty"`
	// FallsBack is set if the subscription grants an earlier order while its newest order is withheld.
	FallsBack bool `json:",omitempty"`
	// PaidBack is set while the full refund of the newest invoice ends access; see [fact.Policy.EndOnFullRefund]. It is
	// not set if another invoice has paid for the same time; see limit. PaidBackBy is the fact of the last refund.
	PaidBack   bool       `json:",omitempty"`
	PaidBackBy fact.Cause `json:",omitzero"`
	// CutShort is set if the grant ends with an earlier purchase, because the money of the newest purchase was
	// returned. It is "refunded", "disputed" or "lost". No event of the provider reports this end.
	CutShort string `json:",omitempty"`
	// PaidAfterEnd lists the invoices that a person must review, because they were paid after the end. If the
	// subscription never started, it lists invoices for a period beyond the end.
	PaidAfterEnd []string `json:",omitempty"`
	// Review is the reason for a review of the subscription, or empty: [ReviewImport].
	Review string `json:",omitempty"`
}

// ReviewImport requests a review because an import shows the subscription as active, although an event has shown its
// end.
const ReviewImport = "import_disagrees"

// Ended reports whether the subscription has ended for good.
func (s Subscription) Ended() bool { return !s.EndedAt.IsZero() }

// NeverBegan reports whether the subscription expired because its first payment failed.
func (s Subscription) NeverBegan() bool { return s.Status == "incomplete_expired" }

// Granting reports whether the status of the subscription grants access. It ignores scheduled ends, such as the end of
// the grace period.
func (s Subscription) Granting() bool { return !s.Ended() && fact.Granting(s.Status) }

// Taken returns why a subscription that has not ended grants nothing: "lost" or "disputed", "refunded", "unpaid" or
// "paused". It returns "" for any other reason, because no e-mail describes it.
func (s Subscription) Taken() string {
	byStatus := map[string]string{"past_due": "unpaid", "unpaid": "unpaid", "paused": "paused"}[s.Status]
	return cmp.Or(taken(s.Held, s.LostBy, s.PaidBack), byStatus, s.CutShort)
}

func taken(held bool, lostBy fact.Cause, paidBack bool) string {
	switch {
	case lostBy != (fact.Cause{}):
		return "lost"
	case held:
		return "disputed"
	case paidBack:
		return "refunded"
	}
	return ""
}

// TrialEndsOn reports whether the subscription is in a trial that ends at the given time, and continues after it.
func (s Subscription) TrialEndsOn(at time.Time) bool {
	return s.Status == "trialing" && !s.Ended() && !at.IsZero() && s.TrialEnd.Equal(at) && s.PlannedEnd.IsZero()
}

// ChangedFrom reports whether the granted plan, its quantity or the planned end has changed since before. before is nil
// for a new subscription.
func (s Subscription) ChangedFrom(before *Subscription) bool {
	return before == nil || !s.GivesAs(*before) || !s.PlannedEnd.Equal(before.PlannedEnd)
}

// GivesAs reports whether both grant the same plan and quantity.
func (s Subscription) GivesAs(o Subscription) bool {
	a, b := s.Given(), o.Given()
	return a.Plan == b.Plan && a.Quantity == b.Quantity
}

// after returns the subscription with its version, which depends on the previous state.
func (s Subscription) after(before *Subscription) Subscription {
	if before != nil {
		s.Version = before.Version
	}
	if s.ChangedFrom(before) {
		s.Version++
	}
	return s
}

// SubscriptionOf computes a subscription from its facts and its computed invoices. It does not set the version.
func SubscriptionOf(id string, facts []fact.Fact, invoices []Invoice, p fact.Policy) Subscription {
	invoices = slices.Clone(invoices)
	slices.SortFunc(invoices, compareInvoices)
	facts = fact.InOrder(facts)
	snapshots, whole := fact.Completed(fact.InOrder(facts, fact.SubscriptionSeen))
	certain := fact.SortChanges(snapshots, p)
	s := Subscription{Ref: Ref{ID: id, Customer: customerOf(facts, invoices)},
		Named: cmp.Or(p.AccountOf(facts), namedBy(facts, snapshots, invoices))}

	ended := slices.IndexFunc(snapshots, func(f fact.Fact) bool { return fact.Terminal(f.Subscription.Status) })
	switch {
	case ended >= 0:
		s.see(snapshots[:ended+1], p)
		s.end(snapshots[ended:], invoices)
	case len(snapshots) > 0:
		s.see(snapshots, p)
		s.Uncertain = !certain
	}
	switch s.Status {
	case "", "incomplete":
		s.believe(invoices, p)
	case "past_due", "unpaid":

		owes := func(i Invoice) bool { return i.Status == "open" || i.Status == "draft" }
		if newest := newestPaid(invoices); newest.PaidAt.After(s.Cause.At) && !slices.ContainsFunc(invoices, owes) {
			s.Unsettled = newest.Cause
		}
	}
	if s.NotOurs = sellsNothing(snapshots, whole, invoices, p); s.NotOurs {
		return s
	}
	s.GrantedAt = grantedAt(snapshots)
	s.EverGranted = !s.GrantedAt.IsZero() ||
		slices.ContainsFunc(invoices, func(i Invoice) bool { return i.IsPaid() && !s.paidAfterEnd(i) })
	if s.Ended() || p.LeaveUnknown {
		s.Asks = nil
	}
	s.give(facts, snapshots, invoices, p)
	if s.Withheld { // a correction task exists for this purchase, so no missing event matters
		s.Unsettled = fact.Cause{}
	} else {
		s.RenewsBy = s.renewsBy(invoices, p)
	}
	s.Partial = !whole && !s.Ended() && snapshots[len(snapshots)-1].Subscription.Partial
	return s
}

// sellsNothing reports whether no snapshot of the subscription contains a price of ours. If all snapshots lack items,
// or if there is no snapshot, an invoice of ours proves the contrary.
func sellsNothing(snapshots []fact.Fact, whole bool, invoices []Invoice, p fact.Policy) bool {
	ofOurs := func(f fact.Fact) bool { return !p.LinesNotOurs(f.Subscription.Lines()) }
	if slices.ContainsFunc(snapshots, ofOurs) {
		return false
	}
	if len(snapshots) > 0 && whole {
		return true
	}
	billsOurs := slices.ContainsFunc(invoices, func(i Invoice) bool { return !i.Others })
	return !billsOurs && len(snapshots)+len(invoices) > 0
}

// namedBy returns the account of a subscription. It uses the first of these sources that names an account: the last
// link by a person, the metadata of the last snapshot, the metadata of the newest invoice with an account, and the
// checkout session that created the subscription.
func namedBy(facts, snapshots []fact.Fact, invoices []Invoice) string {
	var own, newest string
	if len(snapshots) > 0 {
		own = snapshots[len(snapshots)-1].Subscription.Account
	}
	for _, i := range invoices {
		newest = cmp.Or(i.Named, newest)
	}
	return cmp.Or(fact.LinkedTo(facts), own, newest, fact.LinkedByCheckout(facts))
}

// customerOf returns the customer of the facts, or else of the invoices.
func customerOf(facts []fact.Fact, invoices []Invoice) (customer string) {
	for _, i := range invoices {
		customer = cmp.Or(i.Customer, customer)
	}
	for _, f := range facts {
		customer = cmp.Or(f.Customer, customer)
	}
	return customer
}

func foldSubscription(id string, with Related) Object {
	facts := with.withHolds(with.Facts[id], func(d *Dispute) bool {
		i := Find[*Invoice](with.Objects, with.disputed(d))
		return d.Subscription == id || i != nil && i.Subscription == id
	})
	s := SubscriptionOf(id, facts, with.InvoicesOf(id), with.Policy).after(Find[*Subscription](with.Objects, id))
	s.owes(facts, with)
	return &s
}

// InvoicesOf returns the invoices of a subscription.
func (w Related) InvoicesOf(subscription string) (list []Invoice) {
	for _, i := range Each[*Invoice](w.Objects) {
		if i.Subscription == subscription {
			list = append(list, *i)
		}
	}
	return list
}

// Kind implements [Object].
func (*Subscription) Kind() Kind { return KindSubscription }

// Assign implements [Object].
func (s *Subscription) Assign(with Related) {
	if s.Account = with.AccountOf(s.Named, s.Customer); s.NotOurs {
		s.Account = ""
	}
}

// Grants implements [Object].
func (s *Subscription) Grants() []Grant {
	if !s.gives() {
		return nil
	}
	is := s.Given()
	return []Grant{{Object: s.ID, Plan: is.Plan, Quantity: is.Quantity, AddOns: is.AddOns, Until: s.Until,
		Ends: s.EndsAt, Event: s.Cause.EventID, Ended: s.Ended()}}
}

// gives reports whether the subscription grants anything. It ignores scheduled ends.
func (s *Subscription) gives() bool {
	switch {
	case s.Held || s.Withheld || s.PaidBack || s.NotOurs:
		return false
	case s.Ended():
		return !s.EndsAt.IsZero()
	}
	return fact.Granting(s.Status)
}
