package billing_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The folds of everything that some facts tell, put together as the model says; without a database.

const day = 24 * time.Hour

var (
	begin  = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	policy = billing.Policy{
		Prices: prices("starter", "pro", "enterprise"), Accounts: map[billing.Connected]string{{Mode: "live", ID: "acct_9"}: "umbrella"},
		Order: []string{"starter", "pro", "enterprise"},
		Features: map[string][]string{
			"starter": {"projects"}, "pro": {"api", "projects"}, "enterprise": {"api", "audit-log", "projects", "sso"},
		},
		Grace: 21 * day, Renewal: 4 * day, Dunning: []time.Duration{0, 3 * day, 7 * day, 14 * day}, Settle: 10 * time.Minute, Apart: day, Keep: 30 * day,
	}
)

// prices maps each plan's price, and the prices of what is bought once for some times.
func prices(plans ...string) map[string]billing.Price {
	all := map[string]billing.Price{"price_sso": {AddOn: []string{"sso"}}, once("sso", day): {AddOn: []string{"sso"}, For: day}}
	for _, plan := range plans {
		all["price_"+plan] = billing.Price{Plan: plan}
		for _, lasts := range []time.Duration{day, 10 * day, 30 * day, 40 * day, 60 * day, 90 * day} {
			all[once(plan, lasts)] = billing.Price{Plan: plan, For: lasts}
		}
	}
	return all
}

// once is the price of a plan that is bought for a time.
func once(plan string, lasts time.Duration) string { return "price_" + plan + "_" + lasts.String() }

// priced is the plan of a price, and planOf that of a subscription's one item; "" for one that no mapping knows.
func priced(price string) string                { return policy.Prices[price].Plan }
func planOf(s *billing.SubscriptionFact) string { return priced(s.Items[0].Price) }

// at returns the time a number of seconds after the beginning.
func at(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }

// monthly is the nth period of a month; the first is 1 and begins at second 0.
func monthly(n int) (start, end time.Time) {
	return begin.Add(time.Duration(n-1) * 30 * day), begin.Add(time.Duration(n) * 30 * day)
}

type world struct {
	subscriptions map[string]billing.Subscription
	invoices      map[string]billing.Invoice
	access        map[string]billing.Access
}

// fold folds all facts, as known at a time.
func fold(facts []billing.Fact, p billing.Policy, now time.Time) world {
	w := world{map[string]billing.Subscription{}, map[string]billing.Invoice{}, map[string]billing.Access{}}
	about := map[string][]billing.Fact{}
	for _, f := range facts {
		for _, f := range append(billing.LinksOf(f), f) {
			about[f.Object] = append(about[f.Object], f)
		}
	}
	bySubscription := map[string][]billing.Invoice{}
	for object, of := range about {
		switch {
		case of[0].Kind == billing.InvoiceSeen:
			i := billing.FoldInvoice(object, of, p)
			w.invoices[object] = i
			if i.Subscription != "" {
				bySubscription[i.Subscription] = append(bySubscription[i.Subscription], i)
			}
		case strings.HasPrefix(object, "sub_") && bySubscription[object] == nil:
			bySubscription[object] = []billing.Invoice{}
		}
	}
	ofAccount := map[string][]billing.Object{}
	for id, invoices := range bySubscription {
		s := billing.FoldSubscription(id, about[id], invoices, p)
		s.Account = billing.AccountOf(s.Named, s.Customer, about[s.Customer])
		w.subscriptions[id] = s
		ofAccount[s.Account] = append(ofAccount[s.Account], &s)
	}
	for id, i := range w.invoices {
		i.Account = cmp.Or(w.subscriptions[i.Subscription].Account, billing.AccountOf(i.Named, i.Customer, about[i.Customer]))
		w.invoices[id] = i
		if i.Order().Granted() {
			ofAccount[i.Account] = append(ofAccount[i.Account], &i)
		}
	}
	for account, objects := range ofAccount {
		a := billing.Access{Account: account}
		if !billing.OnHold(about[account]) {
			a.Grants = billing.Grants(objects, p)
		}
		a.Target = billing.TargetOf(a.Grants, now, p)
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

func describeSubscription(s billing.Subscription) string {
	return words(s.ID+":", s.Account, cmp.Or(s.Status, "unknown"), cmp.Or(s.Plan, "no-plan"), fmt.Sprint(s.Quantity), after("until", s.Until), after("ends", s.EndsAt),
		after("ended", s.EndedAt), after("past-due", s.PastDueSince), when(s.Evidence, "evidence"), when(s.Uncertain, "uncertain"),
		when(s.Withheld, "withheld"), when(s.Held, "held"), when(s.UnknownPrice != "", "unknown-price="+s.UnknownPrice),
		when(len(s.PaidAfterEnd) > 0, "paid-after-end="+strings.Join(s.PaidAfterEnd, ",")), s.Review)
}

func describeInvoice(i billing.Invoice) string {
	return words(i.ID+":", i.Account, i.Status, i.Plan, fmt.Sprint(i.Paid), when(len(i.Failures) > 0, fmt.Sprint("failed", i.Failures)), i.Review)
}

func describeAccess(a billing.Access) string {
	t := a.Target
	return words(a.Account+":", t.State, t.Plan, when(t.Plan != "", fmt.Sprint(t.Quantity)), strings.Join(t.Features, ","))
}

// A change makes one thing of a fact other than usual.
type change func(*billing.Fact)

// fact makes a fact of cus_1; its event's ID is set by [events].
func fact(kind billing.Kind, object string, second int, rank billing.Rank, data billing.Data, changes ...change) billing.Fact {
	f := billing.Fact{
		Subject: billing.Subject{Provider: "stripe", Mode: "live", Customer: "cus_1", OccurredAt: at(second)},
		Kind:    kind, Object: object, Rank: rank, Origin: billing.FromEvent, Data: data,
	}
	for _, c := range changes {
		c(&f)
	}
	return f
}

// seen is a snapshot of sub_1 with one seat of a plan in its first period; the price of the plan "" is not mapped.
func seen(second int, rank billing.Rank, status, plan string, changes ...change) billing.Fact {
	return fact(billing.SubscriptionSeen, "sub_1", second, rank, billing.Data{Subscription: snapshot(status, plan)}, changes...)
}

func snapshot(status, plan string) *billing.SubscriptionFact {
	start, end := monthly(1)
	return &billing.SubscriptionFact{
		Status: status, Account: "acme",
		Items: []billing.Item{{ID: "si_1", Price: "price_" + plan, Quantity: 1, PeriodStart: start, PeriodEnd: end}},
	}
}

func created(second int, status, plan string, changes ...change) billing.Fact {
	return seen(second, billing.RankCreated, status, plan, changes...)
}

func updated(second int, status, plan string, changes ...change) billing.Fact {
	return seen(second, billing.RankChange, status, plan, changes...)
}

func deleted(second int, plan string, changes ...change) billing.Fact {
	return seen(second, billing.RankEnd, "canceled", plan, append([]change{func(f *billing.Fact) { f.Subscription.EndedAt = at(second) }}, changes...)...)
}

// from says what a subscription was before the change.
func from(status, plan string, changes ...func(*billing.SubscriptionFact)) change {
	return func(f *billing.Fact) {
		f.Subscription.Before = snapshot(status, plan)
		for _, c := range changes {
			c(f.Subscription.Before)
		}
	}
}

func with(c func(*billing.SubscriptionFact)) change {
	return func(f *billing.Fact) { c(f.Subscription) }
}

func canceling(s *billing.SubscriptionFact) { s.CancelAtPeriodEnd = true }

// of says which object, account and customer a fact is about.
func of(object, account, customer string) change {
	return func(f *billing.Fact) {
		f.Object, f.Customer = object, cmp.Or(customer, f.Customer)
		switch {
		case f.Subscription != nil:
			f.Subscription.Account = account
		case f.Invoice != nil:
			f.Invoice.Account = account
		}
	}
}

func origin(o billing.Origin) change { return func(f *billing.Fact) { f.Origin = o } }

// paid is the paid invoice in_N of sub_1, for its nth period.
func paid(n, second int, plan string, changes ...change) billing.Fact {
	return invoice(n, second, "paid", plan, changes...)
}

func invoice(n, second int, status, plan string, changes ...change) billing.Fact {
	start, end := monthly(n)
	in := &billing.InvoiceFact{
		Status: status, Due: 1000, Currency: "usd", Reason: "subscription_cycle", Subscription: "sub_1", Account: "acme",
		Lines: []billing.Line{{Subscription: "sub_1", Price: "price_" + plan, Quantity: 1, Amount: 1000, PeriodStart: start, PeriodEnd: end}},
	}
	if status == "paid" {
		in.Paid = 1000
	}
	return fact(billing.InvoiceSeen, fmt.Sprintf("in_%d", n), second, billing.RankChange, billing.Data{Invoice: in}, changes...)
}

// failed is an attempt to collect in_N in vain.
func failed(n, second, attempt int, plan string, changes ...change) billing.Fact {
	return invoice(n, second, "open", plan, append(changes, func(f *billing.Fact) { f.Invoice.Failed, f.Invoice.Attempts = true, attempt })...)
}

// inPeriodOf makes an invoice one for the nth period.
func inPeriodOf(n int) change {
	return func(f *billing.Fact) { f.Invoice.Lines[0].PeriodStart, f.Invoice.Lines[0].PeriodEnd = monthly(n) }
}

func reason(r string) change { return func(f *billing.Fact) { f.Invoice.Reason = r } }

// oneOff makes an invoice one of no subscription, which grants for a time.
func oneOff(grants time.Duration) change {
	return func(f *billing.Fact) {
		f.Invoice.Subscription, f.Invoice.Reason = "", "manual"
		for i := range f.Invoice.Lines {
			f.Invoice.Lines[i].Subscription = ""
			if grants > 0 {
				f.Invoice.Lines[i].Price += "_" + grants.String()
			}
		}
	}
}

func decided(kind billing.Kind, object string, second int, plan string, quantity int64) billing.Fact {
	return fact(kind, object, second, billing.RankChange, billing.Data{Decision: &billing.DecisionFact{By: "sink", Prices: []billing.Bought{{Price: "price_" + plan, Quantity: quantity}}}}, origin(billing.FromOperator))
}

// onAccount is a hold on a whole account, or its end.
func onAccount(kind billing.Kind, account string, second int) billing.Fact {
	f := decided(kind, account, second, "", 0)
	f.Customer, f.Decision.Account = "", account
	return f
}

// linked is what a person says about a customer or a subscription of cus_1.
func linked(object string, second int, account string) billing.Fact {
	f := fact(billing.Linked, object, second, billing.RankChange, billing.Data{Link: &billing.LinkFact{Account: account}}, origin(billing.FromOperator))
	if strings.HasPrefix(object, "cus_") {
		f.Customer = object
	}
	return f
}

// events gives each fact an event and a receipt of its own. The IDs of events say nothing about their order: backwards
// turns it around.
func events(facts []billing.Fact, backwards bool) []billing.Fact {
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
func orders(facts []billing.Fact, try func(delivered []billing.Fact)) {
	for n, order := range permutations(len(facts)) {
		delivered := make([]billing.Fact, 0, len(facts)+1)
		for _, i := range order {
			delivered = append(delivered, facts[i])
		}
		try(append(delivered, facts[n%len(facts)]))
	}
}

// ordersOfRows is orders for a try that writes to a database. It tries a dozen orders at most in the short form, since
// the folds alone are tried in all orders.
func ordersOfRows(facts []billing.Fact, try func(delivered []billing.Fact)) {
	n, every := 0, 1
	for i := range len(facts) {
		every *= i + 1
	}
	step := schematest.OrLong((every-1)/12+1, 1)
	if step > 1 {
		step |= 1 // an even step would leave the last fact at few places
	}
	orders(facts, func(delivered []billing.Fact) {
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
