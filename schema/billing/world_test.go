package billing_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The folds of everything that some facts tell, put together as the model says; without a database.

const day = 24 * time.Hour

var (
	begin  = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	policy = fact.Policy{
		Prices: prices("starter", "pro", "enterprise"), Accounts: map[fact.Connected]string{{Mode: "live", ID: "acct_9"}: "umbrella"},
		Order: []string{"starter", "pro", "enterprise"},
		Features: map[string][]string{
			"starter": {"projects"}, "pro": {"api", "projects"}, "enterprise": {"api", "audit-log", "projects", "sso"},
		},
		Grace: 21 * day, Renewal: 4 * day, Dunning: []time.Duration{0, 3 * day, 7 * day, 14 * day}, Settle: 10 * time.Minute, Apart: day, Keep: 30 * day,
	}
)

// prices maps each plan's price, and the prices of what is bought once for some times.
func prices(plans ...string) map[string]fact.Price {
	all := map[string]fact.Price{"price_sso": {AddOn: []string{"sso"}}, once("sso", day): {AddOn: []string{"sso"}, For: day}}
	for _, plan := range plans {
		all["price_"+plan] = fact.Price{Plan: plan}
		for _, lasts := range []time.Duration{day, 10 * day, 30 * day, 40 * day, 60 * day, 90 * day} {
			all[once(plan, lasts)] = fact.Price{Plan: plan, For: lasts}
		}
	}
	return all
}

// once is the price of a plan that is bought for a time.
func once(plan string, lasts time.Duration) string { return "price_" + plan + "_" + lasts.String() }

// priced is the plan of a price, and planOf that of a subscription's one item; "" for one that no mapping knows.
func priced(price string) string         { return policy.Prices[price].Plan }
func planOf(s *fact.Subscription) string { return priced(s.Items[0].Price) }

// at returns the time a number of seconds after the beginning.
func at(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }

// monthly is the nth period of a month; the first is 1 and begins at second 0.
func monthly(n int) (start, end time.Time) {
	return begin.Add(time.Duration(n-1) * 30 * day), begin.Add(time.Duration(n) * 30 * day)
}

type world struct {
	subscriptions map[string]fold.Subscription
	invoices      map[string]fold.Invoice
	access        map[string]fold.Access
}

// foldAll folds all facts, as known at a time.
func foldAll(facts []fact.Fact, p fact.Policy, now time.Time) world {
	w := world{map[string]fold.Subscription{}, map[string]fold.Invoice{}, map[string]fold.Access{}}
	about := map[string][]fact.Fact{}
	for _, f := range facts {
		for _, f := range append(fact.LinksOf(f), f) {
			about[f.Object] = append(about[f.Object], f)
		}
	}
	bySubscription := map[string][]fold.Invoice{}
	for object, of := range about {
		switch {
		case of[0].Kind == fact.InvoiceSeen:
			i := fold.InvoiceOf(object, of, p)
			w.invoices[object] = i
			if i.Subscription != "" {
				bySubscription[i.Subscription] = append(bySubscription[i.Subscription], i)
			}
		case strings.HasPrefix(object, "sub_") && bySubscription[object] == nil:
			bySubscription[object] = []fold.Invoice{}
		}
	}
	ofAccount := map[string][]fold.Object{}
	for id, invoices := range bySubscription {
		s := fold.SubscriptionOf(id, about[id], invoices, p)
		w.subscriptions[id] = s
	}
	accountOf := func(named, customer string) string {
		var all []*fold.Subscription
		for _, s := range w.subscriptions {
			all = append(all, &s)
		}
		return cmp.Or(named, fact.LinkOf(about[customer]), fold.NamedFor(customer, all), customer)
	}
	for id, s := range w.subscriptions {
		s.Account = accountOf(s.Named, s.Customer)
		w.subscriptions[id] = s
		ofAccount[s.Account] = append(ofAccount[s.Account], &s)
	}
	for id, i := range w.invoices {
		i.Account = cmp.Or(w.subscriptions[i.Subscription].Account, accountOf(i.Named, i.Customer))
		w.invoices[id] = i
		if i.Order().Granted() {
			ofAccount[i.Account] = append(ofAccount[i.Account], &i)
		}
	}
	for account, objects := range ofAccount {
		a := fold.Access{Account: account}
		if !fact.OnHold(about[account]) {
			a.Grants = billing.Grants(objects, p)
		}
		a.Target = fold.TargetOf(a.Grants, now, p)
		w.access[account] = a
	}
	return w
}

// lines says what the world holds, one object a line.
func (w world) lines() []string {
	var lines []string
	for _, s := range w.subscriptions {
		lines = append(lines, describeSubscription(s))
	}
	for _, i := range w.invoices {
		lines = append(lines, describeInvoice(i))
	}
	for _, a := range w.access {
		lines = append(lines, describeAccess(a))
	}
	slices.Sort(lines)
	return lines
}

// words joins those that are not empty.
func words(list ...string) string {
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), " ")
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

func after(name string, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s+%s", name, t.Sub(begin))
}

func describeSubscription(s fold.Subscription) string {
	return words(s.ID+":", s.Account, cmp.Or(s.Status, "unknown"), cmp.Or(s.Plan, "no-plan"), fmt.Sprint(s.Quantity), after("until", s.Until), after("ends", s.EndsAt),
		after("ended", s.EndedAt), after("past-due", s.PastDueSince), when(s.Evidence, "evidence"), when(s.Uncertain, "uncertain"),
		when(s.Withheld, "withheld"), when(s.Held, "held"), when(s.UnknownPrice != "", "unknown-price="+s.UnknownPrice),
		when(len(s.PaidAfterEnd) > 0, "paid-after-end="+strings.Join(s.PaidAfterEnd, ",")), s.Review)
}

func describeInvoice(i fold.Invoice) string {
	return words(i.ID+":", i.Account, i.Status, i.Plan, fmt.Sprint(i.Paid), when(len(i.Failures) > 0, fmt.Sprint("failed", i.Failures)), i.Review)
}

func describeAccess(a fold.Access) string {
	t := a.Target
	return words(a.Account+":", t.State, t.Plan, when(t.Plan != "", fmt.Sprint(t.Quantity)), strings.Join(t.Features, ","))
}

// A change makes one thing of a fact other than usual.
type change func(*fact.Fact)

// makeFact makes a fact of cus_1; its event's ID is set by [events].
func makeFact(kind fact.Kind, object string, second int, rank fact.Rank, data fact.Data, changes ...change) fact.Fact {
	f := fact.Fact{
		Subject: fact.Subject{Provider: "stripe", Mode: "live", Customer: "cus_1", OccurredAt: at(second)},
		Kind:    kind, Object: object, Rank: rank, Origin: fact.FromEvent, Data: data,
	}
	for _, c := range changes {
		c(&f)
	}
	return f
}

// seen is a snapshot of sub_1 with one seat of a plan in its first period; the price of the plan "" is not mapped.
func seen(second int, rank fact.Rank, status, plan string, changes ...change) fact.Fact {
	return makeFact(fact.SubscriptionSeen, "sub_1", second, rank, fact.Data{Subscription: snapshot(status, plan)}, changes...)
}

func snapshot(status, plan string) *fact.Subscription {
	start, end := monthly(1)
	return &fact.Subscription{
		Status: status, Account: "acme", Start: start,
		Items: []fact.Item{{ID: "si_1", Price: "price_" + plan, Quantity: 1, PeriodStart: start, PeriodEnd: end}},
	}
}

func created(second int, status, plan string, changes ...change) fact.Fact {
	return seen(second, fact.RankCreated, status, plan, changes...)
}

func updated(second int, status, plan string, changes ...change) fact.Fact {
	return seen(second, fact.RankChange, status, plan, changes...)
}

func deleted(second int, plan string, changes ...change) fact.Fact {
	return seen(second, fact.RankEnd, "canceled", plan, append([]change{func(f *fact.Fact) { f.Subscription.EndedAt = at(second) }}, changes...)...)
}

// from says what a subscription was before the change.
func from(status, plan string, changes ...func(*fact.Subscription)) change {
	return func(f *fact.Fact) {
		f.Subscription.Before = snapshot(status, plan)
		for _, c := range changes {
			c(f.Subscription.Before)
		}
	}
}

func with(c func(*fact.Subscription)) change {
	return func(f *fact.Fact) { c(f.Subscription) }
}

func canceling(s *fact.Subscription) { s.CancelAtPeriodEnd = true }

// of says which object, account and customer a fact is about.
func of(object, account, customer string) change {
	return func(f *fact.Fact) {
		f.Object, f.Customer = object, cmp.Or(customer, f.Customer)
		switch {
		case f.Subscription != nil:
			f.Subscription.Account = account
		case f.Invoice != nil:
			f.Invoice.Account = account
		}
	}
}

func origin(o fact.Origin) change { return func(f *fact.Fact) { f.Origin = o } }

// paid is the paid invoice in_N of sub_1, for its nth period.
func paid(n, second int, plan string, changes ...change) fact.Fact {
	return invoice(n, second, "paid", plan, changes...)
}

func invoice(n, second int, status, plan string, changes ...change) fact.Fact {
	start, end := monthly(n)
	in := &fact.Invoice{
		Status: status, Due: 1000, Currency: "usd", Reason: "subscription_cycle", Subscription: "sub_1", Account: "acme",
		Lines: []fact.Line{{Subscription: "sub_1", Price: "price_" + plan, Quantity: 1, Amount: 1000, PeriodStart: start, PeriodEnd: end}},
	}
	if status == "paid" {
		in.Paid = 1000
	}
	return makeFact(fact.InvoiceSeen, fmt.Sprintf("in_%d", n), second, fact.RankChange, fact.Data{Invoice: in}, changes...)
}

// failed is an attempt to collect in_N in vain.
func failed(n, second, attempt int, plan string, changes ...change) fact.Fact {
	return invoice(n, second, "open", plan, append(changes, func(f *fact.Fact) { f.Invoice.Failed, f.Invoice.Attempts = true, attempt })...)
}

// inPeriodOf makes an invoice one for the nth period.
func inPeriodOf(n int) change {
	return func(f *fact.Fact) { f.Invoice.Lines[0].PeriodStart, f.Invoice.Lines[0].PeriodEnd = monthly(n) }
}

func reason(r string) change { return func(f *fact.Fact) { f.Invoice.Reason = r } }

// oneOff makes an invoice one of no subscription, which grants for a time.
func oneOff(grants time.Duration) change {
	return func(f *fact.Fact) {
		f.Invoice.Subscription, f.Invoice.Reason = "", "manual"
		for i := range f.Invoice.Lines {
			f.Invoice.Lines[i].Subscription = ""
			if grants > 0 {
				f.Invoice.Lines[i].Price += "_" + grants.String()
			}
		}
	}
}

func decided(kind fact.Kind, object string, second int, plan string, quantity int64) fact.Fact {
	return makeFact(kind, object, second, fact.RankChange, fact.Data{Decision: &fact.Decision{By: "sink", Prices: []fact.Bought{{Price: "price_" + plan, Quantity: quantity}}}}, origin(fact.FromOperator))
}

// onAccount is a hold on a whole account, or its end.
func onAccount(kind fact.Kind, account string, second int) fact.Fact {
	f := decided(kind, account, second, "", 0)
	f.Customer, f.Decision.Account = "", account
	return f
}

// linked is what a person says about a customer or a subscription of cus_1.
func linked(object string, second int, account string) fact.Fact {
	f := makeFact(fact.Linked, object, second, fact.RankChange, fact.Data{Link: &fact.Link{Account: account}}, origin(fact.FromOperator))
	if strings.HasPrefix(object, "cus_") {
		f.Customer = object
	}
	return f
}

// events gives each fact an event and a receipt of its own. The IDs of events say nothing about their order: backwards
// turns it around.
func events(facts []fact.Fact, backwards bool) []fact.Fact {
	named := slices.Clone(facts)
	for i := range named {
		n := i + 1
		if backwards {
			n = len(named) - i
		}
		if named[i].EventID == "" {
			named[i].EventID = fmt.Sprintf("evt_%d", n)
		}
		named[i].ReceiptID = fmt.Sprintf("00000000-0000-7000-8000-%012d", n)
	}
	return named
}

// orders calls try with each order of the facts, and with each of them delivered once more at the end.
func orders(facts []fact.Fact, try func(delivered []fact.Fact)) {
	for n, order := range permutations(len(facts)) {
		delivered := make([]fact.Fact, 0, len(facts)+1)
		for _, i := range order {
			delivered = append(delivered, facts[i])
		}
		try(append(delivered, facts[n%len(facts)]))
	}
}

// ordersOfRows is orders for a try that writes to a database. It tries a dozen orders at most in the short form, since
// the folds alone are tried in all orders.
func ordersOfRows(facts []fact.Fact, try func(delivered []fact.Fact)) {
	n, every := 0, 1
	for i := range len(facts) {
		every *= i + 1
	}
	step := schematest.OrLong((every-1)/12+1, 1)
	if step > 1 {
		step |= 1 // an even step would leave the last fact at few places
	}
	orders(facts, func(delivered []fact.Fact) {
		if n%step == 0 {
			try(delivered)
		}
		n++
	})
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, shorter := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(shorter), at, n-1))
		}
	}
	return all
}
