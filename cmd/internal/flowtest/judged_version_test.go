package flowtest

import "maps"

// basilVersion is the first API version with the object shapes that the scenarios use.
const basilVersion = "2025-03-31.basil"

// versions returns the API versions of a case, except Stripe's newest.
func (c judged) versions() []string {
	switch {
	case c.old:
		return []string{"2023-10-16", "2024-09-30.acacia"}
	case c.basil:
		return []string{basilVersion, "2025-09-30.clover", "2026-08-26.dahlia"}
	}
	return []string{"2023-10-16", basilVersion, "2024-10-28.acacia", "2026-08-26.dahlia", "2025-09-30.clover"}
}

// older gives an object the shape of an API version before basil: periods on the subscription; an invoice's
// subscription, taxes and prices in their former fields; and the invoice on the charge and the payment intent.
// invoices maps each payment intent to its invoice.
func older(o map[string]any, version string, invoices map[string]any) {
	switch o["object"] {
	case "subscription":
		periodsUp(o)
	case "invoice":
		olderInvoice(o)
	case "charge":
		o["invoice"] = invoices[o["payment_intent"].(string)]
	case "payment_intent":
		o["invoice"] = invoices[o["id"].(string)]
	case "credit_note":
		if _, newer := o["post_payment_amount"]; !newer || version >= "2024-10-28" {
			return
		}
		o["type"], o["refund"] = "post_payment", nil
		if o["post_payment_amount"] == 0 {
			o["type"] = "pre_payment"
		}
		for _, field := range []string{"pre_payment_amount", "post_payment_amount", "refunds"} {
			delete(o, field)
		}
	}
}

// periodsUp moves the period from a subscription's items to the subscription or to its previous attributes.
func periodsUp(o map[string]any) {
	list, _ := o["items"].(map[string]any)
	data, _ := list["data"].([]any)
	for _, each := range data {
		i := each.(map[string]any)
		o["current_period_start"], o["current_period_end"] = i["current_period_start"], i["current_period_end"]
		delete(i, "current_period_start")
		delete(i, "current_period_end")
	}
}

func olderInvoice(o map[string]any) {
	parent, _ := o["parent"].(map[string]any)
	details, _ := parent["subscription_details"].(map[string]any)
	o["subscription"], o["subscription_details"] = details["subscription"], nil
	if details != nil {
		o["subscription_details"] = map[string]any{"metadata": details["metadata"]}
	}
	o["paid"], o["tax"] = o["status"] == "paid", nil
	sum := 0
	for _, t := range o["total_taxes"].([]any) {
		sum += t.(map[string]any)["amount"].(int)
		o["tax"] = sum
	}
	delete(o, "parent")
	delete(o, "total_taxes")
	for _, each := range o["lines"].(map[string]any)["data"].([]any) {
		l := each.(map[string]any)
		parent, price := l["parent"].(map[string]any), l["pricing"].(map[string]any)["price_details"].(map[string]any)
		l["type"], l["price"] = "subscription", map[string]any{"id": price["price"], "object": "price", "product": price["product"], "lookup_key": nil}
		for _, kind := range []string{"invoice_item_details", "subscription_item_details"} {
			if of, found := parent[kind].(map[string]any); found {
				maps.Copy(l, map[string]any{"subscription": of["subscription"], "proration": of["proration"]})
				if of["proration"] == true || of["subscription"] == nil {
					l["type"] = "invoiceitem"
				}
			}
		}
		delete(l, "parent")
		delete(l, "pricing")
	}
}
