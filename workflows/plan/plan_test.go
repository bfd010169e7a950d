package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/workflows/plan"
)

// planned returns a change of acme by an event, which may belong to a connected account.
func planned(changes ...func(*fold.Change)) fold.Change {
	target := fold.Target{Version: 7, State: fold.WorkspaceActive, Plan: "pro", Quantity: 1}
	c := fold.Change{
		Subject: fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_1", ReceiptID: "receipt", OccurredAt: began},
		After: fold.State{
			Subscription: &fold.Subscription{Ref: fold.Ref{ID: "sub_1", Account: "acme"}, Status: "active", Sale: fact.Sale{Plan: "pro", Quantity: 1}, Version: 1, EverGranted: true},
			Access:       fold.Access{Account: "acme", Target: target, Grants: []fold.Grant{{Object: "sub_1", Plan: "pro"}}},
		},
	}
	c.Before.Access = c.After.Access
	for _, change := range changes {
		change(&c)
	}
	return c
}

func withInvoice(status string, change ...func(*fold.Invoice)) func(*fold.Change) {
	return func(c *fold.Change) {
		i := fold.Invoice{Ref: fold.Ref{ID: "in_1", Account: "acme", Subscription: "sub_1"}, Status: status, Sale: fact.Sale{Plan: "pro"}, Due: 4900, Tax: 700, Remaining: 4900, Currency: "usd"}
		if status == "paid" {
			i.Paid, i.Remaining = i.Due, 0
		}
		for _, change := range change {
			change(&i)
		}
		if len(i.PaidSums) == 0 && status != "open" && (status == "paid" || i.Paid > 0) {
			i.PaidSums, i.PaidTimes = []int64{i.Paid}, []time.Time{began}
		}
		c.After.Invoice = &i
	}
}

// invoiceWas sets the state of the invoice before the change, with the amount that was paid by then.
func invoiceWas(status string, paid int64) func(*fold.Change) {
	return func(c *fold.Change) {
		was := *c.After.Invoice
		was.Status, was.Paid, was.PaidSums, was.PaidTimes = status, paid, nil, nil
		if paid > 0 {
			was.PaidSums, was.PaidTimes = []int64{paid}, []time.Time{began}
		}
		c.Before.Invoice = &was
	}
}

// withSession adds a complete one-off session, with a time of payment that may be zero.
func withSession(paidAt time.Time) func(*fold.Change) {
	return func(c *fold.Change) {
		c.After.Checkout = &fold.Checkout{Ref: fold.Ref{ID: "cs_1", Account: "acme"}, Mode: "payment", Status: "complete", Amount: 4900, Currency: "usd", PaidAt: paidAt}
	}
}

func sessionWas(paidAt time.Time) func(*fold.Change) {
	return func(c *fold.Change) {
		was := *c.After.Checkout
		was.PaidAt = paidAt
		c.Before.Checkout = &was
	}
}

func failedAttempts(n ...int) func(*fold.Invoice) {
	return func(i *fold.Invoice) { i.Failures = n }
}

func subscriptionIs(change func(*fold.Subscription)) func(*fold.Change) {
	return func(c *fold.Change) { change(c.After.Subscription) }
}

func subscriptionWas(change func(*fold.Subscription)) func(*fold.Change) {
	return func(c *fold.Change) {
		was := *c.After.Subscription
		change(&was)
		c.Before.Subscription = &was
	}
}

func suspended(c *fold.Change) {
	c.After.Access.Grants, c.After.Access.Target = nil, fold.Target{Version: 8, State: fold.WorkspaceSuspended}
}

// took revokes the access of a subscription that has not ended.
func took(change func(*fold.Subscription)) func(*fold.Change) {
	return func(c *fold.Change) {
		suspended(c)
		change(c.After.Subscription)
	}
}

// addOnAlone returns a granted add-on without a plan.
func addOnAlone(c *fold.Change) {
	c.After.Access.Grants = []fold.Grant{{Object: "sub_2", AddOns: []string{"sso"}}}
}

func periodOver(change func(*fold.Subscription)) fold.Due {
	s := *planned().After.Subscription
	change(&s)
	return fold.Due{Kind: fold.DueEnd, Object: "sub_1", Subscription: &s}
}

// smaller returns a subscription as it was before an upgrade.
func smaller(s *fold.Subscription) { s.Plan, s.Version = "starter", 0 }

func ofType(eventType string) func(*fold.Change) {
	return func(c *fold.Change) { c.Subject.EventType = eventType }
}

func ended(s *fold.Subscription) { s.Status, s.EndedAt = "canceled", began }

func comesDue(due ...fold.Due) func(*fold.Change) {
	return func(c *fold.Change) {
		for i := range due {
			due[i].Cause = fact.Cause{Provider: "stripe", EventID: "evt_0", ReceiptID: "another"}
		}
		c.Due = due
	}
}

var began = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// plans maps each flow to its plan in these tests.
var plans = map[string]func(fold.Change, activities.Planning) plan.Plan{
	"InvoicePaid": plan.InvoicePaid, "PaymentFailed": plan.PaymentFailed, "InvoiceClosed": plan.InvoiceClosed,
	"SubscriptionEnded": plan.SubscriptionEnded, "SubscriptionChanged": plan.SubscriptionChanged,
	"TrialEnding": plan.TrialEnding, "CheckoutPaid": plan.CheckoutPaid, "RefundChanged": plan.MoneyMoved,
	"DisputeChanged": plan.MoneyMoved, "AccountLinked": plan.AccountLinked, "Record": plan.Record,
	"AccountDue": plan.AccountDue, "Reconciled": plan.Reconciled, "EventLost": plan.EventLost,
}

// keysAndUndos returns the keys of the effects that a flow plans for a change, with the keys of their undos, as "key
// <- undo".
func keysAndUndos(flow string, c fold.Change, p activities.Planning) (keys []string) {
	made := plans[flow](c, p).With(c)
	for _, s := range slices.Concat(made.Steps, made.Letters) {
		key := s.Key
		if s.Undo != nil {
			key += " <- " + s.Undo(effect.Result{}).Key
		}
		keys = append(keys, key)
	}
	return keys
}

// reviewAndCode returns the object and the reason code of the review that a flow opens, or "".
func reviewAndCode(flow string, c fold.Change) string {
	r := plans[flow](c, activities.Planning{}).With(c).Review
	if r == nil {
		return ""
	}
	return r.Object + " " + r.Code
}

// The table contains the plan of each flow: the keys of the effects by change, as "key <- undo" if the effect can be
// compensated.
func TestPlans_Keys(t *testing.T) {
	t.Parallel()
	const (
		workspace = "provision-workspace:stripe:live:acme:v7"
		suspends  = "provision-workspace:stripe:live:acme:v8"
		entry     = "finance-export:stripe:live:in_1 <- reverse-finance-entry:stripe:live:in_1"
		taken     = "access-ended-notice:stripe:live:acme:v8"
		changed   = "subscription-changed-notice:stripe:live:sub_1:v1"
		mails     = "receipt-email:stripe:live:in_1 <- correction-notice:stripe:live:in_1"
	)
	const rest = "finance-export:stripe:live:in_1:4900 <- reverse-finance-entry:stripe:live:in_1:4900"
	firstPart := func(i *fold.Invoice) { i.Paid, i.PaidSums, i.PaidTimes = 900, []int64{900}, []time.Time{began} }
	inParts := func(i *fold.Invoice) { i.PaidSums, i.PaidTimes = []int64{900, 4900}, []time.Time{began, began} }
	onboards := activities.Planning{Onboarding: []string{"pro"}}
	trial := began.Add(72 * time.Hour)
	for _, tt := range []struct {
		name, flow string
		change     fold.Change
		planning   activities.Planning
		want       []string
	}{
		{"paid", "InvoicePaid", planned(withInvoice("paid")), activities.Planning{}, []string{workspace, entry, mails}},
		{"paid, onboarding", "InvoicePaid", planned(withInvoice("paid")), onboards, []string{workspace, entry, mails,
			"onboarding-task:stripe:live:sub_1:pro <- cancel-onboarding-task:stripe:live:sub_1:pro"}},
		{"paid, nothing due", "InvoicePaid", planned(withInvoice("paid", func(i *fold.Invoice) { i.Due, i.Paid = 0, 0 })), activities.Planning{}, []string{workspace}},
		{"32 paid after it was given up, unpaid", "InvoicePaid", planned(withInvoice("paid"), func(c *fold.Change) {
			c.Before.Invoice = &fold.Invoice{Ref: fold.Ref{ID: "in_1"}, Status: "uncollectible"}
		}), activities.Planning{}, []string{workspace, entry, mails}},
		{"paid after it was given up, part paid", "InvoicePaid", planned(withInvoice("paid", inParts)), activities.Planning{}, []string{workspace, entry, rest, mails}},
		{"a further part of a paid invoice", "Record", planned(withInvoice("paid", inParts), invoiceWas("paid", 4900)), activities.Planning{},
			[]string{"finance-export:stripe:live:in_1", "finance-export:stripe:live:in_1:4900"}},
		{"paid, beside its own event", "Record", planned(withInvoice("paid"), invoiceWas("paid", 4900)), activities.Planning{}, nil},
		{"the only event of a payment", "Record", planned(withInvoice("paid"), invoiceWas("open", 0)), activities.Planning{}, []string{workspace, entry, mails}},
		{"a part of an open invoice", "Record", planned(withInvoice("open", firstPart), invoiceWas("open", 0)), activities.Planning{},
			[]string{"finance-export:stripe:live:in_1"}},
		{"a part of an open invoice, reported again", "Record", planned(withInvoice("open", firstPart), invoiceWas("open", 900)), activities.Planning{}, nil},
		{"a session captured later", "Record", planned(withSession(began), sessionWas(time.Time{})), activities.Planning{},
			[]string{workspace, "finance-export:stripe:live:cs_1 <- reverse-finance-entry:stripe:live:cs_1", "order-email:stripe:live:cs_1 <- correction-notice:stripe:live:cs_1"}},
		{"a payment of a session that was paid before", "Record", planned(withSession(began), sessionWas(began)), activities.Planning{}, nil},
		{"5 paid, and known to have ended only now to have granted", "InvoicePaid", planned(withInvoice("paid"), subscriptionIs(ended), suspended,
			subscriptionWas(func(s *fold.Subscription) { s.EverGranted = false })), activities.Planning{},
			[]string{suspends, entry, mails, "subscription-ended-notice:stripe:live:sub_1"}},

		// The keys of once effects contain only the provider's object, because its account may become known between
		// two events.
		{"6 paid, and nobody knows whose it is", "InvoicePaid", planned(withInvoice("paid", func(i *fold.Invoice) { i.Account = "cus_1" }), func(c *fold.Change) {
			c.After.Access.Account = "cus_1"
		}), onboards, []string{"provision-workspace:stripe:live:cus_1:v7", entry, mails, "onboarding-task:stripe:live:sub_1:pro <- cancel-onboarding-task:stripe:live:sub_1:pro"}},
		{"18 moved from another account", "SubscriptionChanged", planned(func(c *fold.Change) {
			c.Others = []fold.Access{{Account: "hooli", Target: fold.Target{Version: 3, State: fold.WorkspaceSuspended}}}
		}), activities.Planning{}, []string{workspace, "provision-workspace:stripe:live:hooli:v3"}},

		{"failed", "PaymentFailed", planned(withInvoice("open", failedAttempts(1, 2))), activities.Planning{}, []string{"action-required-notice:stripe:live:in_1:2"}},
		{"overdue", "PaymentFailed", planned(withInvoice("open", failedAttempts(0))), activities.Planning{}, []string{"action-required-notice:stripe:live:in_1:0"}},
		{"12 failed, and paid", "PaymentFailed", planned(withInvoice("paid", failedAttempts(1))), activities.Planning{}, nil},
		{"31 the first payment failed at the checkout", "PaymentFailed", planned(withInvoice("open", failedAttempts(1), func(i *fold.Invoice) { i.AtCheckout = true })), activities.Planning{}, nil},
		{"failed, and ended", "PaymentFailed", planned(withInvoice("open", failedAttempts(1)), subscriptionIs(ended)), activities.Planning{}, nil},
		{"failed, of a connected account", "PaymentFailed", planned(withInvoice("open", failedAttempts(1)), func(c *fold.Change) { c.Subject.ProviderAccount = "acct_9" }),
			activities.Planning{}, []string{"action-required-notice:stripe:live:acct_9:in_1:1"}},
		{"failed long before it came", "PaymentFailed", planned(withInvoice("open", failedAttempts(1)),
			comesDue(fold.Due{Kind: fold.DueDunning, Object: "in_1", Step: 3, Invoice: &fold.Invoice{Ref: fold.Ref{ID: "in_1", Account: "acme"}}})), activities.Planning{},
			[]string{"action-required-notice:stripe:live:in_1:1"}},
		{"failed, and was told before: a reminder is due", "PaymentFailed", planned(withInvoice("open", failedAttempts(1)), func(c *fold.Change) { c.Before.Invoice = c.After.Invoice },
			comesDue(fold.Due{Kind: fold.DueDunning, Object: "in_1", Step: 3, Invoice: &fold.Invoice{Ref: fold.Ref{ID: "in_1", Account: "acme"}}})), activities.Planning{},
			[]string{"action-required-notice:stripe:live:in_1:1", "dunning-notice:stripe:live:in_1:3"}},

		{"refunded in full, where that ends access", "RefundChanged", planned(took(func(s *fold.Subscription) { s.PaidBack = true })), activities.Planning{}, []string{suspends, taken}},
		{"disputed, where that holds access", "DisputeChanged", planned(took(func(s *fold.Subscription) { s.Held = true })), activities.Planning{}, []string{suspends, taken}},
		{"refunded in full, and ended", "RefundChanged", planned(took(func(s *fold.Subscription) { ended(s); s.PaidBack = true }), subscriptionWas(func(*fold.Subscription) {})),
			activities.Planning{}, []string{suspends}},
		{"an upgrade is refunded in full, and the smaller plan stays", "RefundChanged", planned(subscriptionWas(smaller)), activities.Planning{}, []string{changed}},
		{"refunded in full, and nothing was there to take", "RefundChanged", planned(suspended, subscriptionIs(func(s *fold.Subscription) { s.PaidBack = true }), func(c *fold.Change) {
			c.Before.Access = c.After.Access
		}), activities.Planning{}, nil},
		{"refunded in full, and reconciled", "Reconciled", planned(took(func(s *fold.Subscription) { s.PaidBack = true })), activities.Planning{}, []string{suspends}},
		{"tied to a refund", "Record", planned(took(func(s *fold.Subscription) { s.PaidBack = true })), activities.Planning{}, []string{suspends, taken}},
		{"held by a person", "AccountDue", planned(took(func(*fold.Subscription) {}), comesDue(fold.Due{Kind: fold.DueHold, Object: "acme", Subscription: planned().After.Subscription})),
			activities.Planning{}, []string{suspends, taken}},
		{"an earlier purchase is over, and the later one was refunded in full", "AccountDue",
			planned(suspended, comesDue(periodOver(func(s *fold.Subscription) { s.CutShort = "refunded" }))), activities.Planning{}, []string{suspends, taken}},
		{"recomputed with other billing rules", "AccountDue", planned(took(func(s *fold.Subscription) { s.PaidBack = true }), comesDue(fold.Due{Kind: fold.DueRefold, Object: "acme"})),
			activities.Planning{}, []string{suspends}},
		{"granted again by a person", "AccountDue", planned(comesDue(
			fold.Due{Kind: fold.DueChanged, Object: "sub_1", Subscription: planned().After.Subscription}, fold.Due{Kind: fold.DueChanged, Object: "sub_9"})),
			activities.Planning{}, []string{changed}},

		{"voided", "InvoiceClosed", planned(withInvoice("void")), activities.Planning{}, nil},
		{"given up, part paid", "InvoiceClosed", planned(withInvoice("uncollectible", func(i *fold.Invoice) { i.Paid = 900 })), activities.Planning{},
			[]string{"finance-export:stripe:live:in_1"}},
		{"given up, and paid", "InvoiceClosed", planned(withInvoice("paid", func(i *fold.Invoice) { i.Paid = 4900 })), activities.Planning{}, nil},

		{"trial ends", "TrialEnding", planned(subscriptionIs(func(s *fold.Subscription) { s.Status, s.TrialEnd = "trialing", trial })), activities.Planning{},
			[]string{"trial-ending-notice:stripe:live:sub_1:1772582400"}},
		{"20 trial ended", "TrialEnding", planned(subscriptionIs(func(s *fold.Subscription) { s.TrialEnd = trial })), activities.Planning{}, nil},
		{"trial ends, and the subscription with it", "TrialEnding", planned(subscriptionIs(func(s *fold.Subscription) {
			s.Status, s.TrialEnd, s.PlannedEnd = "trialing", trial, trial
		})), activities.Planning{}, nil},

		{"began", "SubscriptionChanged", planned(), activities.Planning{}, []string{workspace}},
		{"changed", "SubscriptionChanged", planned(subscriptionIs(func(s *fold.Subscription) { s.Version = 2 }),
			subscriptionWas(func(s *fold.Subscription) { s.Version = 1 })), activities.Planning{}, []string{workspace, "subscription-changed-notice:stripe:live:sub_1:v2"}},
		{"began, and was paid before, until a planned end", "SubscriptionChanged", planned(subscriptionIs(func(s *fold.Subscription) { s.Version, s.PlannedEnd = 2, trial }),
			subscriptionWas(func(s *fold.Subscription) { s.Version, s.Evidence, s.PlannedEnd = 1, true, time.Time{} })), activities.Planning{}, []string{workspace}},
		{"renewed", "SubscriptionChanged", planned(subscriptionWas(func(*fold.Subscription) {})), activities.Planning{}, []string{workspace}},
		{"became active", "SubscriptionChanged", planned(subscriptionIs(func(s *fold.Subscription) { s.Version = 2 }),
			subscriptionWas(func(s *fold.Subscription) { s.Status, s.Version = "incomplete", 1 })), activities.Planning{}, []string{workspace}},

		{"ended", "SubscriptionEnded", planned(subscriptionIs(ended), suspended), activities.Planning{}, []string{suspends, "subscription-ended-notice:stripe:live:sub_1"}},
		{"10 ended, and another one grants", "SubscriptionEnded", planned(subscriptionIs(ended)), activities.Planning{}, []string{workspace}},
		{"ended, and an add-on alone stays", "SubscriptionEnded", planned(subscriptionIs(ended), suspended, addOnAlone), activities.Planning{},
			[]string{suspends, "subscription-ended-notice:stripe:live:sub_1"}},
		{"ended, and paid for until later", "SubscriptionEnded", planned(subscriptionIs(func(s *fold.Subscription) { ended(s); s.EndsAt = trial }),
			func(c *fold.Change) { c.After.Access.Grants[0].Ends = trial }), activities.Planning{}, []string{workspace, "access-ending-notice:stripe:live:sub_1:1772582400"}},
		{"31 ended, and never granted", "SubscriptionEnded", planned(subscriptionIs(func(s *fold.Subscription) { ended(s); s.EverGranted = false }), func(c *fold.Change) {
			c.After.Access = fold.Access{Account: "acme"}
		}), activities.Planning{}, nil},

		{"recorded", "Record", planned(), activities.Planning{}, nil},
		{"an upgrade that a coupon or the balance pays is paid when it is finalized", "Record", planned(withInvoice("paid"), subscriptionWas(smaller)), activities.Planning{}, []string{workspace, entry, mails, changed}},
		{"a pending update is applied", "Record", planned(ofType("customer.subscription.pending_update_applied"), subscriptionWas(smaller)), activities.Planning{}, []string{changed}},
		{"a renewal pays an upgrade", "InvoicePaid", planned(ofType("invoice.paid"), withInvoice("paid"), subscriptionWas(smaller)), activities.Planning{}, []string{workspace, entry, mails, changed}},
		{"two paid invoices alone show two plans", "InvoicePaid", planned(ofType("invoice.paid"), withInvoice("paid"), subscriptionWas(func(s *fold.Subscription) {
			smaller(s)
			s.Evidence = true
		})), activities.Planning{}, []string{workspace, entry, mails}},
		{"it had ended before its payment is finalized", "Record", planned(withInvoice("paid"), subscriptionIs(ended), suspended, subscriptionWas(func(s *fold.Subscription) { s.EverGranted = false })),
			activities.Planning{}, []string{suspends, entry, mails, "subscription-ended-notice:stripe:live:sub_1"}},
		{"recorded, and it says whose it is", "Record", planned(func(c *fold.Change) { c.Before.Access.Target.Version = 6 }), activities.Planning{}, []string{workspace}},

		{"the grace is over", "AccountDue", planned(suspended), activities.Planning{}, []string{suspends}},
		{"what had ended is over", "AccountDue", planned(suspended, comesDue(periodOver(ended))), activities.Planning{}, []string{suspends, "subscription-ended-notice:stripe:live:sub_1"}},
		{"what had ended is over, and another one grants", "AccountDue", planned(comesDue(periodOver(ended))), activities.Planning{}, nil},
		{"nothing changes", "AccountDue", planned(), activities.Planning{}, nil},
		{"all that can be due", "AccountDue", planned(suspended, comesDue(
			fold.Due{Kind: fold.DueDunning, Object: "in_1", Step: 2, Invoice: &fold.Invoice{Ref: fold.Ref{ID: "in_1", Account: "acme"}}},
			fold.Due{Kind: fold.DueSettle, Object: "sub_1"}, fold.Due{Kind: fold.DueKeep, Object: "acme"})), activities.Planning{},
			[]string{suspends, "dunning-notice:stripe:live:in_1:2", "reconcile-task:stripe:live:sub_1", "release-task:stripe:live:acme:v8"}},
		{"kept for long enough, and back", "AccountDue", planned(comesDue(fold.Due{Kind: fold.DueKeep, Object: "acme"})), activities.Planning{}, nil},
	} {
		t.Run(tt.flow+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			if got := keysAndUndos(tt.flow, tt.change, tt.planning); !slices.Equal(got, tt.want) {
				t.Errorf("keys\n got %q\nwant %q", got, tt.want)
			}
		})
	}
}

// Any event that completes the reason for a review opens the review.
func TestPlans_Reviews(t *testing.T) {
	t.Parallel()
	paidAndVoid := planned(withInvoice("paid", func(i *fold.Invoice) { i.Review = fold.ReviewPaidAndVoid }))
	for _, flow := range []string{"InvoicePaid", "InvoiceClosed", "PaymentFailed", "Record"} {
		if got := reviewAndCode(flow, paidAndVoid); got != "stripe:live:in_1 paid_and_void" {
			t.Errorf("%s of a paid and voided invoice asks for the review %q", flow, got)
		}
	}
	imported := planned(subscriptionIs(func(s *fold.Subscription) { ended(s); s.Review = fold.ReviewImport }))
	if got := reviewAndCode("SubscriptionEnded", imported); got != "stripe:live:sub_1 import_disagrees" {
		t.Errorf("an import that disagrees asks for the review %q", got)
	}
	if got := reviewAndCode("SubscriptionChanged", planned()); got != "" {
		t.Errorf("a healthy change asks for the review %q", got)
	}
}
