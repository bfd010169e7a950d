package forge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// stripe is the name of the provider with templates by type in this package.
const stripe = "stripe"

// StripeTypes returns the Stripe types that can be made, the most useful first.
func StripeTypes() []string {
	const first = "invoice.paid"
	types := slices.Sorted(maps.Keys(stripeTypes))
	return append([]string{first}, slices.DeleteFunc(types, func(t string) bool { return t == first })...)
}

// ThinType is a type of Stripe's thin events. Other thin types can be made as well.
const ThinType = "v1.billing.meter.error_report_triggered"

// thin reports whether the event is a thin event of Stripe: by its type, or by the option of its source.
func (p Params) thin() bool {
	return p.Provider.Name == stripe && (isThin(p.Type) || p.Options["payload"] == "thin")
}

// isThin reports whether t is a type of thin events: these begin with the API's version.
func isThin(t string) bool { return strings.HasPrefix(t, "v1.") || strings.HasPrefix(t, "v2.") }

// stripeType describes the object of an event type.
type stripeType struct {
	// object is the kind of object and the name of its template; status is the object's status.
	object, status string
}

var stripeTypes = map[string]stripeType{
	"customer.subscription.created":                {"subscription", "active"},
	"customer.subscription.updated":                {"subscription", "active"},
	"customer.subscription.deleted":                {"subscription", "canceled"},
	"customer.subscription.paused":                 {"subscription", "paused"},
	"customer.subscription.resumed":                {"subscription", "active"},
	"customer.subscription.trial_will_end":         {"subscription", "trialing"},
	"customer.subscription.pending_update_applied": {"subscription", "active"},
	"customer.subscription.pending_update_expired": {"subscription", "active"},

	"invoice.created":                 {"invoice", "draft"},
	"invoice.finalized":               {"invoice", "open"},
	"invoice.finalization_failed":     {"invoice", "draft"},
	"invoice.paid":                    {"invoice", "paid"},
	"invoice.payment_succeeded":       {"invoice", "paid"},
	"invoice.payment_failed":          {"invoice", "open"},
	"invoice.payment_action_required": {"invoice", "open"},
	"invoice.overdue":                 {"invoice", "open"},
	"invoice.voided":                  {"invoice", "void"},
	"invoice.marked_uncollectible":    {"invoice", "uncollectible"},

	"checkout.session.completed":               {"checkout_session", "complete"},
	"checkout.session.async_payment_succeeded": {"checkout_session", "complete"},
	"checkout.session.async_payment_failed":    {"checkout_session", "complete"},
	"checkout.session.expired":                 {"checkout_session", "expired"},

	"customer.created": {"customer", ""},
	"customer.updated": {"customer", ""},

	"charge.succeeded":     {"charge", "succeeded"},
	"charge.refunded":      {"charge", "succeeded"},
	"invoice_payment.paid": {"invoice_payment", "paid"},

	"refund.created":        {"refund", "pending"},
	"refund.updated":        {"refund", "succeeded"},
	"refund.failed":         {"refund", "failed"},
	"charge.refund.updated": {"refund", "succeeded"},

	"charge.dispute.created":          {"dispute", "needs_response"},
	"charge.dispute.updated":          {"dispute", "under_review"},
	"charge.dispute.funds_withdrawn":  {"dispute", "needs_response"},
	"charge.dispute.funds_reinstated": {"dispute", "won"},
	"charge.dispute.closed":           {"dispute", "lost"},

	"radar.early_fraud_warning.created": {"fraud_warning", ""},
	"radar.early_fraud_warning.updated": {"fraud_warning", ""},

	"credit_note.created": {"credit_note", "issued"},
	"credit_note.updated": {"credit_note", "issued"},
	"credit_note.voided":  {"credit_note", "void"},
}

// Object is the kind of object in a Stripe event, and Status its status.
func (d data) Object() string { return stripeTypes[d.Type].object }
func (d data) Status() string { return stripeTypes[d.Type].status }

// Basil reports whether the API version has the new shapes. Versions are ordered by date.
func (d data) Basil() bool { return d.APIVersion >= "2025-03-31" }

// Is reports whether the event is of one of the types.
func (d data) Is(types ...string) bool { return slices.Contains(types, d.Type) }

// Paid reports whether the invoice or the session is paid.
func (d data) Paid() bool {
	return d.Status() == "paid" || d.Is("checkout.session.completed", "checkout.session.async_payment_succeeded")
}

func (d data) PeriodEnd() int64 { return d.At.AddDate(0, 1, 0).Unix() }
func (d data) Retry() int64     { return d.At.AddDate(0, 0, 3).Unix() }

// These IDs derive from the account: a renewal is another invoice of the same subscription.
func (d data) Customer() string     { return "cus_" + hash(d.Account, "customer", 14) }
func (d data) Subscription() string { return "sub_" + hash(d.Account, "subscription", 24) }
func (d data) Item() string         { return "si_" + hash(d.Account, "item", 14) }

// These IDs derive from the purchase: two events with one seed are about one invoice, its charge, and its refund.
func (d data) Invoice() string        { return "in_" + hash(d.Seed, "invoice", 24) }
func (d data) Session() string        { return "cs_" + hash(d.Seed, "session", 24) }
func (d data) Intent() string         { return "pi_" + hash(d.Seed, "intent", 24) }
func (d data) Charge() string         { return "ch_" + hash(d.Seed, "charge", 24) }
func (d data) InvoicePayment() string { return "inpay_" + hash(d.Seed, "invoice payment", 24) }
func (d data) Refund() string         { return "re_" + hash(d.Seed, "refund", 24) }
func (d data) Dispute() string        { return "dp_" + hash(d.Seed, "dispute", 24) }
func (d data) Withdrawal() string     { return "txn_" + hash(d.Seed, "withdrawal", 24) }
func (d data) Reinstatement() string  { return "txn_" + hash(d.Seed, "reinstatement", 24) }
func (d data) Warning() string        { return "issfr_" + hash(d.Seed, "warning", 24) }
func (d data) CreditNote() string     { return "cn_" + hash(d.Seed, "credit note", 24) }
func (d data) Line() string           { return "il_" + hash(d.Seed, "line", 24) }

// linesShown is the maximum number of lines in the invoice of an event.
const linesShown = 10

// cuts reports whether the event contains only the first lines of the invoice.
func (d data) cuts() bool {
	return stripeTypes[d.Type].object == "invoice" && d.Provider.Name == stripe && d.Lines > linesShown
}

// ItemLines returns the IDs of the lines before the plan's: usage items without an amount.
func (d data) ItemLines() (ids []string) {
	n := d.Lines - 1
	if d.Cut {
		n = linesShown
	}
	for i := range n {
		ids = append(ids, "il_"+hash(d.Seed, fmt.Sprintf("item line %d", i), 24))
	}
	return ids
}

func (d data) Price() string     { return cmp.Or(d.Params.Price, "price_"+d.Plan) }
func (d data) Product() string   { return "prod_" + d.Plan }
func (d data) RequestID() string { return "req_" + hash(d.EventID, "request", 14) }
