package billing

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/ledger"
)

// Apply appends the facts of one event, folds what they are about, and writes what that comes to: rows, and news in
// the outbox. It does so in tx, which also holds the effect's ledger row. Facts that the table already has are not
// appended again. at decides which planned ends have passed. Zero means the database's clock, read under the
// account's lock, so that it never runs backwards for one account.
//
// Apply goes by the meaning in force, and by p where none is yet.
//
// Apply locks, in this order: the meaning, which folds share; the payment, then the invoice, that the facts are about
// or that these belong to; then the provider's customers, so that facts of one customer are applied one after the
// other; then the rows of the accounts concerned, by their IDs. A customer of two accounts, or an account of two
// customers, cannot make two calls wait for each other. Payments and invoices have locks of their own since a refund
// names no customer.
//
// It takes three round trips. It reads the facts of the objects, what these refer to and what refers to them, the
// newest two years of monthly invoices of the subscription and as many that are open, and what grants access to the
// account: not the account's past.
func Apply(ctx context.Context, tx ledger.Tx, facts []Fact, p Policy, effectKey string, at time.Time) (Change, error) {
	return apply(ctx, tx, facts, p, effectKey, at, normal)
}

// manner is how facts are applied.
type manner int

const (
	// normal writes the rows that have changed.
	normal manner = iota
	// inScratch is normal, but takes no locks, because nobody else sees the rows.
	inScratch
	// repairing writes rows even where the fold's result is the same: their columns may say something else.
	repairing
)

// apply is [Apply], in a manner.
func apply(ctx context.Context, tx ledger.Tx, facts []Fact, p Policy, effectKey string, at time.Time,
	how manner) (Change, error) {
	if len(facts) == 0 {
		return Change{}, nil
	}
	return (&applying{tx: tx, policy: p, key: effectKey, at: at, how: how, facts: facts}).run(ctx)
}

func (a *applying) run(ctx context.Context) (Change, error) {
	a.subject = a.facts[0].Subject
	a.change.Subject = a.subject
	for _, step := range []func(context.Context) error{a.read, a.fold, a.access, a.write} {
		if err := step(ctx); err != nil {
			return Change{}, fmt.Errorf("apply %d facts of event %s: %w", len(a.facts), a.subject.EventID, err)
		}
	}
	return a.change, nil
}

// applying is one call of Apply.
type applying struct {
	tx      ledger.Tx
	policy  Policy
	key     string
	at      time.Time
	how     manner
	anew    *Anew // nil for any other reason
	facts   []Fact
	subject Subject

	// about names the objects of the facts, and refunds the refunds among them: an event can be about several. linked
	// is set if the facts link the customer. holds is the account that they hold or release as a whole, "" for none.
	about   names
	refunds []string
	linked  bool
	holds   string
	// told are facts that follow from the event's and the earlier ones; they are appended, too.
	told []Fact
	// known holds facts by their object. before holds the objects as they were, now as these facts leave them. folded
	// names those that were folded anew.
	known       map[string][]Fact
	before, now objects
	folded      map[key]bool

	// accounts and granted are the rows of the accounts concerned, gives what the objects that have changed give them.
	accounts map[string]accountRow
	granted  map[string][]Grant
	gives    map[string][]Grant
	change   Change
}

// read locks what the facts are about, appends them, and reads what they are folded with.
func (a *applying) read(ctx context.Context) error {
	a.about, a.known, a.before = names{}, map[string][]Fact{}, objects{}
	for _, f := range a.facts {
		a.subject.Customer = cmp.Or(a.subject.Customer, f.Customer)
		a.about.add(f.names())
		switch {
		case f.isRefund():
			a.refunds = append(a.refunds, f.Object)
		case f.holdsAccount():
			a.holds = f.Object
		case f.linksCustomer():
			a.subject.Customer, a.linked = f.Object, true
		}
	}
	b := &pgx.Batch{}
	s, n := a.subject, a.about
	a.readMeaning(b)
	a.lock(b)
	for _, f := range a.facts {
		if err := appendFact(b, f); err != nil {
			return err
		}
	}
	named := []any{s.Mode, n[kindPayment], n[kindInvoice], n[kindSubscription], n[kindCheckout]}
	b.Queue(relatedFactsSQL, append(named[:5:5], append(a.claims(), s.Customer), s.Provider,
		s.ProviderAccount)...).Query(a.collectFacts)
	b.Queue(relatedSQL, append(named[:5:5], a.claims(), s.Provider)...).Query(a.collectObjects)
	if a.linked {
		b.Queue(ofCustomerSQL, s.Mode, s.Customer).Query(a.collectObjects)
	}
	if err := a.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	// Nothing follows from a fact that was imported, or that occurred before effects began.
	a.change.Silent = a.facts[0].Origin == FromImport || s.OccurredAt.Before(a.policy.EffectsFrom)
	return nil
}

func appendFact(b *pgx.Batch, f Fact) error {
	data, err := json.Marshal(f.Data)
	if err != nil {
		return err
	}
	b.Queue(appendFactSQL, f.Provider, f.ProviderAccount, f.Mode, f.Kind, f.Object, f.Customer, f.EventID, f.EventType,
		f.ReceiptID, f.OccurredAt, f.Rank, f.Origin, f.Reader, f.Reading, data)
	return nil
}

// claims are the objects of the facts that no other object names.
func (a *applying) claims() []string {
	n := a.about
	return append([]string{n[kindDispute], n[kindWarning], n[kindCredit]}, a.refunds...)
}

// lock locks the payment, the invoice and the customers. Only rows tell what a payment belongs to: each is looked up
// once what leads to it is locked. For a hold on an account, the account's own row does.
func (a *applying) lock(b *pgx.Batch) {
	s, n := a.subject, a.about
	customer := cmp.Or(s.Customer, n[kindSubscription], n[kindInvoice], a.facts[0].Object)
	switch {
	case a.how == inScratch || a.holds != "":
	case n.pays():
		b.Queue(lockPaymentSQL, s.Mode, n[kindPayment], n[kindCheckout])
		b.Queue(lockInvoiceSQL, s.Mode, n[kindPayment], n[kindInvoice])
		b.Queue(lockCustomersSQL, s.Mode, n[kindPayment], n[kindInvoice], n[kindSubscription], n[kindCheckout],
			customer)
	default:
		var locks []string
		if n[kindInvoice] != "" {
			locks = append(locks, "invoice "+s.Mode+" "+n[kindInvoice])
		}
		b.Queue(lockSQL, append(locks, "customer "+s.Mode+" "+customer))
	}
}

func (a *applying) collectFacts(rows pgx.Rows) error {
	facts, err := pgx.CollectRows(rows, scanFact)
	for _, f := range facts {
		a.known[f.Object] = append(a.known[f.Object], f)
	}
	a.change.Rows += len(facts)
	return err
}

func (a *applying) collectObjects(rows pgx.Rows) error {
	var what string
	var state []byte
	_, err := pgx.ForEachRow(rows, []any{&what, &state}, func() error {
		switch what {
		case "names":
			meant := names{}
			err := json.Unmarshal(state, &meant)
			a.about.add(meant)
			return err
		case "effects from":
			return json.Unmarshal(state, &a.policy.EffectsFrom)
		}
		a.change.Rows++
		return a.before.add(kind(what), state)
	})
	return err
}

// fold makes the objects of their facts, and assigns them, and what belongs to them, to accounts. Nothing is read or
// written.
func (a *applying) fold(context.Context) error {
	a.now, a.folded = maps.Clone(a.before), map[key]bool{}
	with := related{a.known, a.now, a.policy}
	fold := func(o Object) { a.now[keyOf(o)], a.folded[keyOf(o)] = o, true }
	for _, id := range set(a.refunds) {
		fold(FoldRefund(id, a.known[id]))
	}
	for _, charge := range a.toldAlone() {
		if f, ok := a.refundByCharge(charge); ok {
			a.told, a.known[f.Object] = append(a.told, f), []Fact{f}
			fold(FoldRefund(f.Object, []Fact{f}))
		}
	}
	for _, k := range kinds {
		id := a.about[k.none.kind()]
		if id == "" || k.none.kind() == kindRefund {
			continue
		}
		if o := k.fold(id, with); o != nil {
			if p, ok := o.(*Payment); ok { // its invoice may be known by facts alone
				a.about.add(names{kindInvoice: p.Invoice})
			}
			if i, ok := o.(*Invoice); ok && a.anew != nil {
				i.readAnew(find[*Invoice](a.before, id))
			}
			fold(o)
			a.subject.Customer = cmp.Or(a.subject.Customer, o.ref().Customer)
		}
	}
	for _, k := range []kind{kindSubscription, kindInvoice, kindCheckout, kindPayment, kindRefund, kindDispute,
		kindWarning, kindCredit} {
		for _, o := range a.now.list() {
			if o.kind() == k && a.concerned(o) {
				o = copyOf(o)
				o.assign(with)
				announce(o, a.before[keyOf(o)])
				a.now[keyOf(o)] = o
			}
		}
	}
	for _, o := range a.now.list() {
		was := a.before[keyOf(o)]
		if a.folded[keyOf(o)] || learnt(o, was) {
			a.change.After.add(o)
			if was != nil {
				a.change.Before.add(was)
			}
		}
	}
	return nil
}

// learnt reports whether more is known about the owner of an object that may be told of before that is known.
func learnt(o, was Object) bool {
	waits := slices.Contains([]kind{kindRefund, kindDispute, kindWarning, kindCredit}, o.kind())
	return waits && was != nil && o.known() > was.known()
}

// concerned reports whether the facts may say whose an object is: they are about it, or about its customer or its
// invoice, or it names a payment.
func (a *applying) concerned(o Object) bool {
	ref := o.ref()
	switch o.kind() {
	case kindRefund, kindDispute, kindWarning:
		return true
	case kindPayment, kindCredit:
		if a.folded[key{kindInvoice, ref.Invoice}] {
			return true
		}
	case kindInvoice:
		if i := o.(*Invoice); i.Subscription != "" && !a.folded[keyOf(o)] { // it moves with its subscription
			return i.AtCheckout && a.folded[key{kindSubscription, i.Subscription}]
		}
	}
	return a.folded[keyOf(o)] || a.linked && ref.Customer == a.subject.Customer
}

// announce keeps an object's earlier announcements, and adds those that its facts call for, once its account is known
// for sure: that of money is known by what was paid for.
func announce(o, was Object) {
	ref := o.ref()
	if was != nil {
		ref.Announced = was.ref().Announced
	}
	if ref.Account != "" && ref.Purchase != "" {
		ref.Announced = set(slices.Concat(ref.Announced, o.announces()))
	}
}

// touched are the objects that were folded, became better known, or moved to another account.
func (a *applying) touched() []Object {
	return slices.DeleteFunc(a.now.list(), func(o Object) bool {
		was := a.before[keyOf(o)]
		return !a.folded[keyOf(o)] && !learnt(o, was) && (was == nil || was.ref().Account == o.ref().Account)
	})
}
