package account

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/money"
)

// kindWords name the kinds of objects in a [Difference].
var kindWords = map[fact.Kind]string{
	fact.SubscriptionSeen: "subscription", fact.InvoiceSeen: "invoice", fact.CheckoutSeen: "checkout",
	fact.PaymentSeen: "payment", fact.RefundSeen: "refund", fact.DisputeSeen: "dispute",
	fact.WarningSeen: "fraud warning", fact.CreditSeen: "credit note",
}

// differencesOf returns the changed fields that a person understands.
func differencesOf(object string, kind fact.Kind, c fold.Change) (list []Difference) {
	if kindWords[kind] == "" {
		for _, left := range c.Others {
			list = append(list, Difference{Object: object, Kind: "customer", Field: "account", Ours: left.Account,
				Theirs: c.After.Access.Account})
		}
		return list
	}
	was, is := fieldsOf(object, kind, c.Before), fieldsOf(object, kind, c.After)
	if kind == fact.PaymentSeen && is != nil {
		object = c.After.Payment.ID // the fact belongs to a charge, and changes the payment of the charge
	}
	for n, f := range is {
		d := Difference{Object: object, Kind: kindWords[kind], Field: f.name, Theirs: inWords(f.value)}
		if was != nil {
			d.Ours = inWords(was[n].value)
		}
		if d.Ours != d.Theirs {
			list = append(list, d)
		}
	}
	return list
}

// field is a displayed field of an object.
type field struct {
	name  string
	value any
}

// fieldsOf returns the displayed fields of an object, or nil if the state does not contain the object.
func fieldsOf(id string, kind fact.Kind, in fold.State) []field {
	if s := in.Subscription; kind == fact.SubscriptionSeen && s != nil {
		return []field{
			{"status", s.Status}, {"plan", s.Plan}, {"quantity", s.Quantity}, {"add-ons", s.AddOns},
			{"period start", s.PeriodStart}, {"period end", s.PeriodEnd}, {"trial end", s.TrialEnd},
			{"planned end", s.PlannedEnd}, {"ended", s.EndedAt}, {"account", s.Account}, {"customer", s.Customer},
		}
	}
	if i := in.Invoice; kind == fact.InvoiceSeen && i != nil {
		return []field{
			{"status", i.Status}, {"due", sumIn(i.Due, i.Currency)}, {"paid", sumIn(i.Paid, i.Currency)},
			{"attempts", i.Attempts}, {"next attempt", i.NextAttempt}, {"due at", i.DueAt}, {"plan", i.Plan},
			{"subscription", i.Subscription}, {"account", i.Account}, {"not finalized", i.Stuck},
		}
	}
	if c := in.Checkout; kind == fact.CheckoutSeen && c != nil {
		return []field{
			{"status", c.Status}, {"payment", c.PaymentStatus}, {"amount", sumIn(c.Amount, c.Currency)},
			{"plan", c.Plan}, {"account", c.Account}, {"customer", c.Customer},
		}
	}
	if p := in.Payment; kind == fact.PaymentSeen && p != nil {
		refunded := ""
		if p.Refunded > 0 {
			refunded = sumIn(p.Refunded, p.Currency)
		}
		return []field{{"customer", p.Customer}, {"invoice", p.Invoice}, {"refunded", refunded}}
	}
	for _, r := range in.Refunds {
		if kind == fact.RefundSeen && r.ID == id {
			return []field{{"status", r.Status}, {"amount", sumIn(r.Amount, r.Currency)}, {"payment", r.Payment}}
		}
	}
	for _, d := range in.Disputes {
		if kind == fact.DisputeSeen && d.ID == id {
			var moved int64
			for _, m := range d.Movements {
				moved += m.Amount
			}
			return []field{{"status", d.Status}, {"amount", sumIn(d.Amount, d.Currency)},
				{"moved", sumIn(moved, d.Currency)}, {"payment", d.Payment}}
		}
	}
	for _, w := range in.Warnings {
		if kind == fact.WarningSeen && w.ID == id {
			return []field{{"actionable", w.Actionable}, {"charge", w.Charge}}
		}
	}
	for _, n := range in.Credits {
		if kind == fact.CreditSeen && n.ID == id {
			return []field{{"status", n.Status}, {"amount", sumIn(n.Amount, n.Currency)}, {"invoice", n.Invoice}}
		}
	}
	return nil
}

// sumIn formats an amount in its currency. An amount without a currency is "".
func sumIn(amount int64, currency string) string {
	if currency == "" {
		return ""
	}
	return money.Format(amount, currency)
}

// inWords formats a value for people. It returns "" for an empty value.
func inWords(value any) string {
	switch v := value.(type) {
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UTC().Format(time.RFC3339)
	case []string:
		return strings.Join(v, ", ")
	case int64, int:
		if v == int64(0) || v == 0 {
			return ""
		}
	}
	return fmt.Sprint(value)
}
