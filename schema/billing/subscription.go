package billing

import (
	"cmp"
	"slices"
	"time"
)

// Subscription is what the facts about a subscription fold to.
type Subscription struct {
	// Ref has its account: Named, or that of the customer. See [AccountOf].
	Ref
	// Named is the account that the facts about the subscription and its invoices name, "" where the customer decides.
	Named string `json:",omitempty"`
	// Status is the provider's word, or "active"/"trialing" on the evidence of a paid invoice alone. It is "" as long
	// as nothing is known but invoices that are not paid.
	Status string
	// Sale is that of its items.
	Sale
	// Instead is granted in the place of the order, nil for none: while more was ordered than is paid for (see
	// Policy.GrantOnPayment), and while the order is withheld because it was refused.
	Instead *Sale `json:",omitempty"`
	// PeriodStart and PeriodEnd bound the current period of the plan's item.
	PeriodStart time.Time `json:",omitzero"`
	PeriodEnd   time.Time `json:",omitzero"`
	TrialEnd    time.Time `json:",omitzero"`
	// Unpaid is what becomes of it at the end of its trial where no payment method is there by then: "cancel" or
	// "pause". It is "" where it goes on, or has one.
	Unpaid string `json:",omitempty"`
	// PlannedEnd is when it is to end, by the customer's wish or yours; zero for never.
	PlannedEnd time.Time `json:",omitzero"`
	// Version grows when the plan that is given, its quantity or the planned end change, and only then.
	Version int64 `json:",omitempty"`
	// Until is when access is expected to end, zero where no end is in sight. It only informs.
	Until time.Time `json:",omitzero"`
	// EndsAt is when the clock ends its grant, zero for never: the planned end, the end of grace while it is past
	// due, or, if the policy says so, the end of the paid period once it has ended.
	EndsAt time.Time `json:",omitzero"`
	// RenewsBy is when an event must have told of the next period, zero where no renewal is expected.
	RenewsBy time.Time `json:",omitzero"`
	// PastDueSince is the first fact of the present run of past_due, zero outside of one.
	PastDueSince time.Time `json:",omitzero"`
	// EndedAt is when it ended for good, zero while it has not. A subscription that has ended never comes back.
	EndedAt time.Time `json:",omitzero"`
	// Cause is the fact that decides. PastDueBy is the first of the present run of past_due.
	Cause     Cause `json:",omitzero"`
	PastDueBy Cause `json:",omitzero"`
	// EverGranted is set once any fact made it grant: a subscription that never did has nothing to take away.
	EverGranted bool `json:",omitempty"`
	// GrantedAt is when the first snapshot showed that it grants, zero while none has.
	GrantedAt time.Time `json:",omitzero"`
	// Evidence is set where a paid invoice stands in for a snapshot that has not come.
	Evidence bool `json:",omitempty"`
	// Unsettled is the fact of a paid invoice that no snapshot has followed: it stands in for one, or was paid after
	// the subscription became past due, or unpaid. Zero for none.
	Unsettled Cause `json:",omitzero"`
	// Uncertain is set where the order of two facts of one second cannot be told.
	Uncertain bool `json:",omitempty"`
	// UnknownPrice is a price of the newest snapshot that no mapping knows, while none of its prices is mapped to a
	// plan.
	UnknownPrice string `json:",omitempty"`
	// Asks are the prices that no mapping knows, and that a person is asked about: those of the plan and of add-ons.
	Asks []string `json:",omitempty"`
	// Refused is set while the order is withheld, and Withheld if nothing is granted instead. Held is set while the
	// subscription is on hold. LostBy is the fact that told that the dispute was lost, zero for any other hold.
	Refused  bool  `json:",omitempty"`
	Withheld bool  `json:",omitempty"`
	Held     bool  `json:",omitempty"`
	LostBy   Cause `json:",omitzero"`
	// PaidBack is set while the newest invoice that paid for it is refunded in full, where the policy ends access for
	// that; one for an add-on or a fee beside it is none. PaidBackBy is the fact that told of the last of that money.
	PaidBack   bool  `json:",omitempty"`
	PaidBackBy Cause `json:",omitzero"`
	// PaidAfterEnd lists the invoices that were paid after the end, or for a subscription that never began, for a time
	// beyond the end: a person must review them.
	PaidAfterEnd []string `json:",omitempty"`
	// Review says what about the subscription a person must review, "" for nothing: [ReviewImport].
	Review string `json:",omitempty"`
}

// ReviewImport is the review of a subscription that an import shows as alive after an event has ended it.
const ReviewImport = "import_disagrees"

// Ended reports whether the subscription has ended for good.
func (s Subscription) Ended() bool { return !s.EndedAt.IsZero() }

// NeverBegan reports whether the subscription expired because its first payment did not come.
func (s Subscription) NeverBegan() bool { return s.Status == "incomplete_expired" }

// Granting reports whether the subscription's status grants access; what the clock has ended is not asked.
func (s Subscription) Granting() bool { return !s.Ended() && granting(s.Status) }

// Taken says why a subscription that has not ended grants nothing: "lost" or "disputed" for its payment, "refunded",
// "unpaid" or "paused"; "" for nothing that a customer is told.
func (s Subscription) Taken() string {
	if why := taken(s.Held, s.LostBy, s.PaidBack); why != "" {
		return why
	}
	return map[string]string{"past_due": "unpaid", "unpaid": "unpaid", "paused": "paused"}[s.Status]
}

func taken(held bool, lostBy Cause, paidBack bool) string {
	switch {
	case lostBy != (Cause{}):
		return "lost"
	case held:
		return "disputed"
	case paidBack:
		return "refunded"
	}
	return ""
}

// TrialEndsOn reports whether the subscription is on trial until a time, and goes on after it.
func (s Subscription) TrialEndsOn(at time.Time) bool {
	return s.Status == "trialing" && !s.Ended() && !at.IsZero() && s.TrialEnd.Equal(at) && s.PlannedEnd.IsZero()
}

// changedFrom reports whether the plan that is given, its quantity or the planned end differ from before. before is nil
// for a subscription that was not known.
func (s Subscription) changedFrom(before *Subscription) bool {
	return before == nil || !s.GivesAs(*before) || !s.PlannedEnd.Equal(before.PlannedEnd)
}

// GivesAs reports whether two give the same plan and quantity.
func (s Subscription) GivesAs(o Subscription) bool {
	a, b := s.Given(), o.Given()
	return a.Plan == b.Plan && a.Quantity == b.Quantity
}

// after returns the subscription with its version, given its earlier state.
func (s Subscription) after(before *Subscription) Subscription {
	if before != nil {
		s.Version = before.Version
	}
	if s.changedFrom(before) {
		s.Version++
	}
	return s
}

// FoldSubscription makes a subscription of the facts about it and of its folded invoices. [AccountOf] decides its
// account, and its earlier state its version.
func FoldSubscription(id string, facts []Fact, invoices []Invoice, p Policy) Subscription {
	invoices = slices.Clone(invoices)
	slices.SortFunc(invoices, compareInvoices)
	facts = InOrder(facts)
	snapshots := InOrder(facts, SubscriptionSeen)
	certain := chain(snapshots, p)
	s := Subscription{Ref: Ref{ID: id, Customer: customerOf(facts, invoices)},
		Named: cmp.Or(p.account(facts), namedBy(facts, snapshots, invoices))}

	ended := slices.IndexFunc(snapshots, func(f Fact) bool { return terminal(f.Subscription.Status) })
	switch {
	case ended >= 0:
		s.see(snapshots[:ended+1], p)
		s.end(snapshots[ended:], invoices, p)
	case len(snapshots) > 0:
		s.see(snapshots, p)
		s.Uncertain = !certain
	}
	switch s.Status {
	case "", "incomplete":
		s.believe(invoices, p)
	case "past_due", "unpaid":
		// Once all that is owed was paid, the provider says by itself that it is active.
		owes := func(i Invoice) bool { return i.Status == "open" || i.Status == "draft" }
		if newest := newestPaid(invoices); newest.PaidAt.After(s.Cause.At) && !slices.ContainsFunc(invoices, owes) {
			s.Unsettled = newest.Cause
		}
	}
	if s.NotOurs = sellsNothing(snapshots, invoices, p); s.NotOurs {
		return s
	}
	s.GrantedAt = grantedAt(snapshots)
	s.EverGranted = !s.GrantedAt.IsZero() ||
		slices.ContainsFunc(invoices, func(i Invoice) bool { return i.paid() && !s.paidAfterEnd(i) })
	if s.Ended() || p.LeaveUnknown {
		s.Asks = nil
	}
	s.give(facts, snapshots, invoices, p)
	s.Held, s.LostBy = OnHold(facts), lostBy(facts)
	s.RenewsBy = s.renewsBy(invoices, p)
	of := newestPaid(slices.DeleteFunc(invoices, func(i Invoice) bool { return !s.paidBy(i) }))
	if p.EndOnFullRefund && of.paidBack() {
		s.PaidBack, s.PaidBackBy = true, of.RefundedBy
	}
	return s
}

// sellsNothing reports whether nothing of ours was ever sold by a subscription: by its snapshots, or else its invoices.
func sellsNothing(snapshots []Fact, invoices []Invoice, p Policy) bool {
	if len(snapshots) > 0 {
		return !slices.ContainsFunc(snapshots, func(f Fact) bool { return !p.notOurs(f.Subscription.lines()) })
	}
	return len(invoices) > 0 && !slices.ContainsFunc(invoices, func(i Invoice) bool { return !i.Others })
}

// namedBy returns the account that a subscription's facts and invoices name: the last link that a person made, else the
// last snapshot's metadata, the newest invoice's, or the checkout session that made it.
func namedBy(facts, snapshots []Fact, invoices []Invoice) string {
	var own, newest string
	if len(snapshots) > 0 {
		own = snapshots[len(snapshots)-1].Subscription.Account
	}
	for _, i := range invoices {
		newest = cmp.Or(i.Named, newest)
	}
	return cmp.Or(linkedTo(facts), own, newest, linkedByCheckout(facts))
}

// customerOf returns the customer that facts, or else invoices, tell of.
func customerOf(facts []Fact, invoices []Invoice) (customer string) {
	for _, i := range invoices {
		customer = cmp.Or(i.Customer, customer)
	}
	for _, f := range facts {
		customer = cmp.Or(f.Customer, customer)
	}
	return customer
}

const subscriptionSQL = `select state from subscriptions where mode = $1 and id = $2`

func foldSubscription(id string, with related) Object {
	facts := with.withHolds(with.facts[id], func(d *Dispute) bool {
		i := find[*Invoice](with.objects, with.disputed(d))
		return d.Subscription == id || i != nil && i.Subscription == id
	})
	s := FoldSubscription(id, facts, with.invoicesOf(id), with.policy).after(find[*Subscription](with.objects, id))
	return &s
}

// invoicesOf returns the invoices of a subscription.
func (w related) invoicesOf(subscription string) (list []Invoice) {
	for _, i := range each[*Invoice](w.objects) {
		if i.Subscription == subscription {
			list = append(list, *i)
		}
	}
	return list
}

func (*Subscription) kind() kind { return kindSubscription }

func (s *Subscription) assign(with related) {
	if s.Account = with.accountOf(s.Named, s.Customer); s.NotOurs {
		s.Account = ""
	}
}

func (s *Subscription) grants() []Grant {
	if !s.gives() {
		return nil
	}
	is := s.Given()
	return []Grant{{s.ID, is.Plan, is.Quantity, is.AddOns, s.Until, s.EndsAt, s.Cause.EventID}}
}

// gives reports whether the subscription grants anything; what the clock has ended is not asked.
func (s *Subscription) gives() bool {
	switch {
	case s.Held || s.Withheld || s.PaidBack || s.NotOurs:
		return false
	case s.Ended():
		return !s.EndsAt.IsZero()
	}
	return granting(s.Status)
}

const writeSubscriptionSQL = `
insert into subscriptions (mode, id, account, customer, status, plan, quantity, ended, state) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict (mode, id) do update set account = excluded.account, customer = excluded.customer, status = excluded.status,
       plan = excluded.plan, quantity = excluded.quantity, ended = excluded.ended, state = excluded.state, updated_at = now()`

func (s *Subscription) row() (sql string, columns []any) {
	return writeSubscriptionSQL, []any{s.Status, s.Plan, s.Quantity, s.Ended()}
}
