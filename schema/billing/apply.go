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
	"github.com/pawlhq/pawl/schema/outbox"
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
		b.Queue(appendFactSQL, f.Provider, f.ProviderAccount, f.Mode, f.Kind, f.Object, f.Customer, f.Account, f.EventID, f.EventType,
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

// write writes the rows and the news.
func (a *applying) write(ctx context.Context) error {
	b := &pgx.Batch{}
	mode := a.subject.Mode
	granted := map[string]bool{}
	for _, given := range a.grants {
		for _, g := range given {
			granted[g.Object] = true
		}
	}
	for _, s := range a.subscriptions {
		state, err := json.Marshal(s)
		if err != nil {
			return err
		}
		b.Queue(writeSubscriptionSQL, mode, s.ID, s.Account, s.Customer, s.Status, s.Plan, s.Quantity, s.Ended(), state)
		if s.Ended() {
			b.Queue(endTasksSQL, mode, s.ID)
		}
		if !granted[s.ID] {
			b.Queue(takeSQL, mode, s.ID)
		}
		if held := a.held.subscription; !a.firstHeard(s.ID) && (held == nil || held.ID != s.ID || held.Account != s.Account) {
			b.Queue(moveInvoicesSQL, mode, s.ID, s.Account)
			if held != nil || a.linked {
				a.moveMoney(b, "subscription", s.ID, s.Account)
			}
		}
	}
	for _, i := range a.invoices {
		if i.ID != a.invoice { // it moves with its customer
			b.Queue(moveSQL("invoices", "id"), mode, i.ID, i.Account)
			a.moveMoney(b, "invoice", i.ID, i.Account)
			continue
		}
		state, err := json.Marshal(i)
		if err != nil {
			return err
		}
		b.Queue(writeInvoiceSQL, mode, i.ID, i.Account, i.Subscription, i.Customer, i.Status, i.Paid, i.Currency,
			i.PeriodStart, i.OccurredAt, a.receiptOf(i), state)
		if i.Subscription == "" && !granted[i.ID] {
			b.Queue(takeSQL, mode, i.ID)
		}
	}
	if err := a.writeMoney(b, granted); err != nil {
		return err
	}
	for _, account := range slices.Sorted(maps.Keys(a.grants)) {
		for _, g := range a.grants[account] {
			b.Queue(giveSQL, mode, g.Object, account, g.Plan, g.Quantity, texts(g.AddOns), orNull(g.Until), orNull(g.Ends), g.Because)
		}
	}
	if a.holds != "" {
		b.Queue(holdSQL, mode, a.holds, a.accounts[a.holds].Held)
	}
	a.ask(b)
	a.schedule(b)
	a.writeAccess(b, a.change.Before.Access.Target, a.change.After.Access)
	a.keep(b, a.change.Before.Access.Target, a.change.After.Access, a.over(a.change.After.Access.Account))
	for _, other := range a.change.Others {
		before := a.accounts[other.Account].target()
		a.writeAccess(b, before, other)
		a.keep(b, before, other, over{a.subject.OccurredAt, causeOf(a.facts[0])})
	}
	if a.holds != "" && a.change.After.Access.Target.Version != a.change.Before.Access.Target.Version { // no run is about such a fact
		a.await(b, a.holds, a.holds, Due{At: a.at, Why: DueHold, Object: a.holds, Cause: causeOf(a.facts[0])})
	}
	if err := a.announce(b); err != nil {
		return err
	}
	return a.tx.SendBatch(ctx, b).Close()
}

// firstHeard reports whether nothing was known of a subscription, and none of its invoices: nothing moves with it, and
// nothing of it is due.
func (a *applying) firstHeard(subscription string) bool {
	return subscription == a.subscription && a.held.subscription == nil && len(a.held.billed) == 0
}

// ask opens the tasks about prices that no mapping knows and about invoices that cannot be finalized, and closes those
// about what is mended by now.
func (a *applying) ask(b *pgx.Batch) {
	settle := func(t settledTask, asks bool) {
		if asks {
			b.Queue(settleTaskSQL, a.subject.Mode, t.Kind, t.Object, t.Account, t.State, t.Title, a.key)
		}
	}
	for _, s := range a.subscriptions {
		settle(planTask(s))
	}
	for _, i := range a.invoices {
		settle(stuckTask(i))
	}
}

// receiptOf is the receipt whose body shows the invoice: that of the last of its facts.
func (a *applying) receiptOf(i Invoice) string {
	ordered := InOrder(a.about[i.ID], InvoiceSeen)
	if len(ordered) == 0 {
		return a.subject.ReceiptID
	}
	return ordered[len(ordered)-1].ReceiptID
}

func (a *applying) writeAccess(b *pgx.Batch, before Target, after Access) {
	t := after.Target
	if after.Account == "" || t.Version == before.Version && a.how != repairing {
		return
	}
	b.Queue(writeTargetSQL, a.subject.Mode, after.Account, t.Version, t.State, t.Plan, t.Quantity, texts(t.Features))
	if before.Version > 0 { // it may have features
		b.Queue(disableFeaturesSQL, a.subject.Mode, after.Account, texts(t.Features))
	}
	if len(t.Features) > 0 {
		b.Queue(enableFeaturesSQL, a.subject.Mode, after.Account, t.Features)
	}
}

// announce writes the news to the outbox.
func (a *applying) announce(b *pgx.Batch) error {
	if a.change.Silent {
		return nil
	}
	var list []news
	if i := a.change.After.Invoice; i != nil {
		list = append(list, newsOfInvoice(a.subject, a.change.Before.Invoice, *i)...)
	}
	if s := a.change.After.Subscription; s != nil {
		list = append(list, newsOfSubscription(a.subject, a.change.Before.Subscription, *s)...)
	}
	list = append(list, newsOfMoney(a.subject, a.change.Before, a.change.After)...)
	list = append(list, newsOfAccess(a.subject, a.change.Before.Access, a.change.After.Access)...)
	for _, other := range a.change.Others {
		list = append(list, newsOfAccess(a.subject, Access{Target: a.accounts[other.Account].target()}, other)...)
	}
	var told []outbox.News
	for _, n := range list {
		data, err := json.Marshal(n.data)
		if err != nil {
			return err
		}
		if n.account != "" {
			told = append(told, outbox.News{Account: n.account, Type: n.kind, Data: data})
		}
	}
	outbox.Write(b, a.subject.Mode, a.subject.ReceiptID, a.key, told)
	return nil
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
