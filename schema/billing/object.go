package billing

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Object is what the facts about one thing of the provider's fold to: a [Subscription], an [Invoice], a [Payment], a
// [Refund], a [Dispute], a [Warning], a [Credit] or a [Checkout].
//
// A kind of object is a type with these methods, and a row of kinds. Each embeds [Ref], which has them for what says
// nothing of the sort.
type Object interface {
	kind() kind
	ref() *Ref
	// assign sets the object's account, and the fields that it takes from the objects that it refers to.
	assign(with related)
	// grants lists the object's grants to its account now. lapsed says when its grant ended.
	grants() []Grant
	lapsed(at time.Time) lapse
	// due is what the clock does about it.
	due(with related, now time.Time) []Due
	// announces lists the news that its account is told once, in any order of facts; news are those that are new since
	// before, which may be nil.
	announces() []string
	// known ranks how much is known about the object's owner.
	known() int
	news(s Subject, before Object) []news
	tasks() []settledTask
	// row is the statement that writes it, and the columns that it has beside mode, ID, account, customer and state.
	row() (sql string, columns []any)
}

// Ref holds the names of an object and of those that it refers to. "" stands for none, or for one that is not known
// yet.
type Ref struct {
	ID string
	// Account is ours.
	Account      string
	Customer     string `json:",omitempty"`
	Payment      string `json:",omitempty"`
	Invoice      string `json:",omitempty"`
	Subscription string `json:",omitempty"`
	// Purchase is what money was paid for: an invoice, a checkout session, or the payment itself, where it was for
	// neither or a person has given it to an account. It is "" as long as nothing tells; until then, nothing is booked.
	Purchase string `json:",omitempty"`
	// NotOurs is set for another product of the provider's account, and for money of it. It has no account of ours.
	NotOurs bool `json:",omitempty"`
	// Unbilled is set for a refund, a dispute or a credit note of an invoice that nothing has told of. Only the invoice
	// tells its account, and a refund's tax. So it is booked once that is known, or, once the time to settle is over,
	// under its customer's account.
	Unbilled bool `json:",omitempty"`
	// Claimed is the account that a person has given it to, "" for none.
	Claimed string `json:",omitempty"`
	// Announced lists the announcements that were made about it. It is empty until its account and its purchase are
	// known: a customer can have several accounts. A payment can lose its account again by naming an invoice that is
	// not known yet.
	Announced []string `json:",omitempty"`
}

func (r *Ref) ref() *Ref                  { return r }
func (r Ref) id() string                  { return r.ID }
func (*Ref) grants() []Grant              { return nil }
func (*Ref) lapsed(time.Time) lapse       { return lapse{} }
func (*Ref) due(related, time.Time) []Due { return nil }
func (*Ref) announces() []string          { return nil }
func (*Ref) news(Subject, Object) []news  { return nil }
func (*Ref) tasks() []settledTask         { return nil }

// assign serves the kinds that name a payment. Their account is the payment's, and they move with the payment's
// purchase.
func (r *Ref) assign(with related) {
	p, s, i := find[*Payment](with.objects, r.Payment), find[*Subscription](with.objects, r.Subscription),
		find[*Invoice](with.objects, r.Invoice)
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

// bookUnbilled has the clock book money of an unknown invoice, step counting what has moved of it: each movement makes
// it due again.
func (r *Ref) bookUnbilled(with related, cause Cause, step int, now time.Time) []Due {
	if !r.Unbilled || cause == (Cause{}) || cause.At.Before(with.policy.EffectsFrom) {
		return nil
	}
	at := with.soon(cause.At.Add(with.policy.Settle), now)
	return []Due{{At: at, Why: DueBook, Object: r.ID, Step: step, Cause: cause}}
}

// paidBy takes over what a payment belongs to.
func (r *Ref) paidBy(p *Payment) {
	r.Account, r.Invoice, r.Subscription, r.Customer = p.Account, p.Invoice, p.Subscription, p.Customer
	r.Purchase, r.NotOurs = p.Purchase, p.NotOurs
}

// newsSince are the announcements that are new since before.
func (r *Ref) newsSince(before Object, data any) (list []news) {
	var announced []string
	if before != nil {
		announced = before.ref().Announced
	}
	for _, what := range r.Announced {
		if !slices.Contains(announced, what) {
			list = append(list, news{r.Account, what, data})
		}
	}
	return list
}

// known ranks how much is known about the object's owner: nothing, its account, or what was paid for, too. An invoice
// does not count as long as nothing tells of it.
func (r *Ref) known() int {
	switch {
	case r.Account == "":
		return 0
	case r.Unbilled, r.Invoice == "" && (r.Purchase == "" || r.Purchase == r.Payment):
		return 1
	}
	return 2
}

// kind is a kind of object, as the table of objects names it.
type kind string

const (
	kindSubscription kind = "subscription"
	kindInvoice      kind = "invoice"
	kindPayment      kind = "payment"
	kindCheckout     kind = "checkout"
	kindRefund       kind = "refund"
	kindDispute      kind = "dispute"
	kindWarning      kind = "fraud_warning"
	kindCredit       kind = "credit_note"
)

// kinds are all kinds of objects, in the order of folding: a kind comes before the kinds that are folded with it.
// fold returns nil if no fact tells of the object.
var kinds = []struct {
	none Object
	fold func(id string, with related) Object
}{
	{&Refund{}, func(id string, with related) Object { return FoldRefund(id, with.facts[id]) }},
	{&Dispute{}, func(id string, with related) Object { return FoldDispute(id, with.facts[id]) }},
	{&Warning{}, func(id string, with related) Object { return FoldWarning(id, with.facts[id]) }},
	{&Credit{}, func(id string, with related) Object { return FoldCredit(id, with.facts[id]) }},
	{&Checkout{}, foldCheckout},
	{&Payment{}, foldPayment},
	{&Invoice{}, foldInvoice},
	{&Subscription{}, foldSubscription},
}

// listed is the order in which objects are written and announced.
var listed = []kind{kindInvoice, kindSubscription, kindPayment, kindRefund, kindDispute, kindCheckout, kindCredit,
	kindWarning}

// related holds the inputs of a fold: facts by their object, and other objects.
type related struct {
	facts   map[string][]Fact
	objects objects
	policy  Policy
}

// accountOf is [AccountOf] for a customer whose facts are known.
func (w related) accountOf(named, customer string) string {
	return AccountOf(named, customer, w.facts[customer])
}

// withHolds adds the holds of disputes to the facts of the disputed purchase.
func (w related) withHolds(facts []Fact, of func(*Dispute) bool) []Fact {
	facts = slices.Clone(facts)
	for _, d := range each[*Dispute](w.objects) {
		if of(d) {
			facts = append(facts, d.hold(w.policy)...)
		}
	}
	return facts
}

// disputed returns the invoice of the disputed payment, "" for none.
func (w related) disputed(d *Dispute) string {
	if p := find[*Payment](w.objects, d.Payment); p != nil {
		return p.Invoice
	}
	return d.Invoice
}

// howPaid says how an invoice was paid by the payments of it, "" where none is known.
func (w related) howPaid(invoice string) (how string) {
	for _, p := range each[*Payment](w.objects) {
		switch {
		case p.Invoice != invoice || p.Status != "succeeded":
		case p.OutOfBand:
			how = cmp.Or(how, PaidOutOfBand)
		default:
			return PaidByCharge
		}
	}
	return how
}

// refunded sums the refunds of payments, and returns the fact that told of the last one.
func (w related) refunded(of func(*Payment) bool) (sum int64, by Cause) {
	for _, p := range each[*Payment](w.objects) {
		if of(p) {
			sum, by = sum+p.Refunded, laterCause(by, p.RefundedBy)
		}
	}
	return sum, by
}

// objects are some of the provider's objects.
type objects map[key]Object

type key struct {
	kind kind
	id   string
}

func keyOf(o Object) key { return key{o.kind(), o.ref().ID} }

// add adds an object that was read.
func (o objects) add(of kind, state []byte) error {
	for _, k := range kinds {
		if k.none.kind() == of {
			is := copyOf(k.none)
			err := json.Unmarshal(state, is)
			o[keyOf(is)] = is
			return err
		}
	}
	return nil
}

// readObjects returns the objects that a statement finds by kind and state.
func readObjects(ctx context.Context, db schema.Querier, sql string, args ...any) (objects, error) {
	found := objects{}
	_, err := schema.Rows(ctx, db, "read objects", func(row pgx.CollectableRow) (none struct{}, err error) {
		var of kind
		var state []byte
		if err = row.Scan(&of, &state); err == nil {
			err = found.add(of, state)
		}
		return none, err
	}, sql, args...)
	return found, err
}

// list returns all of them, in the order of listed, then by ID.
func (o objects) list() (list []Object) {
	for _, is := range o {
		list = append(list, is)
	}
	slices.SortFunc(list, func(a, b Object) int {
		if byKind := slices.Index(listed, a.kind()) - slices.Index(listed, b.kind()); byKind != 0 {
			return byKind
		}
		return strings.Compare(a.ref().ID, b.ref().ID)
	})
	return list
}

// each returns those of one kind, by ID.
func each[O Object](o objects) (list []O) {
	for _, is := range o {
		if of, ok := is.(O); ok {
			list = append(list, of)
		}
	}
	slices.SortFunc(list, func(a, b O) int { return strings.Compare(a.ref().ID, b.ref().ID) })
	return list
}

// find returns one of them, or nil if it is not known.
func find[O Object](o objects, id string) (found O) {
	found, _ = o[key{found.kind(), id}].(O)
	return found
}

// copyOf returns a copy of an object, which can be assigned anew.
func copyOf(o Object) Object {
	copied := reflect.New(reflect.TypeOf(o).Elem())
	copied.Elem().Set(reflect.ValueOf(o).Elem())
	return copied.Interface().(Object)
}

// grantsOf returns what objects of an account grant.
func grantsOf(list []Object, account string) (grants []Grant) {
	for _, o := range list {
		if o.ref().Account == account {
			grants = append(grants, o.grants()...)
		}
	}
	return grants
}
