package flowtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A company is a simulated Stripe customer with its history, according to Stripe's rules and in double-entry
// accounts. The model does not use pawl's code, because it checks pawl's results.
type company struct {
	*rand.Rand
	tag string
	// v is the API version of its events.
	v version
	manner
	begun, now time.Time
	// names is the object that names our account: the session, the subscription or the customer.
	names    string
	currency string
	taxed    bool
	// coupon is a discount in percent.
	coupon int64
	// deleted is set after the customer was deleted. A deleted customer gets no e-mail.
	deleted bool
	// extras is the number of items besides the plan's item, and place is the position of the plan's item.
	extras, place int
	// invoiced is set if the customer gets invoices and pays them manually.
	invoiced bool
	sub      worldSubscription
	invoices []*worldInvoice
	// credit is the customer's balance at Stripe, which reduces the next invoice.
	credit int64
	// pending are the lines for the next invoice.
	pending []worldLine
	books   books
	// moved contains the company's balance transactions, if pawl fetches them; see [company.moves].
	moved  map[string]balance
	events []shown
	// told contains all events, including events of types that the endpoint does not receive. The simulated API
	// reflects all of them.
	told   []shown
	counts map[string]int
	// tax is the tax in the received and refunded money.
	tax int64
	// mails lists the expected receipts.
	mails    []string
	disputes []*worldDispute
	// sales are the purchases besides the subscription, and partial payments of invoices.
	sales []*sale
	// letters counts the expected e-mails, except receipts, if the events arrive in order.
	letters map[string]int
	// may lists e-mails, receipts and tasks that depend on the order of the events.
	may map[string]bool
	// twin is a second subscription, which belongs to a second customer. While second is set, actions apply to the
	// twin.
	twin   worldSubscription
	second bool
	// partial is set if no event contained all items of its subscription.
	partial bool
	// plan is the plan of the next purchase, and scheduled the plan from the next period on; "" means random.
	plan, scheduled string
	story           []string
	// kinds counts the scenarios by kind.
	kinds map[string]int
}

// A manner describes the scenarios of a company and the delivery of its events.
type manner struct {
	// atOnce is set if the events arrive in any order and must still be assigned to the right account.
	atOnce bool
	// healthy excludes failures and missing data.
	healthy bool
	// asked is set if pawl fetches balance transactions from the API.
	asked bool
	// live is set if pawl reads an event only after all changes of its second.
	live bool
	// today is the time of the delivery. With cut, the history continues after it.
	today time.Time
	cut   bool
	// paidPlans is set if policy.grant_plan_on is "payment", takes if a dispute revokes access, and refuses if the
	// workspace service rejects a plan.
	paidPlans, takes, refuses bool
	// nth is the index of a company, which selects its first scenario.
	nth int
}

// over is the panic value that ends a history at the day of delivery.
type over struct{}

// books are the balances of a double-entry ledger's accounts, debits positive. Each posting keeps their sum at 0.
type books map[string]int64

func (b books) post(debit, credit string, amount int64) {
	b[debit] += amount
	b[credit] -= amount
}

// balance is the change of Stripe's balance in one currency, and Stripe's fees.
type balance struct{ amount, fee int64 }

// inDollars converts an amount to the currency of the company's Stripe account: dollars, at five for four of any other
// currency.
func (c *company) inDollars(amount int64) int64 {
	if c.currency == "usd" {
		return amount
	}
	return amount * 5 / 4
}

// moves records one balance transaction.
func (c *company) moves(amount, fee int64) {
	b := c.moved["usd"]
	c.moved["usd"] = balance{b.amount + amount, b.fee + fee}
}

// charged returns the balance transaction of a charge with a fee of 2.9 % and 30 cents.
func (c *company) charged(amount int64) {
	gross := c.inDollars(amount)
	c.moves(gross, gross*29/1000+30)
}

type worldSubscription struct {
	id, status, plan string
	// granted is the plan that the subscription grants.
	granted, schedule string
	seats             int64
	start, end        time.Time // of the current period
	trialEnd          time.Time
	begun, ended      time.Time
	// unpaid is when the subscription became past due.
	unpaid time.Time
	// cancels is set if the subscription ends with the period; paused is set while its invoices are voided.
	cancels, paused bool
}

type worldLine struct {
	plan       string
	seats      int64
	amount     int64
	start, end time.Time
	proration  bool
}

type worldInvoice struct {
	id, sub, status, reason                 string
	lines                                   []worldLine
	subtotal, off, tax, total, applied      int64
	due, paid                               int64
	attempts                                int
	finalized, once, named, part            bool
	held                                    int64
	outOfBand                               bool
	payment, charge                         string
	made, opened, settled, payBy, retried   time.Time
	returned, credited, disputed, credited0 int64 // amounts: refunds, and credit notes after and before the payment
	refunds                                 []*worldRefund
}

// taxIn is the tax in a part of an invoice.
func (i *worldInvoice) taxIn(amount int64) int64 {
	if i.total == 0 {
		return 0
	}
	return i.tax * amount / i.total
}

type worldRefund struct {
	id, status string
	amount     int64
	made       time.Time
	of         *worldInvoice
}

type worldDispute struct {
	id, status string
	of         *worldInvoice
	moves      []payload
	opened     time.Time
}

type worldNote struct {
	id                    string
	before, after, refund int64
	by                    *worldRefund
	of                    *worldInvoice
}

var monthly = map[string]int64{"starter": 1000, "pro": 3000, "enterprise": 9000}

// newCompany generates the history of a company twice: first to measure its length, then with a start that lets it
// end today, including purchases of a week. If cut is set, the history continues after today. No event is close to
// the current time.
func newCompany(random func() *rand.Rand, tag string, v version, m manner) *company {
	told := m.today.Add(-30 * time.Minute).Truncate(time.Second)
	if m.cut {
		days := random()
		return live(random(), tag, v, m, told.Add(-time.Duration(pick(days, 12+days.IntN(3), 5+days.IntN(60)))*aDay))
	}
	first := live(random(), tag, v, m, told)
	return live(random(), tag, v, m, told.Add(-first.now.Sub(told)-9*aDay))
}

func live(random *rand.Rand, tag string, v version, m manner, begin time.Time) (c *company) {
	c = &company{Rand: random, tag: tag, v: v, manner: m, begun: begin, now: begin, books: books{}, moved: map[string]balance{}, counts: map[string]int{}, letters: map[string]int{}, may: map[string]bool{}, kinds: map[string]int{}}
	defer func() {
		if r := recover(); r != nil {
			if _, ended := r.(over); !ended {
				panic(r)
			}
		}
	}()
	c.names = pick(c.Rand, "session", "subscription", "customer")
	c.currency = pick(c.Rand, "usd", "eur", "jpy")
	c.taxed, c.invoiced = c.chance(2), c.chance(4)
	if c.chance(4) {
		c.coupon = pick(c.Rand, int64(20), 50, 100)
	}
	switch { // no event contains all items: the plan's item is in the event, or the API returns it
	case c.refuses || c.takes:
		c.invoiced, c.coupon = false, 0
	case c.asked && c.chance(4):
		c.extras, c.place = 11, c.IntN(12)
	case !c.asked && !c.healthy && (c.chance(8) || c.nth%4 == 1):
		c.extras, c.place, c.partial = 11, c.IntN(10), true
		c.did("has twelve items, and no key fetches them")
	}
	c.did("is a customer, named by its %s, %s, version %s, with %d more items", c.names, c.currency, c.v, c.extras)
	c.shows("customer.created", c.customerObject(), nil)
	if c.chance(5) && (c.names == "customer" || !c.cut) { // otherwise it is possible that no event names the account
		c.sell()
		c.wait(time.Duration(1+c.IntN(3)) * aDay)
	}
	if c.refuses {
		c.isRefused()
		return c
	}
	c.signUp()
	c.purposely()
	for range 2 {
		if c.month(); c.sub.status == "canceled" && c.chance(2) {
			c.wait(time.Duration(1+c.IntN(9)) * aDay)
			c.signUp()
		}
	}
	c.wait(time.Duration(c.IntN(4*24)) * time.Hour)
	if c.whim(); c.chance(6) {
		c.isDeleted()
	}
	return c
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// chance returns true once in n times on average.
func (c *company) chance(n int) bool { return c.IntN(n) == 0 }

// wrong is chance for events that a healthy company never has.
func (c *company) wrong(n int) bool { return c.chance(n) && !c.healthy && !c.takes && !c.refuses }

func (c *company) wait(d time.Duration) {
	if c.now = c.now.Add(d); c.cut && c.now.After(c.today.Add(-30*time.Minute)) {
		panic(over{})
	}
}

func (c *company) account() string { return "acme" + c.tag }

func (c *company) id(kind string) string {
	c.counts[kind]++
	return fmt.Sprintf("%s_%d%s", kind, c.counts[kind], c.tag)
}

func (c *company) customer() string {
	if c.second {
		return "cus_2" + c.tag
	}
	return "cus" + c.tag
}

func (c *company) did(format string, args ...any) {
	if !strings.HasPrefix(format, " ") {
		c.kinds[kindOf(format)]++
	}
	c.story = append(c.story, c.now.UTC().Format("01-02 15:04:05 ")+fmt.Sprintf(format, args...))
}

// kindOf returns the kind of scenario that a format string describes.
func kindOf(format string) string {
	kind, _, _ := strings.Cut(format, "%")
	return strings.TrimSuffix(strings.TrimSpace(kind), ":")
}

// signUp creates the subscription: at the Checkout or by the API, with or without a trial.
func (c *company) signUp() {
	c.did("signs up")
	c.pending = nil
	plan := pick(c.Rand, "starter", "pro")
	if c.plan != "" {
		plan = c.plan
	}
	c.sub = worldSubscription{id: c.id("sub"), plan: plan, granted: plan, seats: 1 + c.Int64N(5), begun: c.now, start: c.now, end: c.now.Add(aMonth)}
	switch {
	case c.chance(4) && c.counts["sub"] == 1 && !c.refuses:
		c.sub.status, c.sub.trialEnd, c.sub.end = "trialing", c.now.Add(14*aDay), c.now.Add(14*aDay)
	case c.invoiced || c.coupon == 100 || c.chance(2):
		c.sub.status = "active"
	default:
		c.sub.status = "incomplete"
	}
	c.shows("customer.subscription.created", c.subscriptionObject(), nil)
	i := c.bill("subscription_create")
	c.finalize(i)
	if c.invoiced && i.due > 0 {
		c.session("paid", i)
		c.collect(i)
	} else if c.sub.status == "incomplete" && i.due > 0 && c.wrong(3) {
		if c.decline(i); c.chance(3) {
			c.wait(23 * time.Hour)
			c.give(i, "void", "invoice.voided")
			c.changes(func() { c.sub.status = "incomplete_expired" })
			c.signUp()
			return
		}
		c.wait(time.Minute)
	}
	if i.paid == 0 {
		c.pay(i)
	}
	if c.sub.status == "incomplete" {
		c.changes(func() { c.sub.status = "active" })
	}
	if !c.invoiced || i.due == 0 {
		c.session("paid", i)
	}
	if c.sub.status == "trialing" {
		c.wait(11 * aDay)
		c.shows("customer.subscription.trial_will_end", c.subscriptionObject(), nil)
		c.hearsOfTrial()
		c.wait(c.sub.trialEnd.Sub(c.now))
		c.renew()
	}
}

// month generates the events until the subscription renews.
func (c *company) month() {
	for range 1 + c.IntN(3) {
		if c.wait(time.Duration(1+c.IntN(6*24)) * time.Hour); c.sub.status != "active" {
			return
		}
		c.whim()
	}
	if c.sub.status != "active" || !c.now.Before(c.sub.end) {
		return
	}
	if c.wait(c.sub.end.Sub(c.now)); c.sub.cancels {
		c.end()
		return
	}
	c.renew()
}

// whim performs one random action of the customer or of support.
func (c *company) whim() {
	paid := c.refundable()
	switch n := c.IntN(16); {
	case n >= 14:
		pick(c.Rand, agenda...)(c)
		return
	case n >= 12:
		c.sell()
		return
	case c.sub.status != "active", !c.now.Before(c.sub.end): // Stripe renews or ends the subscription at this time
	case c.paidPlans && n < 3:
		c.hasSchedule()
		return
	case c.takes && (n < 3 || n == 8):
	case n == 0 && c.chance(2):
		c.replaces()
		return
	case n < 3:
		c.upgrade()
		return
	case n < 5:
		c.did("changes its mind about the end")
		c.changes(func() { c.sub.cancels = !c.sub.cancels })
		return
	case n == 5:
		c.end()
		return
	case n == 6 || n == 7:
		c.sell()
		return
	case n == 8 && c.healthy:
		return
	case n == 8:
		c.did("has its collection paused, or resumed")
		c.changes(func() { c.sub.paused = !c.sub.paused })
		return
	}
	if len(paid) == 0 {
		return
	}
	i := paid[c.IntN(len(paid))]
	rest := i.due - i.returned - i.credited
	deed := c.IntN(4)
	if c.healthy {
		deed = pick(c.Rand, 0, 2)
	}
	switch deed {
	case 0:
		c.refund(i, pick(c.Rand, rest, max(1, rest/3)))
	case 1:
		if i.returned+i.credited == 0 {
			c.dispute(i)
		}
	case 2:
		if i.id != "" && !i.part {
			c.credits(i, max(1, rest/2), c.chance(2))
		}
	case 3:
		r := c.refund(i, max(1, rest/4))
		c.wait(2 * aDay)
		c.fail(r)
	}
}

// refundable lists the payments that can still be refunded.
func (c *company) refundable() []*worldInvoice {
	paid := slices.DeleteFunc(slices.Clone(c.invoices), func(i *worldInvoice) bool {
		return i.status != "paid" || i.charge == "" || i.disputed > 0 || i.paid > i.due || i.due-i.returned-i.credited == 0
	})
	for _, s := range c.sales {
		if s.disputed == 0 && s.due > s.returned {
			paid = append(paid, s.worldInvoice)
		}
	}
	return paid
}

// changes applies a change and sends the subscription with its previous values.
func (c *company) changes(change func()) {
	before, old := c.subscriptionObject(), c.sub
	if change(); c.sub.status == "past_due" && old.status != "past_due" {
		c.sub.unpaid = c.now
	}
	now := c.subscriptionObject()
	was := payload{}
	for field, value := range before {
		if !same(value, now[field]) {
			was[field] = value
		}
	}
	c.shows("customer.subscription.updated", now, was)
	c.hearsOfChange(old)
}

// upgrade changes plan or seats. The price difference for the rest of the month is billed with the next invoice, or
// at once.
func (c *company) upgrade() {
	if c.chance(6) { // the next invoice has more than ten lines
		for range 5 {
			if c.change(); !c.now.Add(6 * time.Hour).Before(c.sub.end) {
				return
			}
			c.wait(time.Hour)
		}
	}
	if c.change(); c.chance(2) {
		i := c.bill("subscription_update")
		c.finalize(i)
		c.collect(i)
	}
}

// change performs one change of plan or seats.
func (c *company) change() {
	old := c.sub
	c.changes(func() {
		if c.chance(2) {
			c.sub.seats = 1 + c.Int64N(9)
		} else {
			c.sub.plan = pick(c.Rand, "starter", "pro", "enterprise")
		}
		c.lowers()
	})
	c.prorates(old)
}

// prorates adds the price difference for the rest of the month to the next invoice.
func (c *company) prorates(old worldSubscription) {
	c.did("changes from %s %d to %s %d", old.plan, old.seats, c.sub.plan, c.sub.seats)
	c.pending = append(c.pending,
		worldLine{plan: old.plan, seats: old.seats, amount: -c.left(old), start: c.now, end: c.sub.end, proration: true},
		worldLine{plan: c.sub.plan, seats: c.sub.seats, amount: c.left(c.sub), start: c.now, end: c.sub.end, proration: true})
}

// left returns the price of the subscription for the rest of the month.
func (c *company) left(of worldSubscription) int64 {
	return monthly[of.plan] * of.seats * int64(of.end.Sub(c.now)/time.Hour) / (30 * 24)
}

// replaces ends the subscription, and the credit for the rest of the month pays a part of a new subscription.
func (c *company) replaces() {
	c.did("replaces its subscription")
	c.pending = append(c.pending, worldLine{plan: c.sub.plan, seats: c.sub.seats, amount: -c.left(c.sub), start: c.now, end: c.sub.end, proration: true})
	i := c.bill("subscription_update")
	c.finalize(i)
	c.collect(i)
	c.end()
	c.signUp()
}

// isDeleted deletes the customer, which ends its subscription: https://docs.stripe.com/api/customers/delete
func (c *company) isDeleted() {
	if c.names == "customer" { // if pawl reads a thin event later, the deleted customer names no account
		return
	}
	c.wait(time.Hour)
	c.did("is deleted")
	if c.sub.status != "canceled" && c.sub.status != "incomplete_expired" {
		c.end()
	}
	c.deleted = true
	c.shows("customer.deleted", c.customerObject(), nil)
}

// renew starts the next period and collects its invoice.
func (c *company) renew() {
	c.changes(func() {
		if c.sub.status, c.sub.start, c.sub.end = "active", c.sub.end, c.sub.end.Add(aMonth); c.scheduled != "" {
			c.sub.plan, c.scheduled = c.scheduled, ""
			c.lowers()
		}
	})
	i := c.bill("subscription_cycle")
	c.wait(time.Hour)
	c.finalize(i)
	c.collect(i)
}

// collect pays an invoice: at once, after some failed attempts, or manually by the customer.
func (c *company) collect(i *worldInvoice) {
	switch {
	case i.due == 0:
	case c.sub.paused && i.reason == "subscription_cycle":
		c.give(i, "void", "invoice.voided")
		return
	case c.invoiced:
		c.wait(time.Duration(1+c.IntN(9)) * aDay)
		if c.chance(4) {
			c.creditsBefore(i, i.due/4)
		}
		if c.wrong(5) && i.reason != "subscription_update" {
			c.wait(i.payBy.Sub(c.now))
			c.did("is late with %s", i.id)
			c.shows("invoice.overdue", c.invoiceObject(i), nil)
			c.hearsOfFailure(i)
			c.changes(func() { c.sub.status = "past_due" })
			c.wait(2 * aDay)
		}
		switch {
		case c.v >= basil && i.due > 2 && c.chance(3):
			c.paysPart(i)
		default:
			i.outOfBand = c.chance(3)
		}
	case i.reason == "subscription_cycle" && c.wrong(4):
		c.did("has no money for %s", i.id)
		c.decline(i)
		c.changes(func() { c.sub.status = "past_due" })
		c.wait(3 * aDay)
		if c.chance(2) {
			c.decline(i)
			c.wait(5 * aDay)
		}
		if c.chance(4) {
			c.give(i, "uncollectible", "invoice.marked_uncollectible")
			c.end()
			return
		}
	}
	c.pay(i)
	if c.sub.status == "past_due" {
		c.changes(func() { c.sub.status = "active" })
	}
}

// give closes an invoice that will never be paid.
func (c *company) give(i *worldInvoice, status, kind string) {
	if i.status = status; c.live && c.now.Equal(i.opened) {
		delete(c.letters, "pay "+i.id) // pawl reads the thin events after the invoice was closed
	}
	c.books.post("lost", "due", i.due-i.paid)
	c.shows(kind, c.invoiceObject(i), nil)
}

// bill drafts an invoice with the pending lines and the new period.
func (c *company) bill(reason string) *worldInvoice {
	i := &worldInvoice{id: c.id("in"), sub: c.sub.id, status: "draft", reason: reason, lines: c.pending, made: c.now}
	c.pending = nil
	if reason == "subscription_create" || reason == "subscription_cycle" {
		amount := monthly[c.sub.plan] * c.sub.seats
		if c.sub.status == "trialing" {
			amount = 0
		}
		i.lines = append(i.lines, worldLine{plan: c.sub.plan, seats: c.sub.seats, amount: amount, start: c.sub.start, end: c.sub.end})
	}
	c.total(i)
	return i
}

// total adds up the lines of a draft invoice.
func (c *company) total(i *worldInvoice) {
	c.invoices = append(c.invoices, i)
	for _, l := range i.lines {
		i.subtotal += l.amount
	}
	if i.subtotal > 0 && !i.once {
		i.off = i.subtotal * c.coupon / 100
	}
	if c.taxed {
		i.tax = (i.subtotal - i.off) * 19 / 100
	}
	i.total = i.subtotal - i.off + i.tax
	i.due = max(0, i.total)
	c.shows("invoice.created", c.invoiceObject(i), nil)
}

// finalize opens an invoice. The customer's balance pays it first; a negative invoice increases the balance.
func (c *company) finalize(i *worldInvoice) {
	c.books.post("due", "sales", i.subtotal-i.off)
	c.books.post("due", "tax", i.tax)
	i.applied = min(c.credit, i.total)
	c.books.post("balance", "due", i.applied)
	c.credit -= i.applied
	i.status, i.due, i.finalized, i.opened = "open", i.total-i.applied, true, c.now
	c.did("is billed %s: %d, of it from the balance %d", i.id, i.total, i.applied)
	if i.due == 0 {
		i.status, i.settled = "paid", c.now
	} else if c.invoiced {
		if i.payBy = c.now.Add(14 * aDay); i.payBy.Before(c.today) {
			c.hearsOfFailure(i) // pawl reads thin events after the due date
		}
	}
	if i.applied != 0 {
		c.shows("customer.updated", c.customerObject(), nil)
	}
	c.shows("invoice.finalized", c.invoiceObject(i), nil)
	if i.status == "paid" {
		c.covers(i)
	}
}

func (c *company) decline(i *worldInvoice) {
	i.attempts++
	i.retried = c.now.Add(3 * aDay)
	c.shows("invoice.payment_failed", c.invoiceObject(i), nil)
	c.hearsOfFailure(i)
}

func (c *company) pay(i *worldInvoice) {
	rest, of := i.due-i.paid, i
	if i.paid > 0 {
		of = i.rest(c, rest)
	}
	i.status, i.paid, i.settled = "paid", i.due, c.now
	c.books.post("bank", "due", rest)
	if c.invoiced && c.v >= basil && of == i && i.due > 0 && !i.outOfBand && c.chance(4) {
		over := i.due / 5
		i.paid, c.credit = i.paid+over, c.credit+over
		c.books.post("bank", "balance", over)
		c.shows("customer.updated", c.customerObject(), nil)
	}
	if i.due > 0 {
		c.tax += i.taxIn(rest)
		c.mails = append(c.mails, i.id)
	}
	if i.due > 0 && !i.outOfBand {
		i.attempts++
		c.charges(of)
	}
	if c.live && i.settled.Equal(i.opened) {
		delete(c.letters, "pay "+i.id)
	}
	c.did("pays %s: %d of %d", i.id, i.paid, i.due)
	if i.paid > i.due {
		c.shows("invoice.overpaid", c.invoiceObject(i), nil)
	}
	for _, kind := range []string{"invoice.updated", "invoice.paid", "invoice.payment_succeeded"} {
		c.shows(kind, c.invoiceObject(i), nil)
	}
	c.covers(i)
}

// session sends the customer's first Checkout.
func (c *company) session(status string, i *worldInvoice) {
	if c.names == "session" {
		c.shows("checkout.session.completed", c.sessionObject(payload{
			"mode": "subscription", "subscription": c.sub.id, "invoice": i.id, "payment_intent": nil, "amount_total": i.total, "payment_status": status,
			"metadata": payload{}, "total_details": payload{"amount_tax": i.tax},
		}), nil)
	}
}

func (c *company) refund(i *worldInvoice, amount int64) *worldRefund {
	r := &worldRefund{id: c.id("re"), status: "succeeded", amount: amount, made: c.now, of: i}
	i.returned, i.refunds = i.returned+amount, append(i.refunds, r)
	c.tax -= i.taxIn(amount)
	c.books.post("returned", "bank", amount)
	c.moves(-c.inDollars(amount), 0)
	c.did("is refunded %d of %s", amount, i.id)
	c.shows("refund.created", c.refundObject(r), nil)
	c.shows("charge.refunded", c.chargeObject(i), nil)
	return r
}

// fail marks a refund as failed.
func (c *company) fail(r *worldRefund) {
	r.status = "failed"
	r.of.returned -= r.amount
	c.tax += r.of.taxIn(r.amount)
	c.books.post("bank", "returned", r.amount)
	c.moves(c.inDollars(r.amount), 0)
	c.did("cannot be refunded %d of %s", r.amount, r.of.id)
	for _, kind := range []string{"refund.failed", "refund.updated", "charge.refund.updated"} {
		c.shows(kind, c.refundObject(r), nil)
	}
}

func (c *company) dispute(i *worldInvoice) {
	d := &worldDispute{id: c.id("dp"), status: "needs_response", of: i, opened: c.now}
	had, _ := c.access()
	c.disputes = append(c.disputes, d)
	if c.takes {
		c.may["letter access-ended acme"+c.tag] = true
		if has, _ := c.access(); had != "" && has == "" && i.id != "" {
			c.letters["access-ended acme"+c.tag] = 1
		}
	}
	i.disputed = i.due
	move := func(amount int64) {
		gross, currency := amount, c.currency
		if c.asked {
			gross, currency = c.inDollars(amount), "usd"
		}
		c.moves(gross, 1500)
		d.moves = append(d.moves, payload{"id": c.id("txn"), "object": "balance_transaction", "amount": gross, "fee": 1500, "net": gross - 1500,
			"currency": currency, "created": c.now.Unix()})
		c.books.post("bank", "disputed", amount)
	}
	c.did("disputes %s", i.id)
	move(-i.due)
	c.shows("charge.dispute.created", c.disputeObject(d), nil)
	c.shows("charge.dispute.funds_withdrawn", c.disputeObject(d), nil)
	if c.chance(3) {
		return
	}
	c.wait(2 * aDay)
	d.status = "under_review"
	c.shows("charge.dispute.updated", c.disputeObject(d), nil)
	if c.wait(3 * aDay); c.chance(2) {
		d.status = "won"
		move(i.due)
		c.shows("charge.dispute.funds_reinstated", c.disputeObject(d), nil)
	} else {
		d.status = "lost"
	}
	c.shows("charge.dispute.closed", c.disputeObject(d), nil)
}

// credits credits a part of a paid invoice, to the customer's balance or as a refund.
func (c *company) credits(i *worldInvoice, amount int64, refunded bool) {
	n := &worldNote{id: c.id("cn"), after: amount, of: i}
	c.did("is credited %d of %s, refunded: %v", amount, i.id, refunded)
	if refunded {
		n.refund, n.by = amount, c.refund(i, amount)
	} else {
		i.credited += amount
		c.credit += amount
		c.books.post("returned", "balance", amount)
		c.shows("customer.updated", c.customerObject(), nil)
	}
	c.shows("credit_note.created", c.noteObject(n), nil)
}

// creditsBefore reduces the amount due of an open invoice with a credit note.
func (c *company) creditsBefore(i *worldInvoice, amount int64) {
	if amount == 0 {
		return
	}
	i.credited0, i.due = i.credited0+amount, i.due-amount
	c.books.post("returned", "due", amount)
	c.did("is credited %d of the open %s", amount, i.id)
	c.shows("invoice.updated", c.invoiceObject(i), nil)
	c.shows("credit_note.created", c.noteObject(&worldNote{id: c.id("cn"), before: amount, of: i}), nil)
}

func (c *company) end() {
	c.did("ends")
	c.sub.status, c.sub.ended = "canceled", c.now
	if c.shows("customer.subscription.deleted", c.subscriptionObject(), nil); c.seatsOfWeeks() == 0 {
		c.hears("subscription-ended", c.sub.id)
	} else { // pawl may read the purchase after policy.subscription_wait
		c.may["letter subscription-ended "+c.sub.id] = true
	}
}

// wants returns the state that pawl must have.
func (c *company) wants() []string {
	var lines []string
	switch plan, seats := c.access(); {
	case plan != "":
		lines = append(lines, fmt.Sprintf("access acme active %s %d", plan, seats))
	case c.names != "session" || c.counts["cs"] > 0: // otherwise no event has named the account
		lines = append(lines, "access acme suspended")
	}
	if cash := c.books["bank"]; cash != 0 {
		lines = append(lines, fmt.Sprintf("cash acme %s %d", c.currency, cash))
	}
	for currency, b := range c.moved {
		if c.asked {
			lines = append(lines, fmt.Sprintf("settled %s %d %d %d", currency, b.amount, b.fee, b.amount-b.fee))
		}
	}
	for _, of := range c.mails {
		lines = append(lines, "mailed "+of)
	}
	if c.lacksItems() {
		lines = append(lines, "asked reconcile "+c.sub.id)
	}
	for _, d := range c.disputes {
		if d.status == "needs_response" {
			lines = append(lines, "asked dispute "+d.id)
		}
	}
	return lines
}

// lacksItems reports whether a task is open that asks for the items that no event contains. The task stays open until
// an event reports the end of the subscription, or a complete list arrives. The task stays open at a planned end and
// at the end of the grace period, because the subscription keeps its status until Stripe reports its end.
func (c *company) lacksItems() bool {
	return c.partial && slices.Contains([]string{"active", "trialing", "past_due"}, c.sub.status)
}

// faults lists errors of the model itself: the accounts do not balance, or they do not match the objects.
func (c *company) faults() (list []string) {
	var sum, open int64
	for _, amount := range c.books {
		sum += amount
	}
	for _, i := range c.invoices {
		if i.status == "open" {
			open += i.due - i.paid
		}
	}
	if sum != 0 || c.books["due"] != open || c.books["balance"] != -c.credit {
		list = append(list, fmt.Sprintf("the books say %v, the objects %d due and %d owed", c.books, open, c.credit))
	}
	return list
}
