package workflows_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/workflows"
)

// planned is a change of acme's, by an event of a connected account or of none.
func planned(changes ...func(*billing.Change)) billing.Change {
	target := billing.Target{Version: 7, State: billing.WorkspaceActive, Plan: "pro", Quantity: 1}
	c := billing.Change{
		Subject: billing.Subject{Provider: "stripe", Mode: "live", EventID: "evt_1", ReceiptID: "receipt", OccurredAt: began},
		After: billing.State{
			Subscription: &billing.Subscription{Ref: billing.Ref{ID: "sub_1", Account: "acme"}, Status: "active", Sale: billing.Sale{Plan: "pro", Quantity: 1}, Version: 1, EverGranted: true},
			Access:       billing.Access{Account: "acme", Target: target, Grants: []billing.Grant{{Object: "sub_1", Plan: "pro"}}},
		},
	}
	c.Before.Access = c.After.Access
	for _, change := range changes {
		change(&c)
	}
	return c
}

func withInvoice(status string, change ...func(*billing.Invoice)) func(*billing.Change) {
	return func(c *billing.Change) {
		i := billing.Invoice{Ref: billing.Ref{ID: "in_1", Account: "acme", Subscription: "sub_1"}, Status: status, Sale: billing.Sale{Plan: "pro"}, Due: 4900, Tax: 700, Remaining: 4900, Currency: "usd"}
		if status == "paid" {
			i.Paid, i.Remaining = i.Due, 0
		}
		for _, change := range change {
			change(&i)
		}
		if len(i.PaidSums) == 0 && status != "open" && (status == "paid" || i.Paid > 0) {
			i.PaidSums = []int64{i.Paid}
		}
		c.After.Invoice = &i
	}
}

func failedAttempts(n ...int) func(*billing.Invoice) {
	return func(i *billing.Invoice) { i.Failures = n }
}

func subscriptionIs(change func(*billing.Subscription)) func(*billing.Change) {
	return func(c *billing.Change) { change(c.After.Subscription) }
}

func subscriptionWas(change func(*billing.Subscription)) func(*billing.Change) {
	return func(c *billing.Change) {
		was := *c.After.Subscription
		change(&was)
		c.Before.Subscription = &was
	}
}

func suspended(c *billing.Change) {
	c.After.Access.Grants, c.After.Access.Target = nil, billing.Target{Version: 8, State: billing.WorkspaceSuspended}
}

// took has the subscription, which has not ended, lose access.
func took(change func(*billing.Subscription)) func(*billing.Change) {
	return func(c *billing.Change) {
		suspended(c)
		change(c.After.Subscription)
	}
}

// addOnAlone is granted, and makes no plan.
func addOnAlone(c *billing.Change) {
	c.After.Access.Grants = []billing.Grant{{Object: "sub_2", AddOns: []string{"sso"}}}
}

func periodOver(change func(*billing.Subscription)) billing.Due {
	s := *planned().After.Subscription
	change(&s)
	return billing.Due{Why: billing.DueEnd, Object: "sub_1", Subscription: &s}
}

func ended(s *billing.Subscription) { s.Status, s.EndedAt = "canceled", began }

func comesDue(due ...billing.Due) func(*billing.Change) {
	return func(c *billing.Change) {
		for i := range due {
			due[i].Cause = billing.Cause{Provider: "stripe", EventID: "evt_0", ReceiptID: "another"}
		}
		c.Due = due
	}
}

// Each flow's plan: what follows from which change, under which keys; "key <- undo" where it can be taken back.
func TestPlans_Keys(t *testing.T) {
	t.Parallel()
	const (
		workspace = "provision-workspace:stripe:live:acme:v7"
		suspends  = "provision-workspace:stripe:live:acme:v8"
		entry     = "finance-export:stripe:live:in_1 <- reverse-finance-entry:stripe:live:in_1"
		taken     = "access-ended-notice:stripe:live:acme:v8"
		mails     = "receipt-email:stripe:live:in_1 <- correction-notice:stripe:live:in_1"
	)
	const rest = "finance-export:stripe:live:in_1:4900 <- reverse-finance-entry:stripe:live:in_1:4900"
	inParts := func(i *billing.Invoice) { i.PaidSums = []int64{900, 4900} }
	onboards := activities.Planning{Onboarding: []string{"pro"}}
	trial := began.Add(72 * time.Hour)
	for _, tt := range []struct {
		name, flow string
		change     billing.Change
		planning   activities.Planning
		want       []string
	}{
		{"paid", "InvoicePaid", planned(withInvoice("paid")), activities.Planning{}, []string{workspace, entry, mails}},
		{"paid, onboarding", "InvoicePaid", planned(withInvoice("paid")), onboards, []string{workspace, entry, mails,
			"onboarding-task:stripe:live:sub_1:pro <- cancel-onboarding-task:stripe:live:sub_1:pro"}},
		{"paid, nothing due", "InvoicePaid", planned(withInvoice("paid", func(i *billing.Invoice) { i.Due, i.Paid = 0, 0 })), activities.Planning{}, []string{workspace}},
		{"32 paid after it was given up, unpaid", "InvoicePaid", planned(withInvoice("paid"), func(c *billing.Change) {
			c.Before.Invoice = &billing.Invoice{Ref: billing.Ref{ID: "in_1"}, Status: "uncollectible"}
		}), activities.Planning{}, []string{workspace, entry, mails}},
		{"paid after it was given up, part paid", "InvoicePaid", planned(withInvoice("paid", inParts)), activities.Planning{}, []string{workspace, entry, rest, mails}},
		{"more was paid than was told before", "Record", planned(withInvoice("paid", inParts)), activities.Planning{},
			[]string{"finance-export:stripe:live:in_1", "finance-export:stripe:live:in_1:4900"}},
		{"told as paid beside its own event", "Record", planned(withInvoice("paid")), activities.Planning{}, nil},
		{"5 paid, and known to have ended only now to have granted", "InvoicePaid", planned(withInvoice("paid"), subscriptionIs(ended), suspended,
			subscriptionWas(func(s *billing.Subscription) { s.EverGranted = false })), activities.Planning{},
			[]string{suspends, entry, mails, "subscription-ended-notice:stripe:live:sub_1"}},

		// The keys of what is done once hold the provider's object alone: who it belongs to may become known between two events.
		{"6 paid, and nobody knows whose it is", "InvoicePaid", planned(withInvoice("paid", func(i *billing.Invoice) { i.Account = "cus_1" }), func(c *billing.Change) {
			c.After.Access.Account = "cus_1"
		}), onboards, []string{"provision-workspace:stripe:live:cus_1:v7", entry, mails, "onboarding-task:stripe:live:sub_1:pro <- cancel-onboarding-task:stripe:live:sub_1:pro"}},
		{"18 moved from another account", "SubscriptionChanged", planned(func(c *billing.Change) {
			c.Others = []billing.Access{{Account: "hooli", Target: billing.Target{Version: 3, State: billing.WorkspaceSuspended}}}
		}), activities.Planning{}, []string{workspace, "provision-workspace:stripe:live:hooli:v3"}},

		{"failed", "PaymentFailed", planned(withInvoice("open", failedAttempts(1, 2))), activities.Planning{}, []string{"action-required-notice:stripe:live:in_1:2"}},
		{"overdue", "PaymentFailed", planned(withInvoice("open", failedAttempts(0))), activities.Planning{}, []string{"action-required-notice:stripe:live:in_1:0"}},
		{"12 failed, and paid", "PaymentFailed", planned(withInvoice("paid", failedAttempts(1))), activities.Planning{}, nil},
		{"31 the first payment failed at the checkout", "PaymentFailed", planned(withInvoice("open", failedAttempts(1), func(i *billing.Invoice) { i.AtCheckout = true })), activities.Planning{}, nil},
		{"failed, and ended", "PaymentFailed", planned(withInvoice("open", failedAttempts(1)), subscriptionIs(ended)), activities.Planning{}, nil},
		{"failed, of a connected account", "PaymentFailed", planned(withInvoice("open", failedAttempts(1)), func(c *billing.Change) { c.Subject.ProviderAccount = "acct_9" }),
			activities.Planning{}, []string{"action-required-notice:stripe:live:acct_9:in_1:1"}},
		{"failed long before it came", "PaymentFailed", planned(withInvoice("open", failedAttempts(1)),
			comesDue(billing.Due{Why: billing.DueDunning, Object: "in_1", Step: 3, Invoice: &billing.Invoice{Ref: billing.Ref{ID: "in_1", Account: "acme"}}})), activities.Planning{},
			[]string{"action-required-notice:stripe:live:in_1:1"}},
		{"failed, and was told before: a reminder is due", "PaymentFailed", planned(withInvoice("open", failedAttempts(1)), func(c *billing.Change) { c.Before.Invoice = c.After.Invoice },
			comesDue(billing.Due{Why: billing.DueDunning, Object: "in_1", Step: 3, Invoice: &billing.Invoice{Ref: billing.Ref{ID: "in_1", Account: "acme"}}})), activities.Planning{},
			[]string{"action-required-notice:stripe:live:in_1:1", "dunning-notice:stripe:live:in_1:3"}},

		{"refunded in full, where that ends access", "RefundChanged", planned(took(func(s *billing.Subscription) { s.PaidBack = true })), activities.Planning{}, []string{suspends, taken}},
		{"disputed, where that holds access", "DisputeChanged", planned(took(func(s *billing.Subscription) { s.Held = true })), activities.Planning{}, []string{suspends, taken}},
		{"refunded in full, and ended", "RefundChanged", planned(took(func(s *billing.Subscription) { ended(s); s.PaidBack = true })), activities.Planning{}, []string{suspends}},
		{"refunded in full, and nothing was there to take", "RefundChanged", planned(suspended, subscriptionIs(func(s *billing.Subscription) { s.PaidBack = true }), func(c *billing.Change) {
			c.Before.Access = c.After.Access
		}), activities.Planning{}, nil},
		{"refunded in full, and reconciled", "Reconciled", planned(took(func(s *billing.Subscription) { s.PaidBack = true })), activities.Planning{}, []string{suspends}},
		{"tied to a refund", "Record", planned(took(func(s *billing.Subscription) { s.PaidBack = true })), activities.Planning{}, []string{suspends, taken}},
		{"held by a person", "AccountDue", planned(took(func(*billing.Subscription) {}), comesDue(billing.Due{Why: billing.DueHold, Object: "acme", Subscription: planned().After.Subscription})),
			activities.Planning{}, []string{suspends, taken}},
		{"folded anew by another meaning", "AccountDue", planned(took(func(s *billing.Subscription) { s.PaidBack = true }), comesDue(billing.Due{Why: billing.DueRefold, Object: "acme"})),
			activities.Planning{}, []string{suspends}},
		{"folded anew by another meaning, and to be told", "AccountDue", planned(suspended, comesDue(
			billing.Due{Why: billing.DueChanged, Object: "sub_1", Subscription: planned().After.Subscription}, billing.Due{Why: billing.DueChanged, Object: "sub_9"},
			billing.Due{Why: billing.DueEnded, Object: "sub_1", Subscription: periodOver(ended).Subscription},
			billing.Due{Why: billing.DueTaken, Object: "sub_1", Subscription: periodOver(func(s *billing.Subscription) { s.PaidBack = true }).Subscription})), activities.Planning{},
			[]string{suspends, "subscription-changed-notice:stripe:live:sub_1:v1", "subscription-ended-notice:stripe:live:sub_1", taken}},

		{"voided", "InvoiceClosed", planned(withInvoice("void")), activities.Planning{}, nil},
		{"given up, part paid", "InvoiceClosed", planned(withInvoice("uncollectible", func(i *billing.Invoice) { i.Paid = 900 })), activities.Planning{},
			[]string{"finance-export:stripe:live:in_1"}},
		{"given up, and paid", "InvoiceClosed", planned(withInvoice("paid", func(i *billing.Invoice) { i.Paid = 4900 })), activities.Planning{}, nil},

		{"trial ends", "TrialEnding", planned(subscriptionIs(func(s *billing.Subscription) { s.Status, s.TrialEnd = "trialing", trial })), activities.Planning{},
			[]string{"trial-ending-notice:stripe:live:sub_1:1772582400"}},
		{"20 trial ended", "TrialEnding", planned(subscriptionIs(func(s *billing.Subscription) { s.TrialEnd = trial })), activities.Planning{}, nil},
		{"trial ends, and the subscription with it", "TrialEnding", planned(subscriptionIs(func(s *billing.Subscription) {
			s.Status, s.TrialEnd, s.PlannedEnd = "trialing", trial, trial
		})), activities.Planning{}, nil},

		{"began", "SubscriptionChanged", planned(), activities.Planning{}, []string{workspace}},
		{"changed", "SubscriptionChanged", planned(subscriptionIs(func(s *billing.Subscription) { s.Version = 2 }),
			subscriptionWas(func(s *billing.Subscription) { s.Version = 1 })), activities.Planning{}, []string{workspace, "subscription-changed-notice:stripe:live:sub_1:v2"}},
		{"began, and was paid before, until a planned end", "SubscriptionChanged", planned(subscriptionIs(func(s *billing.Subscription) { s.Version, s.PlannedEnd = 2, trial }),
			subscriptionWas(func(s *billing.Subscription) { s.Version, s.Evidence, s.PlannedEnd = 1, true, time.Time{} })), activities.Planning{}, []string{workspace}},
		{"renewed", "SubscriptionChanged", planned(subscriptionWas(func(*billing.Subscription) {})), activities.Planning{}, []string{workspace}},
		{"became active", "SubscriptionChanged", planned(subscriptionIs(func(s *billing.Subscription) { s.Version = 2 }),
			subscriptionWas(func(s *billing.Subscription) { s.Status, s.Version = "incomplete", 1 })), activities.Planning{}, []string{workspace}},

		{"ended", "SubscriptionEnded", planned(subscriptionIs(ended), suspended), activities.Planning{}, []string{suspends, "subscription-ended-notice:stripe:live:sub_1"}},
		{"10 ended, and another one grants", "SubscriptionEnded", planned(subscriptionIs(ended)), activities.Planning{}, []string{workspace}},
		{"ended, and an add-on alone stays", "SubscriptionEnded", planned(subscriptionIs(ended), suspended, addOnAlone), activities.Planning{},
			[]string{suspends, "subscription-ended-notice:stripe:live:sub_1"}},
		{"ended, and paid for until later", "SubscriptionEnded", planned(subscriptionIs(func(s *billing.Subscription) { ended(s); s.EndsAt = trial }),
			func(c *billing.Change) { c.After.Access.Grants[0].Ends = trial }), activities.Planning{}, []string{workspace, "access-ending-notice:stripe:live:sub_1:1772582400"}},
		{"31 ended, and never granted", "SubscriptionEnded", planned(subscriptionIs(func(s *billing.Subscription) { ended(s); s.EverGranted = false }), func(c *billing.Change) {
			c.After.Access = billing.Access{Account: "acme"}
		}), activities.Planning{}, nil},

		{"recorded", "Record", planned(), activities.Planning{}, nil},
		{"recorded, and it says whose it is", "Record", planned(func(c *billing.Change) { c.Before.Access.Target.Version = 6 }), activities.Planning{}, []string{workspace}},

		{"the grace is over", "AccountDue", planned(suspended), activities.Planning{}, []string{suspends}},
		{"what had ended is over", "AccountDue", planned(suspended, comesDue(periodOver(ended))), activities.Planning{}, []string{suspends, "subscription-ended-notice:stripe:live:sub_1"}},
		{"what had ended is over, and another one grants", "AccountDue", planned(comesDue(periodOver(ended))), activities.Planning{}, nil},
		{"nothing changes", "AccountDue", planned(), activities.Planning{}, nil},
		{"all that can be due", "AccountDue", planned(suspended, comesDue(
			billing.Due{Why: billing.DueDunning, Object: "in_1", Step: 2, Invoice: &billing.Invoice{Ref: billing.Ref{ID: "in_1", Account: "acme"}}},
			billing.Due{Why: billing.DueSettle, Object: "sub_1"}, billing.Due{Why: billing.DueKeep, Object: "acme"})), activities.Planning{},
			[]string{suspends, "dunning-notice:stripe:live:in_1:2", "reconcile-task:stripe:live:sub_1", "release-task:stripe:live:acme:v8"}},
		{"kept for long enough, and back", "AccountDue", planned(comesDue(billing.Due{Why: billing.DueKeep, Object: "acme"})), activities.Planning{}, nil},
	} {
		t.Run(tt.flow+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			if got := workflows.PlannedKeys(tt.flow, tt.change, tt.planning); !slices.Equal(got, tt.want) {
				t.Errorf("keys\n got %q\nwant %q", got, tt.want)
			}
		})
	}
}

// A review is asked for whichever event completes its reason.
func TestPlans_Reviews(t *testing.T) {
	t.Parallel()
	paidAndVoid := planned(withInvoice("paid", func(i *billing.Invoice) { i.Review = billing.ReviewPaidAndVoid }))
	for _, flow := range []string{"InvoicePaid", "InvoiceClosed", "PaymentFailed", "Record"} {
		if got := workflows.PlannedReview(flow, paidAndVoid); got != "stripe:live:in_1 paid_and_void" {
			t.Errorf("%s of a paid and voided invoice asks for the review %q", flow, got)
		}
	}
	imported := planned(subscriptionIs(func(s *billing.Subscription) { ended(s); s.Review = billing.ReviewImport }))
	if got := workflows.PlannedReview("SubscriptionEnded", imported); got != "stripe:live:sub_1 import_disagrees" {
		t.Errorf("an import that disagrees asks for the review %q", got)
	}
	if got := workflows.PlannedReview("SubscriptionChanged", planned()); got != "" {
		t.Errorf("a healthy change asks for the review %q", got)
	}
}
