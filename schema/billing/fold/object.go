package fold

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Object is the fold of the facts about one object of the provider: a [Subscription], an [Invoice], a [Payment], a
// [Refund], a [Dispute], a [Warning], a [Credit] or a [Checkout].
//
// A kind of object is a type with these methods and a row of [Kinds]. Each type embeds [Ref], which implements the
// methods that the type does not need.
type Object interface {
	Kind() Kind
	Reference() *Ref
	// Assign sets the account of the object, and the fields that come from referenced objects.
	Assign(with Related)
	// Grants lists the current grants to the account. lapsed is the end of the object's grant.
	Grants() []Grant
	Lapsed(at time.Time) Lapse
	// Scheduled returns the scheduled actions of the object.
	Scheduled(with Related, now time.Time) []Due
	// Announces lists the events that are published once for the account, in any order of the facts. News lists the
	// events that are new since before; before may be nil.
	Announces() []string
	// OwnerRank returns how much is known about the owner of the object.
	OwnerRank() int
	News(s fact.Subject, before Object) []News
	Tasks() []Task
}

// Ref holds the ID of an object and the IDs of the objects that it references. An ID is empty until a fact contains it.
type Ref struct {
	ID string
	// Account is our account.
	Account      string
	Customer     string `json:",omitempty"`
	Payment      string `json:",omitempty"`
	Invoice      string `json:",omitempty"`
	Subscription string `json:",omitempty"`
	// Purchase is what the money paid for: an invoice, a checkout session, or the payment itself if there is neither or
	// if a person assigned it to an account. It is empty while it is unknown, and nothing is booked then.
	Purchase string `json:",omitempty"`
	// NotOurs is set for another product of the provider's account and for its money. The object has no account then.
	NotOurs bool `json:",omitempty"`
	// Unbilled is set for a refund, a dispute or a credit note of an unknown invoice. Only the invoice determines the
	// account and the tax of a refund. The object is booked when the invoice is known, or under the account of the
	// customer after the settle time.
	Unbilled bool `json:",omitempty"`
	// Claimed is the account that a person assigned to it, or empty.
	Claimed string `json:",omitempty"`
	// Announced lists the published events about the object. It is empty until account and purchase are known, because
	// a customer can have several accounts. A payment can lose its account again if it names an unknown invoice.
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

// Assign is the implementation for kinds that belong to a payment. Their account and purchase are the account and
// purchase of the payment.
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
	if r.Claimed != "" && (r.Account == "" || r.Purchase == "") {
		r.Account, r.Purchase = r.Claimed, cmp.Or(r.Purchase, r.ID)
	}
}

// bookUnbilled schedules the booking of money of an unknown invoice. step is the amount that has moved, so that each
// movement schedules it again.
func (r *Ref) bookUnbilled(with Related, cause fact.Cause, step int, now time.Time) []Due {
	if !r.Unbilled || cause == (fact.Cause{}) || cause.At.Before(with.Policy.EffectsFrom) {
		return nil
	}
	at := with.soon(cause.At.Add(with.Policy.Settle), now)
	return []Due{{At: at, Why: DueBook, Object: r.ID, Step: step, Cause: cause}}
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

// OwnerRank returns how much is known about the owner of the object: nothing, its account, or its purchase. An invoice
// counts only if a fact about it exists.
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

// Related holds the inputs of a fold: facts by their object, and other objects.
type Related struct {
	Facts   map[string][]fact.Fact
	Objects Objects
	Policy  fact.Policy
}

// AccountOf returns the account of an object: the account that the object names, or else the account of its customer. A
// customer without a link is its own account.
func (w Related) AccountOf(named, customer string) string {
	return cmp.Or(named, w.linkedAccount(customer), customer)
}

// linkedAccount returns the account that a customer is linked to, or that its subscriptions name. It returns "" if
// there is neither.
func (w Related) linkedAccount(customer string) string {
	return cmp.Or(fact.LinkOf(w.Facts[customer]), NamedFor(customer, Each[*Subscription](w.Objects)))
}

// withHolds adds the holds of disputes to the facts of the disputed purchase.
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

// howPaid returns how an invoice was paid, from its known payments. It returns "" if none is known.
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

// refunded returns the sum of the refunds of payments, and the fact of the last refund.
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

// Key identifies an object of one mode.
type Key struct {
	Kind Kind
	ID   string
}

// KeyOf returns the key of an object.
func KeyOf(o Object) Key { return Key{o.Kind(), o.Reference().ID} }

// List returns all objects in the order of listed, then by ID.
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

// Each returns the objects of one kind by ID.
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
