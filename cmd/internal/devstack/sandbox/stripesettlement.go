package sandbox

import (
	"encoding/json"
	"net/http"
	"strings"
)

// The stand-in's own account has a balance in dollars. It pays five dollar cents for four of any other currency, and
// keeps 2.9 % of each charge and 30 cents.
const balanceCurrency = "usd"

// expand puts the balance transaction into a charge or a refund, in the place of its ID, where the request asks for it.
// A charge that has not succeeded has none, a refund that failed keeps its own, since the money comes back by another
// one. With the mode unsettled none has one yet.
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

// impliedCharge is the charge of a payment intent that no event of a charge has told of: it is made of the object that
// ties the intent to an invoice, or of the checkout session.
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
