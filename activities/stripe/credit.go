package stripe

import "github.com/pawlhq/pawl/schema/billing"

// creditNote reads a credit note. What it credits is what it takes back of money that had been received, but for what
// its refunds pay back: these are events of their own. A credit note to an open invoice only lowers the amount due.
func (r *reader) creditNote(f *fields) *billing.Fact {
	credited := f.amount("amount")
	switch {
	case !f.null("post_payment_amount"): // since 2024
		credited = f.count("post_payment_amount")
	case f.word("type") == "pre_payment":
		credited = 0
	}
	credited = max(0, credited-r.refundedBy(f, credited))
	status := f.needed("status", f.word("status"))
	fact := r.fact(f, billing.CreditSeen, status == "void")
	taxes := "total_taxes"
	if f.null(taxes) { // up to 2025-02
		taxes = "tax_amounts"
	}
	fact.Credit = &billing.CreditFact{
		Status: status, Invoice: f.needed("invoice", f.link("invoice")), Amount: credited,
		Currency: f.currency("currency"), Reason: f.word("reason"),
		OutOfBand: min(credited, f.count("out_of_band_amount")),
		Tax:       billing.TaxOf(credited, f.count("amount"), f.taxes(taxes)),
	}
	return fact
}

// refundedBy returns how much the credit note's refunds pay back. Up to 2024 it names one refund,
// and does not say how much of it: what was put on no balance, and not paid back in another way.
func (r *reader) refundedBy(f *fields, credited int64) (sum int64) {
	if !f.null("refunds") {
		for _, in := range f.elements("refunds") {
			sum += in.amount("amount_refunded")
		}
		return sum
	}
	if f.link("refund") == "" {
		return 0
	}
	if !f.null("customer_balance_transaction") {
		f.fail("refund", "pays back a part that the event does not tell; the rest went to the customer's balance")
	}
	return credited - f.count("out_of_band_amount")
}
