package fold

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Object is the state of one object of the provider, computed from its facts: a [Subscription], an [Invoice], a
// [Payment], a [Refund], a [Dispute], a [Warning], a [Credit] or a [Checkout].
//
// To add a kind of object, write a type with these methods and add an entry to [Kinds]. Each type embeds [Ref], which
// has default implementations.
type Object interface {
	Kind() Kind
	Reference() *Ref
	// Assign sets the account of the object, and the fields that are copied from other objects.
	Assign(with Related)
	// Grants lists the current grants of the object to its account. Lapsed returns why and when the grant ended.
	Grants() []Grant
	Lapsed(at time.Time) Lapse
	// Scheduled returns the scheduled actions of the object.
	Scheduled(with Related, now time.Time) []Due
	// Announces lists the event types to publish about the object. The list does not depend on the order of the facts.
	// Each type is published once. News returns the events that are due now and were not due in before, which may be
	// nil.
	Announces() []string
	// OwnerRank returns how much is known about the owner of the object. A higher number means that more is known.
	OwnerRank() int
	News(s fact.Subject, before Object) []News
	Tasks() []Task
}

// Ref holds the ID of an object and the IDs of the objects that it references. An ID is empty until a fact contains it.
type Ref struct {
	ID string
	// Account is the account in pawl.
	Account      string
	Customer     string `json:",omitempty"`
	Payment      string `json:",omitempty"`
	Invoice      string `json:",omitempty"`
	Subscription string `json:",omitempty"`
	// Purchase is the ID of the invoice or the checkout session that the money paid for. It is the ID of the payment
	// itself if there is neither, or if a person assigned the payment to an account. While it is empty, nothing is
	// booked.
	Purchase string `json:",omitempty"`
	// NotOurs is set if the object belongs to another product that is sold through the same account of the provider.
	// The object then has no account.
	NotOurs bool `json:",omitempty"`
	// Unbilled is set for a refund, a dispute or a credit note of an unknown invoice. The invoice determines the
	// account and the tax. pawl books the object when the invoice is known. If the invoice is still unknown after the
	// settle time, pawl books the object for the account of the customer.
	Unbilled bool `json:",omitempty"`
	// Assigned is the account that a person assigned the money to, or empty.
	Assigned string `json:",omitempty"`
	// Announced lists the event types that have been published about the object. It is empty until the account and the
	// purchase are known, because a customer can have several accounts. A payment can lose its account again if a later
	// fact names an unknown invoice.
	Announced []string `json:",omitempty"`
}

// Reference implements [Object].
func (r *Ref) Reference() *Ref { return r }
func (r Ref) id() string       { return r.ID }

// Grants implements [Object].
func (*Ref) Grants() []Grant { return nil }

// Lapsed implements [Object].
func (*Ref) Lapsed(time.Time) Lapse { return Lapse{} }

// Scheduled implements [Object].
func (*Ref) Scheduled(Related, time.Time) []Due { return nil }

// Announces implements [Object].
func (*Ref) Announces() []string { return nil }

// News implements [Object].
func (*Ref) News(fact.Subject, Object) []News { return nil }

// Tasks implements [Object].
func (*Ref) Tasks() []Task { return nil }

// Assign copies the account and the purchase from the payment. Most kinds of money objects use it.
func (r *Ref) Assign(with Related) {
	p, s, i := Find[*Payment](with.Objects, r.Payment), Find[*Subscription](with.Objects, r.Subscription),
		Find[*Invoice](with.Objects, r.Invoice)
	switch {
	case p != nil:
		r.paidBy(p)
	case s != nil:
		r.Account, r.NotOurs = s.Account, s.NotOurs
	case i != nil:
		r.Account, r.NotOurs = i.Account, i.NotOurs
	}
	if r.Assigned != "" && (r.Account == "" || r.Purchase == "") {
		r.Account, r.Purchase = r.Assigned, cmp.Or(r.Purchase, r.ID)
	}
}

// bookUnbilled schedules the booking of an object with an unknown invoice. step is the amount that has moved, so each
// further movement schedules a new action.
func (r *Ref) bookUnbilled(with Related, cause fact.Cause, step int, now time.Time) []Due {
	if !r.Unbilled || cause == (fact.Cause{}) || cause.At.Before(with.Policy.EffectsFrom) {
		return nil
	}
	at := with.soon(cause.At.Add(with.Policy.Settle), now)
	return []Due{{At: at, Kind: DueBook, Object: r.ID, Step: step, Cause: cause}}
}

// paidBy copies the owner of a payment.
func (r *Ref) paidBy(p *Payment) {
	r.Account, r.Invoice, r.Subscription, r.Customer = p.Account, p.Invoice, p.Subscription, p.Customer
	r.Purchase, r.NotOurs = p.Purchase, p.NotOurs
}

// newsSince returns the events that are new since before.
func (r *Ref) newsSince(before Object, data any) (list []News) {
	var announced []string
	if before != nil {
		announced = before.Reference().Announced
	}
	for _, what := range r.Announced {
		if !slices.Contains(announced, what) {
			list = append(list, News{r.Account, what, data})
		}
	}
	return list
}

// OwnerRank returns 0 if the account is unknown, 1 if only the account is known, and 2 if the purchase is known as
// well. An invoice without facts is unknown.
func (r *Ref) OwnerRank() int {
	switch {
	case r.Account == "":
		return 0
	case r.Unbilled, r.Invoice == "" && (r.Purchase == "" || r.Purchase == r.Payment):
		return 1
	}
	return 2
}

// Kind is a kind of object in the table objects.
type Kind string

// The kinds of objects.
const (
	KindSubscription Kind = "subscription"
	KindInvoice      Kind = "invoice"
	KindPayment      Kind = "payment"
	KindCheckout     Kind = "checkout"
	KindRefund       Kind = "refund"
	KindDispute      Kind = "dispute"
	KindWarning      Kind = "fraud_warning"
	KindCredit       Kind = "credit_note"
)

// listed is the order in which objects are written and their events are published.
var listed = []Kind{KindInvoice, KindSubscription, KindPayment, KindRefund, KindDispute, KindCheckout, KindCredit,
	KindWarning}

// Related holds the inputs for computing an object: facts by their object, and other objects.
type Related struct {
	Facts   map[string][]fact.Fact
	Objects Objects
	Policy  fact.Policy
}

// AccountOf returns the account of an object: the account that the object names, or else the account of its customer.
// If the customer is linked to no account, its customer ID is the account.
func (w Related) AccountOf(named, customer string) string {
	return cmp.Or(named, w.linkedAccount(customer), customer)
}

// linkedAccount returns the account that a customer is linked to, or that its subscriptions name. It returns "" if
// there is neither.
func (w Related) linkedAccount(customer string) string {
	return cmp.Or(fact.LinkOf(w.Facts[customer]), NamedFor(customer, Each[*Subscription](w.Objects)))
}

// withHolds returns the facts of a purchase with the holds of its disputes added. The function of selects the disputes
// of the purchase.
func (w Related) withHolds(facts []fact.Fact, of func(*Dispute) bool) []fact.Fact {
	facts = slices.Clone(facts)
	for _, d := range Each[*Dispute](w.Objects) {
		if of(d) {
			facts = append(facts, d.hold(w.disputed(d), w.Policy)...)
		}
	}
	return facts
}

// disputed returns the invoice of the disputed payment, or "".
func (w Related) disputed(d *Dispute) string {
	if p := Find[*Payment](w.Objects, d.Payment); p != nil {
		return p.Invoice
	}
	return d.Invoice
}

// howPaid returns how an invoice was paid, from its known payments. It returns "" if no payment is known.
func (w Related) howPaid(invoice string) (how string) {
	for _, p := range Each[*Payment](w.Objects) {
		switch {
		case p.Invoice != invoice || p.Status != "succeeded":
		case p.OutOfBand:
			how = cmp.Or(how, fact.PaidOutOfBand)
		default:
			return fact.PaidByCharge
		}
	}
	return how
}

// refunded returns the sum of the refunds of the selected payments, and the fact of the last refund.
func (w Related) refunded(of func(*Payment) bool) (sum int64, by fact.Cause) {
	for _, p := range Each[*Payment](w.Objects) {
		if of(p) {
			sum, by = sum+p.Refunded, laterCause(by, p.RefundedBy)
		}
	}
	return sum, by
}

// Objects holds objects of the provider by kind and ID.
type Objects map[Key]Object

// Key identifies an object within one mode.
type Key struct {
	Kind Kind
	ID   string
}

// KeyOf returns the key of an object.
func KeyOf(o Object) Key { return Key{o.Kind(), o.Reference().ID} }

// List returns all objects, sorted by kind as in listed and then by ID.
func (o Objects) List() (list []Object) {
	for _, is := range o {
		list = append(list, is)
	}
	slices.SortFunc(list, func(a, b Object) int {
		if byKind := slices.Index(listed, a.Kind()) - slices.Index(listed, b.Kind()); byKind != 0 {
			return byKind
		}
		return strings.Compare(a.Reference().ID, b.Reference().ID)
	})
	return list
}

// Each returns the objects of one kind, sorted by ID.
func Each[O Object](o Objects) (list []O) {
	for _, is := range o {
		if of, ok := is.(O); ok {
			list = append(list, of)
		}
	}
	slices.SortFunc(list, func(a, b O) int { return strings.Compare(a.Reference().ID, b.Reference().ID) })
	return list
}

// Find returns an object, or nil if it is unknown.
func Find[O Object](o Objects, id string) (found O) {
	found, _ = o[Key{found.Kind(), id}].(O)
	return found
}

// Copy returns a copy of an object, which can be assigned again.
func Copy(o Object) Object {
	copied := reflect.New(reflect.TypeOf(o).Elem())
	copied.Elem().Set(reflect.ValueOf(o).Elem())
	return copied.Interface().(Object)
}

// GrantsOf returns the grants of the objects of an account.
func GrantsOf(list []Object, account string) (grants []Grant) {
	for _, o := range list {
		if o.Reference().Account == account {
			grants = append(grants, o.Grants()...)
		}
	}
	return grants
}
