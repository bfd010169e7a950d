package billing_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A history is a sequence of generated provider events with their facts. The expected state is derived from the
// history with the rules of the billing model, without the code of package fold.
type history struct {
	random        *rand.Rand
	second        int
	facts         []fact.Fact
	subscriptions []*happened
	invoices      []*billed
	links         map[string]string // the account of each linked customer
	sessions      map[string]string // maps a customer to the account that its first session named
	// billed is called for each invoice. It can be nil.
	billed func(*billed)
}

// happened is the state of a subscription at the provider.
type happened struct {
	id, customer string
	is           fact.Subscription
	pastDueSince time.Time
	// known is the newest item with a mapped price. unknown is set if an item had an unmapped price, and granted is
	// set if the subscription ever granted access.
	known            fact.Item
	unknown, granted bool
}

type billed struct {
	of       *happened
	id, plan string
	account  string
	status   string
	at       time.Time
	period   time.Time
	paid     int64
	failures []int
	// stuck is set if the invoice cannot be finalized, or could not be finalized at first.
	stuck bool
}

// newHistory generates a history with the given number of steps.
func newHistory(seed uint64, steps int) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 1)), links: map[string]string{}}
	for range steps {
		h.second += pick(h.random, 0, 0, 0, 1, 5, 24*hour, 9*24*hour)
		h.step()
	}
	h.second += pick(h.random, 1, 30*24*hour)
	return h
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func (h *history) step() {
	alive := slices.DeleteFunc(slices.Clone(h.subscriptions), func(s *happened) bool { return !s.is.EndedAt.IsZero() })
	if len(alive) == 0 || len(h.subscriptions) < 4 && h.random.IntN(6) == 0 {
		h.subscribe()
		return
	}
	s := pick(h.random, alive...)
	switch s.is.Status {
	case "incomplete":
		if h.random.IntN(4) == 0 {
			h.bill(s, "void")
			h.update(s, fact.RankChange, func(is *fact.Subscription) { is.Status, is.EndedAt = "incomplete_expired", at(h.second) })
			return
		}
		h.bill(s, "paid")
		h.update(s, fact.RankChange, func(is *fact.Subscription) { is.Status = "active" })
	case "past_due", "unpaid":
		switch h.random.IntN(4) {
		case 0:
			h.end(s)
		case 1:
			h.update(s, fact.RankChange, func(is *fact.Subscription) { is.Status = "unpaid" })
		default:
			h.bill(s, "paid")
			h.update(s, fact.RankChange, func(is *fact.Subscription) { is.Status = "active" })
		}
	default:
		h.live(s)
	}
}

// live performs one step of an active subscription.
func (h *history) live(s *happened) {
	change := func(c func(*fact.Subscription)) { h.update(s, fact.RankChange, c) }
	switch h.random.IntN(12) {
	case 11:
		h.bill(s, "draft")
	case 10: // an unmapped price; if there were two plans, the newest mapped plan stays
		h.second++
		change(func(is *fact.Subscription) { is.Items[0].Price = "price_new" })
		h.second++
	case 0, 1:
		change(func(is *fact.Subscription) {
			is.Items[0].Price = "price_" + pick(h.random, policy.Order...)
		})
	case 2:
		change(func(is *fact.Subscription) { is.Items[0].Quantity = int64(1 + h.random.IntN(5)) })
	case 3:
		change(func(is *fact.Subscription) { is.CancelAtPeriodEnd = !is.CancelAtPeriodEnd })
	case 4:
		change(func(is *fact.Subscription) { is.Status = pick(h.random, "paused", "active", "trialing") })
	case 5:
		if s.is.Account != "" {
			change(func(is *fact.Subscription) { is.Account = pick(h.random, "acme", "umbrella") })
			return
		}
		h.second++ // the order of two links in the same second is undefined
		h.links[s.customer] = pick(h.random, "hooli", "acme")
		h.tell(linked(s.customer, h.second, h.links[s.customer]))
		h.second++
	case 6:
		h.end(s)
	case 7:
		h.bill(s, pick(h.random, "open", "uncollectible", "void"))
		change(func(is *fact.Subscription) { is.Status = "past_due" })
	case 8:
		h.tell(makeFact(fact.SubscriptionSeen, s.id, h.second, fact.RankNotice, fact.Data{Subscription: clone(s.is)}, customer(s.customer)))
	default:
		h.bill(s, "paid")
		change(func(is *fact.Subscription) {
			is.Items[0].PeriodStart, is.Items[0].PeriodEnd = is.Items[0].PeriodEnd, is.Items[0].PeriodEnd.Add(30*day)
		})
	}
}

func (h *history) subscribe() {
	n := len(h.subscriptions) + 1
	s := &happened{id: fmt.Sprintf("sub_%d", n), customer: pick(h.random, "cus_1", "cus_2")}
	s.is = *snapshot(pick(h.random, "incomplete", "trialing", "active"), pick(h.random, policy.Order...))
	s.is.Account = pick(h.random, "acme", "umbrella", "")
	h.subscriptions = append(h.subscriptions, s)
	s.note()
	h.tell(makeFact(fact.SubscriptionSeen, s.id, h.second, fact.RankCreated, fact.Data{Subscription: clone(s.is)}, customer(s.customer)))
}

func (h *history) end(s *happened) {
	h.update(s, fact.RankEnd, func(is *fact.Subscription) { is.Status, is.EndedAt = "canceled", at(h.second) })
}

func (h *history) update(s *happened, rank fact.Rank, change func(*fact.Subscription)) {
	before := clone(s.is)
	change(&s.is)
	seen := clone(s.is)
	if rank == fact.RankChange {
		seen.Before = before
	}
	s.note()
	switch {
	case s.is.Status != "past_due":
		s.pastDueSince = time.Time{}
	case s.pastDueSince.IsZero():
		s.pastDueSince = at(h.second)
	}
	h.tell(makeFact(fact.SubscriptionSeen, s.id, h.second, rank, fact.Data{Subscription: seen}, customer(s.customer)))
}

// note records the current state of the subscription as a former state.
func (s *happened) note() {
	if item := s.is.Items[0]; planOf(&s.is) != "" {
		s.known = item
	} else {
		s.unknown = true
	}
	s.granted = s.granted || slices.Contains([]string{"active", "trialing", "past_due"}, s.is.Status)
}

// bill creates an invoice of the current plan, and the facts until the invoice has the status.
func (h *history) bill(s *happened, status string) {
	b := &billed{of: s, id: fmt.Sprintf("in_%d", len(h.invoices)+1), plan: planOf(&s.is), account: s.is.Account, status: status, at: at(h.second), period: s.is.Items[0].PeriodStart}
	h.invoices = append(h.invoices, b)
	var told []string
	if b.stuck = status == "draft" || h.random.IntN(6) == 0; b.stuck {
		told = append(told, "draft")
	}
	if status != "draft" {
		told = append(told, "open")
	}
	if status != "draft" && status != "open" {
		told = append(told, status)
	}
	for _, each := range told {
		f := invoice(1, h.second, each, cmp.Or(b.plan, "new"), customer(s.customer))
		f.Object, f.Invoice.Subscription, f.Invoice.Account, f.Invoice.Lines[0].Subscription = b.id, s.id, s.is.Account, s.id
		f.Invoice.Lines[0].PeriodStart, f.Invoice.Lines[0].PeriodEnd = b.period, s.is.Items[0].PeriodEnd
		switch {
		case each == "draft":
			f.Invoice.Stuck = "customer_tax_location_invalid"
		case each == "open" && h.random.IntN(2) == 0:
			f.Invoice.Failed, f.Invoice.Attempts = true, 1
			b.failures = []int{1}
		}
		b.paid = f.Invoice.Paid
		h.tell(f)
	}
	if h.billed != nil {
		h.billed(b)
	}
}

func (h *history) tell(f fact.Fact) {
	f.EventID = fmt.Sprintf("evt_%08x", h.random.Uint32())
	f.ReceiptID = fmt.Sprintf("00000000-0000-7000-8000-%012d", len(h.facts))
	h.facts = append(h.facts, f)
}

func customer(id string) change { return func(f *fact.Fact) { f.Customer = id } }

func clone(s fact.Subscription) *fact.Subscription {
	s.Items = slices.Clone(s.Items)
	return &s
}

func (h *history) account(s *happened) string {
	return cmp.Or(s.is.Account, h.links[s.customer], h.sessions[s.customer], h.namedFor(s.customer), s.customer)
}

// namedFor returns the account of the customer's first subscription that names an account.
func (h *history) namedFor(customer string) string {
	for _, s := range h.subscriptions {
		if s.customer == customer && s.is.Account != "" {
			return s.is.Account
		}
	}
	return ""
}

// ends returns when a scheduled action ends the subscription's grant, or zero.
func (s *happened) ends() time.Time {
	var ends time.Time
	if s.is.CancelAtPeriodEnd && s.is.EndedAt.IsZero() {
		ends = s.is.Items[0].PeriodEnd
	}
	if s.is.Status == "past_due" {
		if grace := s.pastDueSince.Add(policy.Grace); ends.IsZero() || grace.Before(ends) {
			ends = grace
		}
	}
	return ends
}

func (s *happened) grants(now time.Time) bool {
	switch s.is.Status {
	case "active", "trialing", "past_due":
		return s.ends().IsZero() || s.ends().After(now)
	}
	return false
}

// want returns the expected final state in the format of [world.lines].
func (h *history) want() []string {
	var want []string
	subscriptions := map[string][]*happened{}
	for _, s := range h.subscriptions {
		want = append(want, words(s.id+":", h.account(s), s.is.Status, priced(s.known.Price), fmt.Sprint(s.known.Quantity), after("until", s.ends()), after("ends", s.ends()),
			after("ended", s.is.EndedAt), after("past-due", s.pastDueSince), when(planOf(&s.is) == "", "unknown-price=price_new")))
		subscriptions[h.account(s)] = append(subscriptions[h.account(s)], s)
	}
	for _, b := range h.invoices {
		want = append(want, words(b.id+":", h.account(b.of), b.status, b.plan, fmt.Sprint(b.paid), when(b.failures != nil, fmt.Sprint("failed", b.failures))))
	}
	for account, of := range subscriptions {
		want = append(want, wantAccess(account, of, at(h.second)))
	}
	slices.Sort(want)
	return want
}

// wantDue returns the expected scheduled actions in the format of [dueRows].
func (h *history) wantDue() []string {
	var want []string
	add := func(what string, due time.Time) {
		if due.After(at(h.second)) {
			want = append(want, fmt.Sprintf("%s at %s", what, due.Sub(begin)))
		}
	}
	for _, b := range h.invoices {
		if b.status != "open" || b.failures == nil || !b.of.is.EndedAt.IsZero() {
			continue
		}
		for n, after := range policy.Dunning[1:] {
			add(fmt.Sprintf("dunning %s %d", b.id, n+2), b.at.Add(after))
		}
	}
	for _, s := range h.subscriptions {
		ends := s.ends()
		switch {
		case !slices.Contains([]string{"active", "trialing", "past_due"}, s.is.Status):
		case s.is.CancelAtPeriodEnd && ends.Equal(s.is.Items[0].PeriodEnd):
			add("end "+s.id, ends)
		case !ends.IsZero():
			add("grace "+s.id, ends)
		}
	}
	slices.Sort(want)
	return want
}

func wantAccess(account string, of []*happened, now time.Time) string {
	highest, seats, features := -1, int64(0), []string{}
	for _, s := range of {
		if !s.grants(now) {
			continue
		}
		item := s.known
		for _, f := range policy.Features[priced(item.Price)] {
			if !slices.Contains(features, f) {
				features = append(features, f)
			}
		}
		switch plan := slices.Index(policy.Order, priced(item.Price)); {
		case plan > highest:
			highest, seats = plan, item.Quantity
		case plan == highest:
			seats += item.Quantity
		}
	}
	if highest < 0 {
		return account + ": suspended"
	}
	slices.Sort(features)
	return words(account+":", "active", policy.Order[highest], fmt.Sprint(seats), join(features))
}

func join(list []string) (joined string) {
	for i, each := range list {
		joined += when(i > 0, ",") + each
	}
	return joined
}

// deliver returns the facts of a history in a random order, some of them repeated.
func (h *history) deliver(random *rand.Rand) []fact.Fact {
	delivered := slices.Clone(h.facts)
	for _, f := range h.facts {
		if random.IntN(5) == 0 {
			delivered = append(delivered, f)
		}
	}
	random.Shuffle(len(delivered), func(i, j int) { delivered[i], delivered[j] = delivered[j], delivered[i] })
	return delivered
}

// seeds returns two seeds, each the first of a series. The environment variable PAWL_SEED replaces the second seed.
func seeds(t *testing.T) map[string]uint64 {
	t.Helper()
	return map[string]uint64{"first": 1, "second": schematest.Seed(t, 1_000_001)}
}

// For any history and any order of its facts, the final state equals the model.
func TestFolds_GeneratedHistories_SameEnd(t *testing.T) {
	t.Parallel()
	for name, seed := range seeds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(1000) {
				checkHistory(t, seed+n)
			}
		})
	}
}

// checkHistory tests the history that a seed generates. If the test fails, it prints the shortest prefix of the
// history that fails.
func checkHistory(t *testing.T, seed uint64) {
	t.Helper()
	const most = 25
	if differs(seed, most) == "" {
		return
	}
	for steps := 1; steps <= most; steps++ {
		if difference := differs(seed, steps); difference != "" {
			t.Fatalf("seed %d, %d steps: %s", seed, steps, difference)
		}
	}
}

func differs(seed uint64, steps int) string {
	h := newHistory(seed, steps)
	want := h.want()
	for range 2 {
		delivered := h.deliver(h.random)
		if got := foldAll(delivered, policy, at(h.second)).lines(); !slices.Equal(got, want) {
			return fmt.Sprintf("what happened was %s\n got %q\nwant %q", told(h.facts), got, want)
		}
	}
	return ""
}
