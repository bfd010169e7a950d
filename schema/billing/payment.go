package billing

import (
	"cmp"
	"slices"
	"time"
)

// Payment is what the facts about a payment intent and its charges fold to, or about a charge that has none.
type Payment struct {
	ID string
	// Account is ours, "" until it is known; see [Payment.belongsTo].
	Account  string
	Customer string `json:",omitempty"`
	Invoice  string `json:",omitempty"`
	// Subscription is the invoice's.
	Subscription string `json:",omitempty"`
	Charge       string `json:",omitempty"`
	// Status is "" as long as nothing is known but what refers to the payment.
	Status   string
	Amount   int64
	Currency string
	// Refunded is the larger of what the last snapshots of its charges say and what the refunds that succeeded sum up to:
	// whichever of them comes first.
	Refunded int64 `json:",omitempty"`
	// RefundedBy is the fact that told of the last money that was paid back; zero while none was.
	RefundedBy Cause  `json:",omitzero"`
	Because    string `json:",omitempty"`
}

// FoldPayment makes a payment of the facts about it and of its refunds. Its Account is left to Apply.
func FoldPayment(id string, facts []Fact, refunds []Refund) Payment {
	p := Payment{ID: id}
	refunded := map[string]Fact{} // what each charge says last
	since := map[string]Cause{}   // by which fact it says so
	for _, f := range InOrder(facts, PaymentSeen) {
		seen := f.Payment
		p.Customer, p.Invoice, p.Charge = cmp.Or(f.Customer, p.Customer), cmp.Or(seen.Invoice, p.Invoice), cmp.Or(seen.Charge, p.Charge)
		p.Status = cmp.Or(seen.Status, p.Status) // what ties a payment to its invoice need not say how it stands
		p.Amount, p.Currency, p.Because = seen.Amount, seen.Currency, f.EventID
		if before, again := refunded[seen.Charge]; seen.Refunded != nil && (!again || before.OccurredAt.Before(f.OccurredAt) || *before.Payment.Refunded < *seen.Refunded) {
			refunded[seen.Charge] = f // within a second, the larger: it only grows
			if !again || *before.Payment.Refunded != *seen.Refunded {
				since[seen.Charge] = causeOf(f)
			}
		}
	}
	var sum, said int64
	var saidBy, summedBy Cause
	for charge, f := range refunded {
		if *f.Payment.Refunded > 0 {
			saidBy = laterCause(saidBy, since[charge])
		}
		said += *f.Payment.Refunded - failedSince(f.OccurredAt, f.Payment.Charge, refunds)
	}
	for _, r := range refunds {
		p.Customer = cmp.Or(p.Customer, r.Customer)
		if r.Status == "succeeded" {
			sum, summedBy = sum+r.Amount, laterCause(summedBy, r.SucceededBy)
		}
	}
	switch p.Refunded = max(said, sum); {
	case sum > 0 && sum >= said:
		p.RefundedBy = summedBy
	case said > 0:
		p.RefundedBy = saidBy
	}
	return p
}

// failedSince returns what of a charge was counted as refunded at a time, and has come back since: no snapshot of the
// charge tells of that.
func failedSince(at time.Time, charge string, refunds []Refund) (sum int64) {
	for _, r := range refunds {
		if r.Charge == charge && !r.FailedAt.IsZero() && !r.FailedAt.Before(at) {
			sum += r.Amount
		}
	}
	return sum
}

// PaymentOf returns the payment that a fact is about, or that its object belongs to; "" for none.
func PaymentOf(f Fact) string {
	switch {
	case f.Payment != nil:
		return f.Object
	case f.Refund != nil:
		return cmp.Or(f.Refund.PaymentIntent, f.Refund.Charge)
	case f.Dispute != nil:
		return cmp.Or(f.Dispute.PaymentIntent, f.Dispute.Charge)
	case f.Warning != nil:
		return cmp.Or(f.Warning.PaymentIntent, f.Warning.Charge)
	case f.Checkout != nil:
		return f.Checkout.PaymentIntent
	}
	return ""
}

// made takes over what the session says that the payment was made in.
func (p Payment) made(sessions []Checkout) Payment {
	for _, c := range sessions {
		if c.PaymentIntent == p.ID {
			p.Invoice, p.Customer = cmp.Or(p.Invoice, c.Invoice), cmp.Or(p.Customer, c.Customer)
		}
	}
	return p
}

// belongsTo returns our account of a payment, "" until it is known: that of its invoice, else of the checkout session
// that it was made in, else the one that its customer is linked to. A payment that names an invoice waits for that;
// one of no invoice is its customer's.
func (p Payment) belongsTo(mapped string, invoice *Invoice, sessions []Checkout, ofCustomer []Fact) (account string) {
	if mapped != "" {
		return mapped
	}
	if invoice != nil && invoice.ID == p.Invoice {
		return invoice.Account
	}
	for _, c := range sessions {
		if c.PaymentIntent == p.ID {
			account = cmp.Or(account, c.Account)
		}
	}
	account = cmp.Or(account, linkOf(ofCustomer))
	if account == "" && p.Invoice == "" {
		return p.Customer
	}
	return account
}

// Owner is what is known of something through its payment; empty until the payment is known.
type Owner struct {
	// Account is ours.
	Account      string
	Invoice      string `json:",omitempty"`
	Subscription string `json:",omitempty"`
	Customer     string `json:",omitempty"`
	// Told is what was announced of it: only while the account is known, which a payment can lose again by naming an invoice
	// that is not known yet.
	Told []string `json:",omitempty"`
}

// owner is what is known of something through the payment, and what was announced of it.
func (p Payment) owner(told []string) Owner {
	return Owner{Account: p.Account, Invoice: p.Invoice, Subscription: p.Subscription, Customer: p.Customer, Told: told}
}

// known says what is known, for comparisons: more is greater.
func (o Owner) known() string {
	switch {
	case o.Account == "":
		return ""
	case o.Invoice == "":
		return "account"
	}
	return "invoice"
}

// refundedOf sums what was paid back of an invoice, or of a session, and returns the fact that told of the last of it.
func refundedOf(payments []Payment, of func(Payment) bool) (sum int64, by Cause) {
	for _, p := range payments {
		if of(p) {
			sum, by = sum+p.Refunded, laterCause(by, p.RefundedBy)
		}
	}
	return sum, by
}

// Replaced returns what was held, with what is known now in the place of those that have its IDs.
func Replaced[O any](held []O, id func(O) string, now ...O) []O {
	held = slices.DeleteFunc(slices.Clone(held), func(o O) bool {
		return slices.ContainsFunc(now, func(n O) bool { return id(n) == id(o) })
	})
	return append(held, now...)
}

var writePaymentSQL = upsert("payments", "account", "invoice", "subscription", "customer", "status", "amount", "refunded", "currency", "state")
