package billing_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// line returns a line of sub_1 for the nth period.
func line(n int, plan string, changes ...func(*fact.Line)) fact.Line {
	start, end := monthly(n)
	l := fact.Line{Subscription: "sub_1", Price: "price_" + plan, Quantity: 1, Amount: 1000, PeriodStart: start, PeriodEnd: end}
	for _, c := range changes {
		c(&l)
	}
	return l
}

func credit(l *fact.Line) { l.Credit, l.Proration, l.Amount = true, true, -1000 }

// since makes a line a proration that begins some days after the start of its period.
func since(days int) func(*fact.Line) {
	return func(l *fact.Line) {
		l.Proration, l.PeriodStart = true, l.PeriodStart.Add(time.Duration(days)*day)
	}
}

func TestFoldInvoice_Lines_SayWhatWasBought(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []fact.Line
		one   bool // a line without a subscription
		want  string
	}{
		"a renewal":                        {lines: []fact.Line{line(2, "pro")}, want: "pro 1 period 2"},
		"seats of two prices":              {lines: []fact.Line{line(2, "pro"), line(2, "pro", func(l *fact.Line) { l.Quantity = 4 })}, want: "pro 5 period 2"},
		"two plans: the highest":           {lines: []fact.Line{line(2, "pro"), line(2, "starter")}, want: "pro 1 period 2 +projects"},
		"an upgrade":                       {lines: []fact.Line{line(1, "starter", credit, since(10)), line(1, "pro", since(10))}, want: "pro 1 period 1+10"},
		"a renewal with pending upgrades":  {lines: []fact.Line{line(1, "enterprise", since(5)), line(1, "enterprise", credit, since(9)), line(1, "pro", since(9)), line(2, "pro")}, want: "pro 1 period 2"},
		"two upgrades, invoiced by hand":   {lines: []fact.Line{line(1, "enterprise", since(5)), line(1, "enterprise", credit, since(9)), line(1, "pro", since(9))}, want: "pro 1 period 1+9"},
		"what takes back does not count":   {lines: []fact.Line{line(2, "enterprise", credit), line(2, "pro")}, want: "pro 1 period 2"},
		"nothing but what takes back":      {lines: []fact.Line{line(2, "enterprise", credit)}, want: " 0 no period"},
		"use does not count":               {lines: []fact.Line{line(1, "enterprise", func(l *fact.Line) { l.Metered = true }), line(2, "pro")}, want: "pro 1 period 2"},
		"another subscription's line":      {lines: []fact.Line{line(3, "enterprise", func(l *fact.Line) { l.Subscription = "sub_2" }), line(2, "pro")}, want: "pro 1 period 2"},
		"an add-on":                        {lines: []fact.Line{line(2, "pro"), line(2, "sso")}, want: "pro 1 period 2 +sso"},
		"an add-on that is over":           {lines: []fact.Line{line(2, "pro"), line(1, "sso")}, want: "pro 1 period 2"},
		"an unknown price beside a plan":   {lines: []fact.Line{line(2, "pro"), line(3, "")}, want: "pro 1 period 2"},
		"an unknown price":                 {lines: []fact.Line{line(2, "sso"), line(2, "")}, want: " 0 period 2 +sso unknown price_"},
		"a one-off purchase at two times":  {one: true, lines: []fact.Line{line(1, "pro", func(l *fact.Line) { l.Price = once("pro", day) }), line(2, "starter")}, want: "pro 1 period 1 +projects for 24h0m0s"},
		"a one-off of an unknown price":    {one: true, lines: []fact.Line{line(1, "")}, want: " 0 period 1"},
		"a one-off add-on":                 {one: true, lines: []fact.Line{line(1, "sso", func(l *fact.Line) { l.Price = once("sso", day) })}, want: " 0 period 1 +sso for 24h0m0s"},
		"a one-off that was taken back":    {one: true, lines: []fact.Line{line(1, "pro", credit, func(l *fact.Line) { l.Price = once("pro", day) })}, want: " 0 no period"},
		"a line that says no subscription": {lines: []fact.Line{line(2, "pro", func(l *fact.Line) { l.Subscription = "" })}, want: "pro 1 period 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, order := range permutations(len(c.lines)) {
				f := paid(1, 1, "pro", of("in_1", "acme", ""))
				f.Invoice.Lines = nil
				for _, i := range order {
					l := c.lines[i]
					if c.one {
						f.Invoice.Subscription, l.Subscription = "", ""
					}
					f.Invoice.Lines = append(f.Invoice.Lines, l)
				}
				if got := describePurchase(fold.InvoiceOf("in_1", []fact.Fact{f}, policy)); got != c.want {
					t.Errorf("lines in the order %v: got %q, want %q", order, got, c.want)
				}
			}
		})
	}
}

// The plan in metadata applies to the line that is the best evidence of the purchase, in any order of the lines.
func TestFoldInvoice_PlanByMetadata(t *testing.T) {
	t.Parallel()
	priced := func(price string, changes ...func(*fact.Line)) fact.Line {
		return line(2, "pro", append(changes, func(l *fact.Line) { l.Price = price })...)
	}
	longer := func(l *fact.Line) { l.PeriodEnd = l.PeriodEnd.Add(time.Second) }
	for name, c := range map[string]struct {
		lines []fact.Line
		named string
		want  string // the expected plan and prices
	}{
		"the only one":              {[]fact.Line{priced("price_x")}, "enterprise", "enterprise price_x"},
		"own before proration":      {[]fact.Line{priced("price_x", since(1), longer), priced("price_y")}, "enterprise", "enterprise price_y"},
		"no credit":                 {[]fact.Line{priced("price_x", credit), priced("price_y", since(1))}, "enterprise", "enterprise price_y"},
		"the later period":          {[]fact.Line{line(1, "x"), priced("price_y")}, "enterprise", "enterprise price_y"},
		"no add-on":                 {[]fact.Line{line(2, "sso"), priced("price_y")}, "enterprise", "enterprise price_sso price_y"},
		"none of no subscription":   {[]fact.Line{priced("price_x", func(l *fact.Line) { l.Subscription = "" })}, "enterprise", " price_x"},
		"a price that is mapped":    {[]fact.Line{priced("price_x"), line(2, "pro", since(1))}, "enterprise", "pro price_pro"},
		"a plan that there is not":  {[]fact.Line{priced("price_x")}, "golf", " price_x"},
		"no metadata, unknown only": {[]fact.Line{priced("price_x")}, "", " price_x"},
	} {
		for _, order := range permutations(len(c.lines)) {
			f := paid(1, 1, "pro")
			f.Invoice.Lines, f.Invoice.Plan = nil, c.named
			for _, i := range order {
				f.Invoice.Lines = append(f.Invoice.Lines, c.lines[i])
			}
			i := fold.InvoiceOf("in_1", []fact.Fact{f}, policy)
			got := i.Plan
			for _, b := range i.Prices {
				got += " " + b.Price
			}
			if got != c.want {
				t.Errorf("%s, lines in the order %v: got %q, want %q", name, order, got, c.want)
			}
		}
	}
}

func describePurchase(i fold.Invoice) string {
	said := i.Plan + " " + words(string('0'+rune(i.Quantity)), describePeriod(i.PeriodStart))
	for _, f := range i.AddOns {
		said += " +" + f
	}
	return said + when(i.UnknownPrice != "", " unknown "+i.UnknownPrice) + when(i.For > 0, " for "+i.For.String())
}

func describePeriod(start time.Time) string {
	if start.IsZero() {
		return "no period"
	}
	days := int(start.Sub(begin) / day)
	return "period " + string('1'+rune(days/30)) + when(days%30 == 10, "+10") + when(days%30 == 9, "+9")
}

// The amounts of an invoice come from the first snapshot with the invoice's highest status. A failed attempt and the
// time of the payment are kept.
func TestFoldInvoice_EveryOrder_FirstOfHighestStatus(t *testing.T) {
	t.Parallel()
	amount := func(due int64, next int) change {
		return func(f *fact.Fact) {
			f.Invoice.Due = due
			if next > 0 {
				f.Invoice.NextAttempt = at(next)
			}
		}
	}
	numbered := func(f *fact.Fact) { f.Invoice.Number = "PAWL-1" }
	facts := events([]fact.Fact{
		invoice(1, 0, "draft", "pro", amount(1, 0)), invoice(1, 5, "open", "pro", amount(2, 0)), failed(1, 10, 1, "pro", amount(2, 20)),
		invoice(1, 15, "uncollectible", "pro", amount(3, 0), numbered), paid(1, 30, "pro", amount(4, 0)), paid(1, 40, "pro", amount(5, 0)),
	}, true)
	orders(facts, func(delivered []fact.Fact) {
		got := fold.InvoiceOf("in_1", delivered, policy)
		if got.Due != 4 || got.Number != "PAWL-1" || !got.PaidAt.Equal(at(30)) || !got.ClosedAt.Equal(at(15)) || !got.NextAttempt.Equal(at(20)) || got.Attempts != 1 || !slices.Equal(got.Failures, []int{1}) {
			t.Fatalf("after %s: got %+v", told(delivered), got)
		}
	})
}

// Credits and partial payments reduce the amount of an open invoice, so its last snapshot applies.
func TestFoldInvoice_Open_LastAmountsCount(t *testing.T) {
	t.Parallel()
	owes := func(due, paid int64) change {
		return func(f *fact.Fact) { f.Invoice.Due, f.Invoice.Paid, f.Invoice.Remaining = due, paid, due-paid }
	}
	facts := events([]fact.Fact{
		invoice(1, 0, "open", "pro", owes(1000, 0)), invoice(1, 5, "open", "pro", owes(600, 0)), failed(1, 10, 1, "pro", owes(600, 0)), invoice(1, 20, "open", "pro", owes(600, 250)),
	}, true)
	orders(facts, func(delivered []fact.Fact) {
		if got := fold.InvoiceOf("in_1", delivered, policy); got.Due != 600 || got.Paid != 250 || got.Remaining != 350 {
			t.Fatalf("after %s: got %+v", told(delivered), got)
		}
	})
}

// An event may contain only the first of many lines. If another fact contains all lines, these lines apply, even if
// that fact was created at another time.
func TestFoldInvoice_PartialLines_WholeOnesCount(t *testing.T) {
	t.Parallel()
	partial := paid(1, 10, "starter", func(f *fact.Fact) { f.Invoice.Partial = true })
	whole := paid(1, 20, "pro", origin(fact.FromFetch))
	orders(events([]fact.Fact{partial, whole}, false), func(delivered []fact.Fact) {
		if got := fold.InvoiceOf("in_1", delivered, policy); got.Plan != "pro" || got.Partial || got.Cause.EventID != "evt_1" {
			t.Errorf("after %s: got %+v", told(delivered), got)
		}
	})
	if got := fold.InvoiceOf("in_1", events([]fact.Fact{partial}, false), policy); got.Plan != "starter" || !got.Partial {
		t.Errorf("alone: got %+v", got)
	}
}

func TestOrder_RefundedInFullOrWithheld_GrantsNothing(t *testing.T) {
	t.Parallel()
	i := fold.InvoiceOf("in_1", events([]fact.Fact{paid(1, 10, "pro", oneOff(day))}, false), policy)
	if o := i.Order(); !o.Granted() || o.Plan != "pro" || !o.PaidAt.Equal(at(10)) || o.For != day {
		t.Errorf("paid: got %+v", o)
	}
	i.Refunded = 999
	if !i.Order().Granted() {
		t.Error("refunded in part, it grants nothing")
	}
	i.Refunded = 1000
	if i.Order().Granted() {
		t.Error("refunded in full, it grants")
	}
	withheld := events([]fact.Fact{paid(1, 10, "pro", oneOff(day)), decided(fact.Withheld, "in_1", 20, "pro_24h0m0s", 1)}, false)
	if fold.InvoiceOf("in_1", withheld, policy).Order().Granted() {
		t.Error("withheld, it grants")
	}
}
