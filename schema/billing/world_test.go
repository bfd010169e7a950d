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

// The functions in this file compute objects from all facts, without a database.

// priced returns the plan of a price, and planOf the plan of a subscription's only item; "" if the price is not
// mapped.
func priced(price string) string         { return policy.Prices[price].Plan }
func planOf(s *fact.Subscription) string { return priced(s.Items[0].Price) }

type world struct {
	subscriptions map[string]fold.Subscription
	invoices      map[string]fold.Invoice
	access        map[string]fold.Access
}

// foldAll computes all objects from the facts as of a time.
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

// lines describes the state, one object per line.
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

// words joins the non-empty strings.
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

// from sets the previous state of a subscription.
func from(status, plan string, changes ...func(*fact.Subscription)) change {
	return func(f *fact.Fact) {
		f.Subscription.Before = snapshot(status, plan)
		for _, c := range changes {
			c(f.Subscription.Before)
		}
	}
}

func canceling(s *fact.Subscription) { s.CancelAtPeriodEnd = true }

// inPeriodOf moves an invoice to the nth period.
func inPeriodOf(n int) change {
	return func(f *fact.Fact) { f.Invoice.Lines[0].PeriodStart, f.Invoice.Lines[0].PeriodEnd = monthly(n) }
}

func reason(r string) change { return func(f *fact.Fact) { f.Invoice.Reason = r } }

// onAccount returns a hold on a whole account, or its release.
func onAccount(kind fact.Kind, account string, second int) fact.Fact {
	f := decided(kind, account, second, "", 0)
	f.Customer, f.Decision.Account = "", account
	return f
}

// linked returns the fact that a person links a customer, or a subscription of cus_1, to an account.
func linked(object string, second int, account string) fact.Fact {
	f := makeFact(fact.Linked, object, second, fact.RankChange, fact.Data{Link: &fact.Link{Account: account}}, origin(fact.FromOperator))
	if strings.HasPrefix(object, "cus_") {
		f.Customer = object
	}
	return f
}

// orders calls try with each order of the facts, and with each fact repeated at the end.
func orders(facts []fact.Fact, try func(delivered []fact.Fact)) {
	for n, order := range permutations(len(facts)) {
		delivered := make([]fact.Fact, 0, len(facts)+1)
		for _, i := range order {
			delivered = append(delivered, facts[i])
		}
		try(append(delivered, facts[n%len(facts)]))
	}
}

// ordersOfRows is like orders, for a function that writes to a database. In the short form of the tests it tries at
// most a dozen orders, because other tests compute the objects in all orders.
func ordersOfRows(facts []fact.Fact, try func(delivered []fact.Fact)) {
	n, every := 0, 1
	for i := range len(facts) {
		every *= i + 1
	}
	step := schematest.OrLong((every-1)/12+1, 1)
	if step > 1 {
		step |= 1 // with an even step, the last fact would be at only a few positions
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
