package sandbox

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/tidwall/gjson"
)

// basil is the API version that changed invoices, invoice lines and subscriptions. Since basil, a payment no longer
// names its invoice.
const basil = "2025-03-31"

// document is a JSON object of Stripe.
type document = map[string]any

// InBasil converts an object of any API version to basil. Events keep the version in which they were created.
func InBasil(object string) any {
	change := map[string]func(document){
		"subscription": subscriptionInBasil, "line_item": lineInBasil, "invoice": invoiceInBasil,
		"charge": paymentInBasil, "payment_intent": paymentInBasil,
	}[gjson.Get(object, "object").Str]
	var o document
	if change == nil || json.Unmarshal([]byte(object), &o) != nil {
		return json.RawMessage(object)
	}
	change(o)
	return o
}

// elements returns the objects of a Stripe list.
func elements(o document, name string) (all []document) {
	list, _ := o[name].(document)
	data, _ := list["data"].([]any)
	for _, each := range data {
		if e, ok := each.(document); ok {
			all = append(all, e)
		}
	}
	return all
}

func drop(o document, fields ...string) {
	maps.DeleteFunc(o, func(name string, _ any) bool { return slices.Contains(fields, name) })
}

// keep returns the named fields of an object, if they exist.
func keep(o document, fields ...string) document {
	kept := maps.Clone(o)
	maps.DeleteFunc(kept, func(name string, _ any) bool { return !slices.Contains(fields, name) })
	return kept
}

func paymentInBasil(o document) { drop(o, "invoice") }

func subscriptionInBasil(o document) {
	for _, item := range elements(o, "items") {
		maps.Copy(item, keep(o, "current_period_start", "current_period_end"))
	}
	drop(o, "current_period_start", "current_period_end", "discount")
}

func invoiceInBasil(o document) {
	if subscription, older := o["subscription"]; older {
		if o["parent"] = nil; subscription != nil {
			details, _ := o["subscription_details"].(document)
			o["parent"] = document{"type": "subscription_details", "quote_details": nil,
				"subscription_details": document{"subscription": subscription, "metadata": details["metadata"]}}
		}
		o["total_taxes"] = []any{}
		if tax, _ := o["tax"].(float64); tax != 0 {
			o["total_taxes"] = []any{document{"amount": tax}}
		}
		drop(o, "subscription", "subscription_details", "paid", "paid_out_of_band", "payment_intent", "charge", "tax",
			"total_tax_amounts", "discount", "quote")
	}
	for _, line := range elements(o, "lines") {
		lineInBasil(line)
	}
}

// ofItem are the fields of an invoice line that name its subscription item. Since basil they are part of parent.
var ofItem = []string{"subscription", "subscription_item", "proration", "proration_details", "invoice_item"}

func lineInBasil(line document) {
	price, older := line["price"].(document)
	if !older {
		return
	}
	kind := "invoice_item_details"
	if line["type"] == "subscription" {
		kind = "subscription_item_details"
	}
	line["parent"] = document{"type": kind, kind: keep(line, ofItem...)}
	line["pricing"] = document{"type": "price_details", "unit_amount_decimal": nil,
		"price_details": document{"price": price["id"], "product": price["product"]}}
	drop(line, append(ofItem, "price", "plan", "type", "tax_amounts", "tax_rates", "amount_excluding_tax")...)
}

// tied returns the invoice that a payment intent paid, in an object from before basil: a charge or intent names its
// invoice, or a paid invoice names its intent. It returns "" if the object names neither.
func tied(o stripeObject) (intent, invoice string) {
	switch o.text("object") {
	case "charge":
		return o.text("payment_intent"), o.text("invoice")
	case "payment_intent":
		return o.id(), o.text("invoice")
	case "invoice":
		if o.text("status") == "paid" {
			return o.text("payment_intent"), o.id()
		}
	case "invoice_payment":
		return o.text("payment.payment_intent"), o.text("invoice")
	}
	return "", ""
}

// invoicePayment derives the invoice payment, which basil introduced, from an object that names both invoice and
// intent.
func invoicePayment(o stripeObject, intent, invoice string) string {
	made := `{"object":"invoice_payment","is_default":true,"status":"paid"}`
	amount, created := gjson.Get(o.json, "amount"), cmp.Or(gjson.Get(o.json, "created").Int(), o.at)
	paid := created
	if o.text("object") == "invoice" {
		amount, paid = gjson.Get(o.json, "amount_paid"),
			cmp.Or(gjson.Get(o.json, "status_transitions.paid_at").Int(), o.at)
	}
	for name, value := range map[string]any{
		"id": "inpay_" + intent, "invoice": invoice, "currency": o.text("currency"), "amount_paid": amount.Int(),
		"amount_requested": amount.Int(), "created": created,
		"livemode":           gjson.Get(o.json, "livemode").Bool(),
		"status_transitions": document{"paid_at": paid, "canceled_at": nil},
		"payment":            document{"type": "payment_intent", "payment_intent": intent},
	} {
		made = with(made, name, value)
	}
	return made
}
