package stripe

import (
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// creditNote parses a credit note. The credited amount excludes refunds, which have events of their own. A credit
// note for an open invoice only reduces the amount due and credits nothing that was paid.
func (r *reader) creditNote(f *fields) *fact.Fact {
	credited := f.amount("amount")
	switch {
	case !f.null("post_payment_amount"): // since 2024
		credited = f.count("post_payment_amount")
	case f.word("type") == "pre_payment":
		credited = 0
	}
	credited = max(0, credited-r.refundedBy(f, credited))
	status := f.needed("status", f.word("status"))
	seen := r.fact(f, fact.CreditSeen, status == "void")
	taxes := "total_taxes"
	if f.null(taxes) { // up to 2025-02
		taxes = "tax_amounts"
	}
	seen.Credit = &fact.Credit{
		Status: status, Invoice: f.needed("invoice", f.link("invoice")), Amount: credited,
		Currency: f.currency("currency"), Reason: f.word("reason"),
		OutOfBand: min(credited, f.count("out_of_band_amount")),
		Tax:       fold.TaxOf(credited, f.count("amount"), f.taxes(taxes)),
	}
	return seen
}

// refundedBy returns the part of the credit note that is refunded. Until 2024, a credit note contains one refund
// without its amount. That amount is the part that was neither credited to the balance nor repaid outside of Stripe.
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
		f.fail("refund", "repays an amount that the event does not contain; the rest went to the customer's balance")
	}
	return credited - f.count("out_of_band_amount")
}
