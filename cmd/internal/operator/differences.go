package operator

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/billing"
)

// differencesOf names the fields of a change that tell a person something.
func differencesOf(object string, kind billing.Kind, c billing.Change) (list []Difference) {
	was, is := c.Before, c.After
	switch kind {
	case billing.SubscriptionSeen:
		return differing(object, "subscription", was.Subscription, is.Subscription, subscriptionFields)
	case billing.InvoiceSeen:
		return differing(object, "invoice", was.Invoice, is.Invoice, invoiceFields)
	case billing.CheckoutSeen:
		return differing(object, "checkout", was.Checkout, is.Checkout, checkoutFields)
	case billing.PaymentSeen:
		if is.Payment != nil {
			object = is.Payment.ID // a charge tells of its payment intent
		}
		return differing(object, "payment", was.Payment, is.Payment, paymentFields)
	case billing.RefundSeen:
		id := func(r billing.Refund) string { return r.ID }
		return differing(object, "refund", named(object, was.Refunds, id), named(object, is.Refunds, id), refundFields)
	case billing.DisputeSeen:
		id := func(d billing.Dispute) string { return d.ID }
		return differing(object, "dispute", named(object, was.Disputes, id), named(object, is.Disputes, id),
			disputeFields)
	case billing.WarningSeen:
		id := func(w billing.Warning) string { return w.ID }
		return differing(object, "fraud warning", named(object, was.Warnings, id), named(object, is.Warnings, id),
			warningFields)
	case billing.CreditSeen:
		id := func(n billing.Credit) string { return n.ID }
		return differing(object, "credit note", named(object, was.Credits, id), named(object, is.Credits, id),
			creditFields)
	}
	for _, left := range c.Others {
		list = append(list, Difference{Object: object, Kind: "customer", Field: "account", Ours: left.Account,
			Theirs: is.Access.Account})
	}
	return list
}

// field is one thing that is shown of an object.
type field struct {
	name  string
	value any
}

func subscriptionFields(s billing.Subscription) []field {
	return []field{
		{"status", s.Status}, {"plan", s.Plan}, {"quantity", s.Quantity}, {"add-ons", s.AddOns},
		{"period start", s.PeriodStart}, {"period end", s.PeriodEnd},
		{"trial end", s.TrialEnd}, {"planned end", s.PlannedEnd}, {"ended", s.EndedAt}, {"account", s.Account},
		{"customer", s.Customer},
	}
}

func invoiceFields(i billing.Invoice) []field {
	return []field{
		{"status", i.Status}, {"due", money(i.Due, i.Currency)}, {"paid", money(i.Paid, i.Currency)},
		{"attempts", i.Attempts}, {"next attempt", i.NextAttempt},
		{"due at", i.DueAt}, {"plan", i.Plan}, {"subscription", i.Subscription}, {"account", i.Account},
		{"not finalized", i.Stuck},
	}
}

func checkoutFields(c billing.Checkout) []field {
	return []field{
		{"status", c.Status}, {"payment", c.PaymentStatus}, {"amount", money(c.Amount, c.Currency)}, {"plan", c.Plan},
		{"account", c.Account}, {"customer", c.Customer},
	}
}

func paymentFields(p billing.Payment) []field {
	refunded := ""
	if p.Refunded > 0 {
		refunded = money(p.Refunded, p.Currency)
	}
	return []field{{"customer", p.Customer}, {"invoice", p.Invoice}, {"refunded", refunded}}
}

func refundFields(r billing.Refund) []field {
	return []field{{"status", r.Status}, {"amount", money(r.Amount, r.Currency)}, {"payment", r.Payment}}
}

func disputeFields(d billing.Dispute) []field {
	var moved int64
	for _, m := range d.Movements {
		moved += m.Amount
	}
	return []field{{"status", d.Status}, {"amount", money(d.Amount, d.Currency)}, {"moved", money(moved, d.Currency)},
		{"payment", d.Payment}}
}

func warningFields(w billing.Warning) []field {
	return []field{{"actionable", w.Actionable}, {"charge", w.Charge}}
}

func creditFields(n billing.Credit) []field {
	return []field{{"status", n.Status}, {"amount", money(n.Amount, n.Currency)}, {"invoice", n.Invoice}}
}

// differing compares the shown fields of an object before and after; nil stands for an unknown object.
func differing[O any](object, kind string, before, after *O, fields func(O) []field) (list []Difference) {
	if after == nil {
		return nil
	}
	var was []field
	if before != nil {
		was = fields(*before)
	}
	for n, is := range fields(*after) {
		d := Difference{Object: object, Kind: kind, Field: is.name, Theirs: inWords(is.value)}
		if was != nil {
			d.Ours = inWords(was[n].value)
		}
		if d.Ours != d.Theirs {
			list = append(list, d)
		}
	}
	return list
}

// named finds an object by its ID. It returns nil if the object is not among them.
func named[O any](id string, among []O, idOf func(O) string) *O {
	for n := range among {
		if idOf(among[n]) == id {
			return &among[n]
		}
	}
	return nil
}

func money(amount int64, currency string) string {
	if currency == "" {
		return ""
	}
	return stripe.Money(amount, currency)
}

// inWords is a value as a person reads it, "" for none.
func inWords(value any) string {
	switch v := value.(type) {
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UTC().Format(time.RFC3339)
	case []string:
		return strings.Join(v, ", ")
	case int64:
		if v == 0 {
			return ""
		}
	case int:
		if v == 0 {
			return ""
		}
	}
	return fmt.Sprint(value)
}
