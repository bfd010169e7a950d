package plan

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Review is a question to a person about an object. All events of the object have the same review and the same answer.
type Review struct {
	Object string
	// Code is the reason code, and Reason the text for people.
	Code, Reason string
	// Withholding is the input of the step that withholds the grant of the object. Receipt is the e-mailed receipt of
	// the object, and Correction the correction of this receipt. Both are nil if the object has no receipt.
	Withholding         activities.Withholding
	Receipt, Correction *Step
}

// OnceWithheld is the suffix of the keys of a rejection's effects. These keys must differ from the keys of undos,
// because other runs of the object would treat an undo as the start of a compensation.
const OnceWithheld = ":withheld"

// reviewOf returns the review that the objects of a change need, or nil.
func reviewOf(c fold.Change) *Review {
	i, s := c.After.Invoice, c.After.Subscription
	switch paid := c.After.PaidAfterEnd; {
	case i != nil && i.Review != "":
		words := map[string]string{
			fold.ReviewPaidAndVoid:  "was paid and voided: refund it, or keep it",
			fold.ReviewPaidThenOpen: "was paid and is open again: a payment was detached from it in Stripe",
		}[i.Review]
		return reviewOfInvoice(c, *i, i.Review, words)
	case s != nil && s.Review == fold.ReviewImport:
		return &Review{
			Object: Object(c.Subject, s.ID), Withholding: activities.WithholdingOf(c), Code: s.Review,
			Reason: "subscription " + s.ID + " was ended by an event, but was active at its import",
		}
	case paid != nil:
		what := "was paid after its subscription " + s.ID + " had ended"
		if s.NeverBegan() {
			what = "was paid, but its subscription " + s.ID + " expired before it began"
		}
		return reviewOfInvoice(c, *paid, "paid_after_end",
			what+", for a period after the end: refund it, or grant access by hand")
	}
	return nil
}

// reviewOfInvoice returns the review of a paid invoice. event describes what happened to the invoice.
func reviewOfInvoice(c fold.Change, i fold.Invoice, code, event string) *Review {
	c.After.Invoice = &i
	r := &Review{Object: Object(c.Subject, i.ID), Code: code, Reason: "invoice " + i.ID + " " + event,
		Withholding: activities.WithholdingOf(c)}
	if i.Paid > 0 {
		r.Receipt, r.Correction = receiptStep(c.Subject, i), correctionStep(c.Subject, i, r.Object+OnceWithheld)
	}
	return r
}
