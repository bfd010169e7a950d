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

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/withheld"
)

// Apply appends the facts of one event, computes the objects that the facts are about, and writes the results: rows,
// and published events in the outbox. It does so in tx, which also contains the ledger row of the effect. It skips
// facts that are already stored. A planned end has passed at the time at or earlier. If at is zero, Apply reads
// the clock of the database under the account's lock, so that the time never runs backwards for one account.
//
// Apply uses the active billing rules. If no rules are active yet, it uses p.
//
// Apply takes its locks in this order: the billing rules, shared with other calls; the payment, then the invoice of the
// facts; the provider's customers; the rows of the accounts, by ID. Two calls therefore cannot deadlock, even with a
// customer of two accounts or an account of two customers. Payments and invoices have their own locks because a refund
// names no customer.
//
// Apply takes three round trips to the database. It reads the facts of the objects, the objects that refer to them or
// that they refer to, and the grants of the account. It reads the open invoices of a subscription and the invoices of
// the last two years. It does not read the whole history of the account.
func Apply(ctx context.Context, tx ledger.Tx, facts []fact.Fact, p fact.Policy, effectKey string,
	at time.Time) (fold.Change, error) {
	if len(facts) == 0 {
		return fold.Change{}, nil
	}
	return (&applying{tx: tx, policy: p, key: effectKey, at: at, facts: facts}).run(ctx)
}

type manner int

const (
	normal manner = iota
	// inScratch is like normal, but takes no locks, because the tables are temporary and no other session sees them.
	inScratch
	// repairing also writes unchanged objects, because columns of their rows may have been changed by hand.
	repairing
)

func (a *applying) run(ctx context.Context) (fold.Change, error) {
	a.subject = a.facts[0].Subject
	a.change.Subject = a.subject
	for _, step := range []func(context.Context) error{a.read, a.fold, a.access, a.write} {
		if err := step(ctx); err != nil {
			return fold.Change{}, fmt.Errorf("apply %d facts of event %s: %w", len(a.facts), a.subject.EventID, err)
		}
	}
	return a.change, nil
}

type applying struct {
	tx      ledger.Tx
	policy  fact.Policy
	key     string
	at      time.Time
	how     manner
	again   Recompute // zero for an event, and for a repair without a job
	settles bool      // the call derives the refunds that only the payment's charges report
	facts   []fact.Fact
	subject fact.Subject

	// about contains the objects of the facts by kind. refunds lists the refunds of the facts separately, because an
	// event can be about several. linked is set if the facts link the customer to an account. holds is the account that
	// the facts hold or release as a whole, or empty.
	about   names
	refunds []string
	linked  bool
	holds   string
	// told contains the facts that Apply derives from other facts and appends as well.
	told []fact.Fact
	// known contains the facts by object. before contains the objects before the new facts are applied, and now the
	// objects after that. folded contains the keys of the computed objects.
	known       map[string][]fact.Fact
	before, now fold.Objects
	folded      map[fold.Key]bool

	// accounts contains the rows of the affected accounts, and granted their stored grants. gives contains the new
	// grants of the changed objects.
	accounts map[string]accountRow
	granted  map[string][]fold.Grant
	gives    map[string][]fold.Grant
	change   fold.Change
	// withheld holds the events and tasks that are not published because the change is silent.
	withheld []withheld.Record
}

// read locks the objects of the facts, appends the facts, and reads all data that is needed to compute the objects.
func (a *applying) read(ctx context.Context) error {
	a.about, a.known, a.before = names{}, map[string][]fact.Fact{}, fold.Objects{}
	for _, f := range a.facts {
		a.subject.Customer = cmp.Or(a.subject.Customer, f.Customer)
		a.about.add(namesOf(f))
		switch {
		case isRefund(f):
			a.refunds = append(a.refunds, f.Object)
		case f.HoldsAccount():
			a.holds = f.Object
		case f.LinksCustomer():
			a.subject.Customer, a.linked = f.Object, true
		}
	}
	b := &pgx.Batch{}
	s, n := a.subject, a.about
	a.readRules(b)
	a.lock(b)
	for _, f := range a.facts {
		if err := AppendFact(b, f); err != nil {
			return err
		}
	}
	named := []any{s.Mode, n[fold.KindPayment], n[fold.KindInvoice], n[fold.KindSubscription], n[fold.KindCheckout]}
	b.Queue(relatedFactsSQL, append(named[:5:5], append(a.claims(), s.Customer), s.Provider,
		s.ProviderAccount)...).Query(a.collectFacts)
	b.Queue(relatedSQL, append(named[:5:5], a.claims(), s.Customer, a.named())...).Query(a.collectObjects)
	if a.linked {
		b.Queue(ofCustomerSQL, s.Mode, s.Customer).Query(a.collectObjects)
	}
	if err := a.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	switch from := a.facts[0].Origin; {
	case from == fact.FromOperator, a.facts[0].Kind == fact.Withheld: // such facts have the current time
	default:
		a.change.Silent = a.policy.Silent || from == fact.FromImport || s.OccurredAt.Before(a.policy.EffectsFrom) ||
			a.past()
	}
	return nil
}

// past reports whether a person fetched a subscription or an open invoice that is older than the start of effects and
// unknown to pawl. Its fact has the current time, but nothing has changed since the start of effects, so it has no
// effects.
func (a *applying) past() bool {
	return a.subject.EventType == fact.Reconciled && slices.ContainsFunc(a.facts, func(f fact.Fact) bool {
		if i := f.Invoice; i != nil && i.Status == "open" && !i.CreatedAt.IsZero() {
			return i.CreatedAt.Before(a.policy.EffectsFrom) && fold.Find[*fold.Invoice](a.before, f.Object) == nil
		}
		return f.Subscription != nil && f.Subscription.Start.Before(a.policy.EffectsFrom) &&
			fold.Find[*fold.Subscription](a.before, f.Object) == nil
	})
}

// AppendFact queues a statement in b that stores a fact. It does not change a fact that is already stored. If the fact
// cannot be encoded, AppendFact returns an error and queues nothing.
func AppendFact(b *pgx.Batch, f fact.Fact) error {
	data, err := json.Marshal(f.Data)
	if err != nil {
		return err
	}
	b.Queue(appendFactSQL, f.Provider, f.ProviderAccount, f.Mode, f.Kind, f.Object, f.Customer, f.EventID, f.EventType,
		f.ReceiptID, f.OccurredAt, f.Rank, f.Origin, f.Reader, f.Reading, data)
	return nil
}

func (a *applying) named() string {
	name := a.policy.AccountOf(a.facts)
	for _, f := range a.facts {
		name = cmp.Or(name, f.NamedAccount())
	}
	return name
}

// claims returns the objects of the facts that are not part of another object: no payment or invoice owns them.
func (a *applying) claims() []string {
	n := a.about
	return append([]string{n[fold.KindDispute], n[fold.KindWarning], n[fold.KindCredit]}, a.refunds...)
}

// lock locks the payment, the invoice and the customers. The owner of a payment is known only from rows. Each lookup
// therefore needs the lock of the object that it starts from. A hold on an account locks only the row of the account.
func (a *applying) lock(b *pgx.Batch) {
	s, n := a.subject, a.about
	customer := cmp.Or(s.Customer, n[fold.KindSubscription], n[fold.KindInvoice], a.facts[0].Object)
	switch {
	case a.how == inScratch || a.holds != "":
	case n.pays():
		b.Queue(lockPaymentSQL, s.Mode, n[fold.KindPayment], n[fold.KindCheckout])
		b.Queue(lockInvoiceSQL, s.Mode, n[fold.KindPayment], n[fold.KindInvoice])
		b.Queue(lockCustomersSQL, s.Mode, n[fold.KindPayment], n[fold.KindInvoice], n[fold.KindSubscription],
			n[fold.KindCheckout],
			customer)
	default:
		var locks []string
		if n[fold.KindInvoice] != "" {
			locks = append(locks, "invoice "+s.Mode+" "+n[fold.KindInvoice])
		}
		b.Queue(lockSQL, append(locks, "customer "+s.Mode+" "+customer))
	}
}

func (a *applying) collectFacts(rows pgx.Rows) error {
	facts, err := pgx.CollectRows(rows, ScanFact)
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
		return a.before.Add(fold.Kind(what), state)
	})
	return err
}

// fold computes the objects from their facts, and assigns them and the objects that belong to them to accounts. It does
// not access the database.
func (a *applying) fold(context.Context) error {
	a.now, a.folded = maps.Clone(a.before), map[fold.Key]bool{}
	with := fold.Related{Facts: a.known, Objects: a.now, Policy: a.policy}
	put := func(o fold.Object) { a.now[fold.KeyOf(o)], a.folded[fold.KeyOf(o)] = o, true }
	for _, id := range fact.Unique(a.refunds) {
		r := fold.RefundOf(id, a.known[id])
		if before := fold.Find[*fold.Refund](a.before, id); before != nil && a.again.Job == "" {
			r.Tax, r.Taxed = before.Tax, before.Taxed
		}
		put(r)
	}
	if a.settles {
		a.told = with.Unexplained(a.about[fold.KindPayment])
	}
	for _, f := range a.told {
		a.known[f.Object] = []fact.Fact{f}
		put(fold.RefundOf(f.Object, []fact.Fact{f}))
	}
	for _, k := range fold.Kinds {
		id := a.about[k.None.Kind()]
		if id == "" || k.None.Kind() == fold.KindRefund {
			continue
		}
		if o := k.Fold(id, with); o != nil {
			if p, ok := o.(*fold.Payment); ok { // its invoice may be known only from facts
				a.about.add(names{fold.KindInvoice: p.Invoice})
			}
			if i, ok := o.(*fold.Invoice); ok && a.again.Job != "" {
				i.Reread(fold.Find[*fold.Invoice](a.before, id))
			}
			put(o)
			a.subject.Customer = cmp.Or(a.subject.Customer, o.Reference().Customer)
		}
	}
	for _, k := range []fold.Kind{fold.KindSubscription, fold.KindInvoice, fold.KindCheckout, fold.KindPayment,
		fold.KindRefund, fold.KindDispute,
		fold.KindWarning, fold.KindCredit} {
		for _, o := range a.now.List() {
			if o.Kind() == k && a.concerned(o) {
				o = fold.Copy(o)
				o.Assign(with)
				announce(o, a.before[fold.KeyOf(o)])
				a.now[fold.KeyOf(o)] = o
			}
		}
	}
	for _, o := range a.now.List() {
		was := a.before[fold.KeyOf(o)]
		if a.folded[fold.KeyOf(o)] || learnt(o, was) {
			a.change.After.Add(o)
			if was != nil {
				a.change.Before.Add(was)
			}
		}
	}
	a.change.After.ReviewPaidAfterEnd(a.now)
	return nil
}

// learnt reports whether the owner of an object has become better known. It returns false for kinds that are published
// only when their owner is known.
func learnt(o, was fold.Object) bool {
	waits := slices.Contains([]fold.Kind{fold.KindRefund, fold.KindDispute, fold.KindWarning, fold.KindCredit},
		o.Kind())
	return waits && was != nil && o.OwnerRank() > was.OwnerRank()
}

// concerned reports whether the facts may change the owner of an object. It returns true if the facts are about the
// object, its customer or its invoice, or if the object belongs to a payment.
func (a *applying) concerned(o fold.Object) bool {
	ref := o.Reference()
	switch o.Kind() {
	case fold.KindRefund, fold.KindDispute, fold.KindWarning:
		return true
	case fold.KindPayment, fold.KindCredit:
		if a.folded[fold.Key{Kind: fold.KindInvoice, ID: ref.Invoice}] {
			return true
		}
	case fold.KindInvoice:
		// an invoice moves together with its subscription
		if i := o.(*fold.Invoice); i.Subscription != "" && !a.folded[fold.KeyOf(o)] {
			return i.AtCheckout && a.folded[fold.Key{Kind: fold.KindSubscription, ID: i.Subscription}]
		}
	}
	return a.folded[fold.KeyOf(o)] || a.linked && ref.Customer == a.subject.Customer || a.mayName(ref.Customer)
}

// mayName reports whether a subscription of the customer was computed. Its metadata may now name another account for
// the customer.
func (a *applying) mayName(customer string) bool {
	s := fold.Find[*fold.Subscription](a.now, a.about[fold.KindSubscription])
	return s != nil && a.folded[fold.KeyOf(s)] && customer != "" && s.Customer == customer
}

// announce decides which events of an object are published. It keeps the events that were published before. It adds new
// events only if the account and the purchase of the object are known.
func announce(o, was fold.Object) {
	ref := o.Reference()
	if was != nil {
		ref.Announced = was.Reference().Announced
	}
	if ref.Account != "" && ref.Purchase != "" {
		ref.Announced = fact.Unique(slices.Concat(ref.Announced, o.Announces()))
	}
}

// touched returns the objects to write: It returns computed objects, objects that moved to another account, and objects
// with a better known owner.
func (a *applying) touched() []fold.Object {
	return slices.DeleteFunc(a.now.List(), func(o fold.Object) bool {
		was := a.before[fold.KeyOf(o)]
		return !a.folded[fold.KeyOf(o)] && !learnt(o, was) &&
			(was == nil || was.Reference().Account == o.Reference().Account)
	})
}
