package billing

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/ledger"
)

// mostInvoices is how many of a subscription's invoices are read to fold it, the newest: two years of monthly ones. None
// that is older says anything about what it is now, and folding does not cost more with its age.
const mostInvoices = 24

// Apply appends the facts of one event, folds what they are about, and writes what that comes to: rows, and news in the
// outbox. It does so in tx, which also holds the effect's ledger row. Facts that are there already are not appended
// again. at is the time for what the clock ends; the zero time is the database's own, read while the account is locked:
// it never goes back for an account.
//
// Locks, in this order: the payment, then the invoice, that the facts are about or that what they are about belongs to;
// the row of the provider's customer, so that facts of one customer are applied one after the other; then the rows of the
// accounts concerned, by their IDs. So a customer of two accounts, or an account of two customers, cannot make two calls
// wait for each other. Payments and invoices have locks of their own since a refund names no customer.
//
// It takes three round trips. What is read is the facts of the objects, the newest invoices of the subscription, the
// payments of the invoice with their refunds and disputes, and what grants access to the account: not the account's past.
func Apply(ctx context.Context, tx ledger.Tx, facts []Fact, p Policy, effectKey string, at time.Time) (Change, error) {
	return apply(ctx, tx, facts, p, effectKey, at, forGood)
}

// manner is how facts are applied.
type manner int

const (
	// forGood writes the rows that have changed.
	forGood manner = iota
	// inScratch is forGood where nobody else sees what is written: payments and invoices are not locked.
	inScratch
	// repairing writes rows also where the fold says what it did: their columns may say something else.
	repairing
)

// apply is [Apply], in a manner.
func apply(ctx context.Context, tx ledger.Tx, facts []Fact, p Policy, effectKey string, at time.Time, how manner) (Change, error) {
	if len(facts) == 0 {
		return Change{}, nil
	}
	a := applying{tx: tx, policy: p, key: effectKey, at: at, how: how, facts: facts, subject: facts[0].Subject}
	a.name()
	for _, step := range []func(context.Context) error{a.append, a.fold, a.lock, a.write} {
		if err := step(ctx); err != nil {
			return Change{}, fmt.Errorf("apply %d facts of event %s: %w", len(facts), a.subject.EventID, err)
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
	facts   []Fact
	subject Subject

	// subscription and invoice name what the facts are about, "" for none. linked is set where they link the customer,
	// which may move all that is the customer's.
	subscription, invoice string
	linked                bool
	money                 moneyNames
	// holds is the account that they hold or release as a whole, "" for none.
	holds string

	held held
	// about are the facts by their object.
	about map[string][]Fact

	// The following are what is written: what the facts are about, and what moves with the customer. moved are the accounts
	// that something moves from, and to.
	moved         []string
	subscriptions []Subscription
	invoices      []Invoice
	books         books
	// billed are the newest invoices of the subscription that the facts are about, folded.
	billed   []Invoice
	accounts map[string]accountRow
	grants   map[string][]Grant
	change   Change
}

// name finds what the facts are about. An event is about one subscription and one invoice at most.
func (a *applying) name() {
	for _, f := range a.facts {
		a.subject.Customer = cmp.Or(a.subject.Customer, f.Customer)
		a.nameMoney(f)
		switch {
		case f.Kind == InvoiceSeen:
			a.invoice = f.Object
			a.subscription = cmp.Or(a.subscription, f.Invoice.Subscription)
		case f.Kind == Linked && f.Object == f.Customer:
			a.subject.Customer, a.linked = f.Object, true
		case f.Decision != nil && f.Decision.Invoice == f.Object:
			a.invoice = f.Object
		case f.Decision != nil && f.Decision.Checkout == f.Object:
		case f.Decision != nil && f.Decision.Account == f.Object:
			a.holds = f.Object
		case f.Kind == SubscriptionSeen, f.Kind == Linked, f.Decision != nil:
			a.subscription = f.Object
		}
	}
}

// append locks the customer, appends the facts, and reads what they are folded with.
func (a *applying) append(ctx context.Context) error {
	s := a.subject
	b := &pgx.Batch{}
	a.lockMoney(b)
	if !a.money.any() && a.holds == "" { // the account's own row does for a hold
		b.Queue(lockCustomerSQL, s.Mode, s.Provider, s.ProviderAccount, cmp.Or(s.Customer, a.subscription, a.invoice, a.facts[0].Object))
	}
	for _, f := range a.facts {
		data, err := json.Marshal(f.Data)
		if err != nil {
			return err
		}
		b.Queue(appendFactSQL, f.Provider, f.ProviderAccount, f.Mode, f.Kind, f.Object, f.Customer, f.EventID, f.EventType,
			f.ReceiptID, f.OccurredAt, f.Rank, f.Origin, data)
	}
	a.readFacts(b)
	a.readHeld(b)
	if err := a.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	// Nothing follows from what was imported, or occurred before effects began.
	a.change.Silent = a.facts[0].Origin == FromImport || s.OccurredAt.Before(a.policy.EffectsFrom)
	return nil
}

// readFacts reads the facts of all that the facts are about.
func (a *applying) readFacts(b *pgx.Batch) {
	s, n := a.subject, a.money
	a.about = map[string][]Fact{}
	if n.any() {
		about := []string{n.refund, n.dispute, n.warning, n.credit, s.Customer}
		b.Queue(factsOfFamilySQL, s.Mode, n.payment, a.invoice, a.subscription, n.session, about, s.Provider, s.ProviderAccount).Query(a.collectFacts)
		return
	}
	b.Queue(factsSQL, []string{a.subscription, a.invoice, s.Customer}, s.Mode, s.Provider, s.ProviderAccount).Query(a.collectFacts)
}

func (a *applying) collectFacts(rows pgx.Rows) error {
	facts, err := pgx.CollectRows(rows, scanFact)
	for _, f := range facts {
		a.about[f.Object] = append(a.about[f.Object], f)
	}
	a.change.Rows += len(facts)
	return err
}

// fold makes the objects of their facts. Nothing is read or written.
func (a *applying) fold(context.Context) error {
	a.change.Subject = a.facts[0].Subject
	a.foldMoney()
	a.change.Before.Subscription, a.change.Before.Invoice = a.held.subscription, a.held.invoice
	ofCustomer := a.about[a.subject.Customer]
	var invoice *Invoice
	if a.invoice != "" && len(a.about[a.invoice]) > 0 {
		folded := FoldInvoice(a.invoice, a.withHolds(a.about[a.invoice], a.ofInvoice(a.invoice)), a.policy)
		folded.Refunded, folded.RefundedBy = refundedOf(a.books.payments, func(p Payment) bool { return p.Invoice == a.invoice })
		invoice = &folded
	}
	if a.subscription != "" {
		invoices := slices.DeleteFunc(slices.Clone(a.held.billed), func(i Invoice) bool { return i.ID == a.invoice })
		if invoice != nil && invoice.Subscription == a.subscription {
			invoices = append(invoices, *invoice)
		}
		a.billed = invoices
		s := FoldSubscription(a.subscription, a.withHolds(a.about[a.subscription], a.ofSubscription(invoice)), invoices, a.policy)
		s.Account = AccountOf(s.Named, s.Customer, ofCustomer)
		s = s.after(a.held.subscription)
		a.subscriptions = append(a.subscriptions, s)
		a.change.After.Subscription = &s
	}
	if invoice != nil {
		if s := a.change.After.Subscription; s != nil && invoice.Subscription == s.ID {
			invoice.Account = s.Account
		} else {
			invoice.Account = AccountOf(invoice.Named, invoice.Customer, ofCustomer)
		}
		a.invoices = append(a.invoices, *invoice)
		a.change.After.Invoice = invoice
	}
	// What the customer's link moves.
	for _, s := range a.held.subscriptions {
		if moved := AccountOf(s.Named, s.Customer, ofCustomer); s.ID != a.subscription && moved != s.Account {
			a.moved, s.Account = append(a.moved, s.Account, moved), moved
			a.subscriptions = append(a.subscriptions, s)
		}
	}
	for _, i := range a.held.oneOff {
		if moved := AccountOf(i.Named, i.Customer, ofCustomer); i.ID != a.invoice && moved != i.Account {
			a.moved, i.Account = append(a.moved, i.Account, moved), moved
			a.invoices = append(a.invoices, i)
		}
	}
	a.settleMoney()
	return nil
}

// account is the one that the objects belong to now, and others are those that they belonged to before, and that what
// moves with the customer is concerned with.
func (a *applying) account() (account string, others []string) {
	var before string
	switch {
	case a.holds != "":
		return a.holds, nil
	case a.change.After.Subscription != nil:
		account = a.change.After.Subscription.Account
	case a.change.After.Invoice != nil:
		account = a.change.After.Invoice.Account
	case a.money.any():
		account, before = a.accountOfMoney()
	default:
		account = AccountOf("", a.subject.Customer, a.about[a.subject.Customer])
	}
	switch {
	case a.held.subscription != nil:
		before = a.held.subscription.Account
	case a.held.invoice != nil:
		before = a.held.invoice.Account
	}
	others = slices.DeleteFunc(append(slices.Clone(a.moved), before), func(id string) bool { return id == "" || id == account })
	return account, set(others)
}

// lock locks the accounts and reads what grants access to them.
func (a *applying) lock(ctx context.Context) error {
	account, others := a.account()
	b := &pgx.Batch{}
	a.accounts, a.grants = map[string]accountRow{}, map[string][]Grant{}
	for _, id := range set(append(slices.Clone(others), account)) {
		if id == "" {
			continue
		}
		customer := ""
		if id == account {
			customer = a.subject.Customer
		}
		a.lockAccount(b, id, customer)
	}
	a.readHolds(b)
	if err := a.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if a.at.IsZero() {
		for _, row := range a.accounts {
			a.at = latest(a.at, row.Now.UTC())
		}
	}
	a.access(account, others)
	return nil
}

func (a *applying) lockAccount(b *pgx.Batch, id, customer string) {
	b.Queue(lockAccountSQL, a.subject.Mode, id, a.subject.Provider, customer).Query(func(rows pgx.Rows) error {
		row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[accountRow])
		a.accounts[id] = row
		return err
	})
	b.Queue(grantsSQL, a.subject.Mode, id).Query(func(rows pgx.Rows) error {
		grants, err := pgx.CollectRows(rows, scanGrant)
		a.grants[id] = grants
		a.change.Rows += len(grants)
		return err
	})
}

// readHolds folds the holds on an account from its facts, where those that are applied are about it. They are read once
// the account is locked, so that of two who hold and release it the second knows of both.
func (a *applying) readHolds(b *pgx.Batch) {
	if a.holds == "" {
		return
	}
	b.Queue(holdsSQL, a.subject.Mode, a.holds).Query(func(rows pgx.Rows) error {
		facts, err := pgx.CollectRows(rows, scanFact)
		row := a.accounts[a.holds]
		row.Held = OnHold(facts)
		a.accounts[a.holds] = row
		a.change.Rows += len(facts)
		return err
	})
}

func scanGrant(row pgx.CollectableRow) (Grant, error) {
	var g Grant
	var until, ends *time.Time
	err := row.Scan(&g.Object, &g.Plan, &g.Quantity, &g.AddOns, &until, &ends, &g.Because)
	g.Until, g.Ends, g.AddOns = orZero(until), orZero(ends), set(g.AddOns)
	return g, err
}

// access folds the access of the account that the objects belong to, and of the others.
func (a *applying) access(account string, others []string) {
	a.change.Before.Access = a.accessOf(account, a.grants[account])
	written := map[string]bool{}
	for _, s := range a.subscriptions {
		written[s.ID] = true
	}
	for _, i := range a.invoices {
		written[i.ID] = true
	}
	for _, c := range a.ownSessions() {
		written[c.ID] = true
	}
	now := map[string][]Grant{}
	access := func(id string) Access {
		now[id] = Grants(a.subscriptionsOf(id), a.ordersOf(id), false, a.policy)
		kept := slices.DeleteFunc(slices.Clone(a.grants[id]), func(g Grant) bool { return written[g.Object] })
		return a.target(id, append(kept, now[id]...))
	}
	a.change.After.Access = access(account)
	for _, id := range others {
		a.change.Others = append(a.change.Others, access(id))
	}
	a.grants = now
}

// subscriptionsOf are those of an account that are written.
func (a *applying) subscriptionsOf(account string) []Subscription {
	return slices.DeleteFunc(slices.Clone(a.subscriptions), func(s Subscription) bool { return s.Account != account })
}

// ordersOf are what an account has bought once and grants by itself, of what is written.
func (a *applying) ordersOf(account string) (orders []Order) {
	for _, i := range a.invoices {
		if o, grants := i.Order(); grants && i.Account == account {
			orders = append(orders, o)
		}
	}
	for _, c := range a.ownSessions() {
		if o, grants := c.Order(); grants && c.Account == account {
			orders = append(orders, o)
		}
	}
	return orders
}

func (a *applying) accessOf(account string, grants []Grant) Access {
	if account == "" {
		return Access{}
	}
	sortGrants(grants, a.policy)
	return Access{Account: account, Grants: grants, Target: a.accounts[account].target()}
}

// target folds the access of an account with these grants.
func (a *applying) target(account string, grants []Grant) Access {
	access := a.accessOf(account, grants)
	if account == "" {
		return access
	}
	if a.accounts[account].Held {
		access.Grants = nil
	}
	access.Target = TargetOf(access.Grants, a.at, a.policy).After(access.Target)
	return access
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
