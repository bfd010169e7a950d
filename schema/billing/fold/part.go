package fold

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Since Stripe's API version 2025-03-31.basil, several payments can pay an invoice. Each of them has an event. Each
// payment is booked separately, in the order in which the payments become known. The invoice reports only the sum of
// its payments. An amount without a known payment is booked as one payment, unless the source has a key to fetch the
// payments.

// PaidBy is the payment that paid a part of an invoice.
type PaidBy struct {
	// Payment is empty if only the invoice reports this part.
	Payment string `json:",omitempty"`
	// OutOfBand is set for a payment outside of the provider.
	OutOfBand bool `json:",omitempty"`
}

// paidSum returns the last of the PaidSums, or 0.
func (i *Invoice) paidSum() int64 {
	if len(i.PaidSums) == 0 {
		return 0
	}
	return i.PaidSums[len(i.PaidSums)-1]
}

// keepParts copies PaidSums, PaidTimes and PaidBy from the earlier state of the invoice.
func (i *Invoice) keepParts(before *Invoice) {
	i.PaidSums, i.PaidTimes = slices.Clone(before.PaidSums), slices.Clone(before.PaidTimes)
	i.PaidBy = slices.Clone(before.PaidBy)
}

// addUp appends a part for each payment that before does not have. before is the earlier state of the invoice, or nil.
// Parts of before never change. A paid invoice has at least one part, even if its amount is 0.
func (i *Invoice) addUp(before *Invoice, with Related) {
	if before != nil {
		i.keepParts(before)
		i.Misread = before.Misread
	}
	var payments []*Payment
	for _, p := range Each[*Payment](with.Objects) {
		if p.Invoice == i.ID && p.Status == "succeeded" && p.Amount > 0 {
			payments = append(payments, p)
		}
	}
	slices.SortStableFunc(payments, func(a, b *Payment) int { return a.SucceededAt.Compare(b.SucceededAt) })
	sum, at := i.received(fact.InOrder(with.Facts[i.ID], fact.InvoiceSeen), payments)
	if !i.IsPaid() && sum > i.Paid {
		i.Remaining = max(0, i.Remaining-(sum-i.Paid))
		i.Paid = sum
	}
	sum -= i.Misread
	i.addPayments(payments, sum-i.paidSum())
	rest := sum - i.paidSum()
	switch {
	case rest > 0 && with.Policy.Asks && i.How == "":
		i.Unexplained = rest
	case rest > 0, len(i.PaidSums) == 0 && i.IsPaid():
		i.addPart(max(0, rest), at, PaidBy{})
	}
}

// received returns the paid amount, and the time of the first snapshot that reported it. A paid invoice reports the sum
// of all payments. The amount in any other snapshot may be older than the newest payments. received adds a payment if
// it happened after the snapshot.
func (i *Invoice) received(snapshots []fact.Fact, payments []*Payment) (sum int64, at time.Time) {
	for _, p := range payments {
		sum += p.Amount
	}
	if i.IsPaid() {
		sum = 0
	}
	for _, f := range snapshots {
		in := f.Invoice
		reported := in.Paid
		for _, p := range payments {
			if !i.IsPaid() && !p.Estimated && !f.MayShow(p.SucceededAt) {
				reported += p.Amount
			}
		}
		if reported < sum || reported == sum && !at.IsZero() || reported == 0 && in.Status != "paid" {
			continue
		}
		sum, at = reported, f.OccurredAt
		if in.Paid <= in.Due { // otherwise the customer paid the excess later
			at = cmp.Or(in.PaidAt, f.OccurredAt)
		}
	}
	if i.IsPaid() {
		return i.Paid, at
	}
	return sum, at
}

// addPayments appends the payments that are not part of the invoice yet, up to a total of room. A payment that does not
// fit has been reported before, as a part without a payment. addPayments assigns the payment to the part with the same
// amount.
func (i *Invoice) addPayments(payments []*Payment, room int64) {
	var unknown int64
	payments = slices.DeleteFunc(payments, func(p *Payment) bool {
		return slices.ContainsFunc(i.PaidBy, func(by PaidBy) bool { return by.Payment == p.ID })
	})
	for _, p := range payments {
		unknown += p.Amount
	}
	for _, p := range payments {
		by := PaidBy{p.ID, p.OutOfBand}
		if n := i.reported(p); n >= 0 && unknown > room {
			i.PaidBy[n] = by
			unknown -= p.Amount
		} else if p.Amount <= room {
			i.addPart(p.Amount, p.SucceededAt, by)
			room, unknown = room-p.Amount, unknown-p.Amount
		}
	}
}

// reported returns the index of the part without a payment that this payment may have paid, or -1. It selects the first
// part at or after the time of the payment. For a paid invoice it falls back to the last part. In an open invoice, an
// earlier part may belong to another payment that is not known yet.
func (i *Invoice) reported(p *Payment) int {
	found, before := -1, int64(0)
	for n, sum := range i.PaidSums {
		if i.PaidBy[n].Payment == "" && sum-before == p.Amount {
			if !i.PaidTimes[n].Before(p.SucceededAt) {
				return n
			}
			if i.IsPaid() {
				found = n
			}
		}
		before = sum
	}
	return found
}

// PartPaidBy returns the payment of PaidSums[n].
func (i Invoice) PartPaidBy(n int) PaidBy {
	if n < len(i.PaidBy) {
		return i.PaidBy[n]
	}
	return PaidBy{}
}

func (i *Invoice) addPart(amount int64, at time.Time, by PaidBy) {
	i.PaidSums = append(i.PaidSums, i.paidSum()+amount)
	i.PaidTimes, i.PaidBy = append(i.PaidTimes, at), append(i.PaidBy, by)
}

// Reread keeps the parts of the invoice after its payloads were parsed again. If the new parse found another paid
// amount, that difference is not a payment.
func (i *Invoice) Reread(before *Invoice) {
	if before == nil || len(before.PaidSums) == 0 || i.Paid == before.Paid {
		return
	}
	i.keepParts(before)
	if last := len(i.PaidSums) - 1; last > 0 {
		i.Misread = i.Paid - i.PaidSums[last]
	} else {
		i.PaidSums[0] = i.Paid // the first part has the key of the invoice, so its sum may change
	}
}
