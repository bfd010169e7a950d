package sandbox

import (
	"encoding/json"
	"net/http"
	"strings"
)

// The account of the sandbox has a balance in US dollars. The sandbox converts any other currency at 1.25 dollars per
// unit, and the fee of a charge is 2.9 % plus 30 cents.
const balanceCurrency = "usd"

// expand replaces the ID of the balance transaction of a charge or refund with the object, if the request expands it. A
// charge that has not succeeded has no balance transaction. A failed refund keeps its balance transaction, because
// another balance transaction returns the money. In mode unsettled, no object has a balance transaction.
func (q stripeQuery) expand(shown any) (any, error) {
	path := q.form.Get("expand[]")
	if path == "" {
		return shown, nil
	}
	if strings.TrimPrefix(path, "data.") != "balance_transaction" || len(q.form["expand[]"]) > 1 {
		return nil, stripeRefusal(http.StatusBadRequest, "", "expand", "This property cannot be expanded ("+path+").")
	}
	text, err := json.Marshal(shown)
	var o document
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	moved := o["status"] == "succeeded" || o["object"] == "refund" && o["status"] == "failed"
	if o["balance_transaction"] = nil; moved && !q.unsettled {
		o["balance_transaction"] = balanceTransaction(o)
	}
	return o, err
}

func balanceTransaction(o document) document {
	captured, ok := o["amount_captured"].(float64)
	if !ok {
		captured, _ = o["amount"].(float64)
	}
	amount, rate, id := int64(captured), any(nil), o["id"].(string)
	if o["currency"] != balanceCurrency {
		amount, rate = amount*5/4, 1.25
	}
	kind, fee := "charge", amount*29/1000+30
	if o["object"] == "refund" {
		kind, fee, amount = "refund", 0, -amount
	}
	return document{"id": "txn_" + id, "object": "balance_transaction", "amount": amount, "currency": balanceCurrency,
		"fee": fee, "net": amount - fee, "exchange_rate": rate, "type": kind, "source": id, "status": "pending"}
}

// impliedCharge returns the charge of a payment intent without a charge event. It is derived from the invoice payment
// or the checkout session.
func (w *stripeWorld) impliedCharge(scope stripeScope, intent string) []stripeObject {
	for kind, paths := range map[string][2]string{
		"invoice_payment":  {"payment.payment_intent", "amount_paid"},
		"checkout.session": {"payment_intent", "amount_total"},
	} {
		for _, o := range w.all(scope, kind, false) {
			if o.text(paths[0]) != intent {
				continue
			}
			made := `{"object":"charge","status":"succeeded","captured":true}`
			amount := o.number(paths[1])
			for name, value := range map[string]any{"id": "ch_" + intent, "payment_intent": intent, "amount": amount,
				"amount_captured": amount, "currency": o.text("currency"), "created": o.created} {
				made = with(made, name, value)
			}
			return []stripeObject{{json: made, created: o.created}}
		}
	}
	return nil
}
