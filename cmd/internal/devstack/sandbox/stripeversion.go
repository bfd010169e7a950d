package sandbox

import (
	"cmp"
	"encoding/json"
	"maps"

	"github.com/tidwall/gjson"
)

// basil is the version since which invoices, their lines and subscriptions have another shape, and payments name no
// invoice.
const basil = "2025-03-31"

// document is a JSON object of Stripe's.
type document = map[string]any

// inVersion returns an object as a version of the API shows it; as it was told where none is asked for. An event keeps
// the version that it was made in. paidBy is the payment intent of an invoice, and pays the invoice of a payment.
func inVersion(object, version, paidBy, pays string) any {
	kind := gjson.Get(object, "object").Str
	change := map[string][2]func(document){
		"subscription": {periodsUp, periodsDown}, "line_item": {olderLine, newerLine},
		"invoice": {func(o document) { olderInvoice(o, paidBy) }, newerInvoice},
		"charge":  {func(o document) { o["invoice"] = orNull(pays) }, func(o document) { delete(o, "invoice") }},
	}
	change["payment_intent"] = change["charge"]
	var o document
	if change[kind][0] == nil || version == "" || json.Unmarshal([]byte(object), &o) != nil {
		return json.RawMessage(object)
	}
	older, newer := change[kind][0], change[kind][1]
	if version >= basil {
		newer(o)
	} else {
		older(o)
	}
	return o
}

func orNull(id string) any {
	if id == "" {
		return nil
	}
	return id
}

// within returns the object at a path. It is empty if nothing stands there.
func within(o document, path ...string) document {
	for _, name := range path {
		inner, _ := o[name].(document)
		o = inner
	}
	return o
}

// elements are the objects of a list of Stripe's.
func elements(o document, list string) (all []document) {
	data, _ := within(o, list)["data"].([]any)
	for _, each := range data {
		if e, ok := each.(document); ok {
			all = append(all, e)
		}
	}
	return all
}

// move moves fields from one object to another, where the first has them.
func move(from, to document, fields ...string) {
	for _, name := range fields {
		if value, has := from[name]; has {
			to[name] = value
			delete(from, name)
		}
	}
}

func drop(o document, fields ...string) {
	maps.DeleteFunc(o, func(name string, _ any) bool {
		for _, field := range fields {
			if name == field {
				return true
			}
		}
		return false
	})
}

// periodsUp and periodsDown move a subscription's period from its items to itself, and back.
func periodsUp(o document) {
	for _, item := range elements(o, "items") {
		move(item, o, "current_period_start", "current_period_end")
	}
}

func periodsDown(o document) {
	for _, item := range elements(o, "items") {
		for _, field := range []string{"current_period_start", "current_period_end"} {
			if value, has := o[field]; has {
				item[field] = value
			}
		}
	}
	drop(o, "current_period_start", "current_period_end", "discount")
}

func olderInvoice(o document, paidBy string) {
	if _, newer := o["parent"]; newer {
		details := within(o, "parent", "subscription_details")
		o["subscription"], o["subscription_details"] = details["subscription"], nil
		if details != nil {
			o["subscription_details"] = document{"metadata": details["metadata"]}
		}
		paid := o["status"] == "paid"
		o["paid"], o["paid_out_of_band"] = paid, paid && paidBy == "" && o["amount_paid"] != 0.0
		o["payment_intent"], o["total_tax_amounts"], o["tax"] = orNull(paidBy), o["total_taxes"], nil
		taxes, _ := o["total_taxes"].([]any)
		for _, each := range taxes {
			tax, _ := each.(document)
			amount, _ := tax["amount"].(float64)
			sum, _ := o["tax"].(float64)
			o["tax"] = sum + amount
		}
		drop(o, "parent", "total_taxes", "amount_overpaid")
	}
	for _, line := range elements(o, "lines") {
		olderLine(line)
	}
}

func newerInvoice(o document) {
	if subscription, older := o["subscription"]; older {
		if o["parent"] = nil; subscription != nil {
			details := document{"subscription": subscription, "metadata": within(o, "subscription_details")["metadata"]}
			o["parent"] = document{"type": "subscription_details", "quote_details": nil,
				"subscription_details": details}
		}
		o["total_taxes"] = []any{}
		if tax, _ := o["tax"].(float64); tax != 0 {
			o["total_taxes"] = []any{document{"amount": tax}}
		}
		drop(o, "subscription", "subscription_details", "paid", "paid_out_of_band", "payment_intent", "charge", "tax",
			"total_tax_amounts", "discount", "quote")
	}
	for _, line := range elements(o, "lines") {
		newerLine(line)
	}
}

// ofItem are the fields of a line that name its item: since basil they stand in its parent.
var ofItem = []string{"subscription", "subscription_item", "proration", "proration_details", "invoice_item"}

func olderLine(line document) {
	parent, newer := line["parent"].(document)
	if !newer {
		return
	}
	kind, _ := parent["type"].(string)
	details := within(parent, kind)
	line["type"] = map[bool]string{true: "subscription", false: "invoiceitem"}[kind == "subscription_item_details"]
	for _, field := range ofItem {
		if value, has := details[field]; has {
			line[field] = value
		}
	}
	price := within(line, "pricing", "price_details")
	line["price"] = document{"id": price["price"], "object": "price", "product": price["product"], "lookup_key": nil}
	drop(line, "parent", "pricing", "taxes")
}

func newerLine(line document) {
	price, older := line["price"].(document)
	if !older {
		return
	}
	kind := "invoice_item_details"
	if line["type"] == "subscription" {
		kind = "subscription_item_details"
	}
	details := document{}
	move(line, details, ofItem...)
	line["parent"] = document{"type": kind, kind: details}
	line["pricing"] = document{"type": "price_details", "unit_amount_decimal": nil,
		"price_details": document{"price": price["id"], "product": price["product"]}}
	drop(line, "price", "plan", "type", "tax_amounts", "tax_rates", "amount_excluding_tax")
}

// tied is what ties a payment intent to the invoice that it has paid, as versions before basil tell it: a charge or an
// intent names its invoice, or a paid invoice its intent. It is "" where the object tells nothing of it.
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

// invoicePayment is the object that ties the two since basil, made of an object that says so itself.
func invoicePayment(o stripeObject, intent, invoice string) string {
	made := `{"object":"invoice_payment","is_default":true,"status":"paid"}`
	amount := gjson.Get(o.json, "amount")
	if o.text("object") == "invoice" {
		amount = gjson.Get(o.json, "amount_paid")
	}
	for name, value := range map[string]any{
		"id": "inpay_" + intent, "invoice": invoice, "currency": o.text("currency"), "amount_paid": amount.Int(),
		"amount_requested": amount.Int(), "created": cmp.Or(gjson.Get(o.json, "created").Int(), o.at),
		"livemode": gjson.Get(o.json, "livemode").Bool(),
		"payment":  document{"type": "payment_intent", "payment_intent": intent},
	} {
		made = with(made, name, value)
	}
	return made
}
