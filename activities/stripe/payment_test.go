package stripe

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

func chargeEvent(t testing.TB, version, eventType string) document {
	t.Helper()
	o := example(t, version, "charge")
	set(o, document{"id": "ch_1", "customer": "cus_1", "amount": 4900, "currency": "usd", "amount_refunded": 3000, "status": "succeeded", "captured": true, "amount_captured": 4900, "created": periodStart})
	if version == before {
		o["invoice"] = "in_1"
	}
	return eventOf(version, eventType, o)
}

// refunds returns the list of refunds in a charge.
func refunds(t testing.TB, of ...document) document {
	t.Helper()
	data := []any{}
	for _, changes := range of {
		o := example(t, before, "refund")
		set(o, document{"charge": nil, "payment_intent": nil, "currency": "usd"})
		set(o, changes)
		data = append(data, o)
	}
	return document{"object": "list", "data": data, "has_more": false}
}

func paymentIntentEvent(t testing.TB, version, eventType string) document {
	t.Helper()
	o := example(t, version, "payment_intent")
	set(o, document{"id": "pi_1", "customer": "cus_1", "amount": 4900, "amount_received": 4900, "currency": "usd", "status": "requires_payment_method", "latest_charge": "ch_1"})
	if version == before {
		o["invoice"] = "in_1"
	}
	return eventOf(version, eventType, o)
}

func invoicePaymentEvent(t testing.TB, version, eventType string) document {
	t.Helper()
	o := example(t, version, "invoice_payment")
	set(o, document{
		"id": "inpay_1", "invoice": "in_1", "amount_requested": 4900, "amount_paid": 4800, "currency": "usd", "status": "paid",
		"payment": document{"type": "payment_intent", "payment_intent": "pi_1"}, "status_transitions": document{"paid_at": periodStart},
	})
	return eventOf(version, eventType, o)
}

// Since basil, neither a charge nor a payment intent contains its invoice.
func invoiceIf(version string) string {
	if version == before {
		return "in_1"
	}
	return ""
}

// An authorisation is not cash, and its release is not a refund. After a partial capture, amount_refunded can include
// the part that was not captured.
func TestRead_Charge_Captured(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		changes  document
		status   string
		amount   int64
		refunded int64
	}{
		"authorised":                      {document{"captured": false, "amount_captured": 0, "amount_refunded": 0}, "requires_capture", 0, 0},
		"released":                        {document{"captured": false, "amount_captured": 0, "amount_refunded": 4900, "refunded": true}, "requires_capture", 0, 0},
		"captured":                        {document{"amount_refunded": 0}, "succeeded", 4900, 0},
		"captured in part":                {document{"amount_captured": 3000, "amount_refunded": 0}, "succeeded", 3000, 0},
		"captured in part, rest released": {document{"amount_captured": 3000, "amount_refunded": 1900}, "succeeded", 3000, 0},
		"and a part refunded":             {document{"amount_captured": 3000, "amount_refunded": 2400}, "succeeded", 3000, 500},
		"and all refunded":                {document{"amount_captured": 3000, "amount_refunded": 3000, "refunded": true}, "succeeded", 3000, 3000},
		"failed":                          {document{"status": "failed", "captured": false, "amount_captured": 0, "amount_refunded": 0}, "failed", 4900, 0},
	} {
		event := chargeEvent(t, before, "charge.updated")
		set(objectOf(event), tt.changes)
		got := read(t, event).Payment
		if got.Status != tt.status || got.Amount != tt.amount || *got.Refunded != tt.refunded {
			t.Errorf("%s: got %s %d refunded %d, want %s %d refunded %d", name, got.Status, got.Amount, *got.Refunded, tt.status, tt.amount, tt.refunded)
		}
	}
}

// A capture can happen days after the charge was created: only charge.captured contains its time, and the event of a
// refund does not.
func TestRead_Charge_Time(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		eventType     string
		changes       document
		paid, created int64
	}{
		"refunded":                  {"charge.refunded", document{}, 0, periodStart},
		"captured":                  {"charge.captured", document{}, occurred, periodStart},
		"authorised":                {"charge.succeeded", document{"captured": false, "amount_captured": 0}, 0, 0},
		"captured in part, updated": {"charge.updated", document{"amount_captured": 3000}, 0, 0},
		"captured, updated":         {"charge.updated", document{"payment_method_details": document{"card": document{"capture_before": periodEnd}}}, 0, 0},
	} {
		event := chargeEvent(t, dahlia, tt.eventType)
		set(objectOf(event), tt.changes)
		unix := func(at time.Time) int64 { return max(0, at.Unix()) }
		if got := read(t, event).Payment; unix(got.PaidAt) != tt.paid || unix(got.CreatedAt) != tt.created {
			t.Errorf("%s: paid at %v, created at %v", name, got.PaidAt, got.CreatedAt)
		}
	}
}

func TestRead_PaymentIntent_Captured(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status           string
		received, amount int64
		want             string
	}{
		{"requires_capture", 0, 0, "requires_capture"}, {"succeeded", 3000, 3000, "succeeded"}, {"requires_payment_method", 0, 4900, "requires_payment_method"},
		{"requires_capture", 3000, 3000, "succeeded"}, // after the first of several captures
	} {
		event := paymentIntentEvent(t, before, "payment_intent.succeeded")
		set(objectOf(event), document{"status": tt.status, "amount_received": tt.received})
		if got := read(t, event).Payment; got.Status != tt.want || got.Amount != tt.amount {
			t.Errorf("%s: got %s %d, want %s %d", tt.status, got.Status, got.Amount, tt.want, tt.amount)
		}
	}
}

func TestRead_Charge(t *testing.T) {
	refunded := int64(3000)
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for _, eventType := range []string{"charge.succeeded", "charge.failed", "charge.refunded", "charge.updated"} {
			want := fact.Payment{
				Status: "succeeded", Invoice: invoiceIf(version), Charge: "ch_1", Amount: 4900, Currency: "usd", Refunded: &refunded,
				ToldAlone: eventType == "charge.refunded" && version == before, CreatedAt: at(periodStart),
			}
			if eventType == "charge.succeeded" {
				want.PaidAt = at(occurred)
			}
			same(t, read(t, chargeEvent(t, version, eventType)),
				about(fact.PaymentSeen, "ch_1", "cus_1", eventType, fact.RankChange, fact.Data{Payment: &want}))
		}
	})
}

// According to Stripe's changelog of 2024-10-28.acacia, events refund.* "were only sent for refunds without a
// corresponding charge" before.
func TestRead_Charge_Refunded_IsToldAloneBeforeAcacia(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"2022-11-15": true, "2024-09-30.acacia": true, "2024-10-28.acacia": false, dahlia: false} {
		event := chargeEvent(t, before, "charge.refunded")
		event["api_version"] = version
		if got := read(t, event); got.Payment.ToldAlone != want || got.LacksRefunds() != want {
			t.Errorf("%s: reported alone %v, want %v", version, got.Payment.ToldAlone, want)
		}
	}
}

// A charge contains its refunds before 2022-11-15, or if the endpoint expands them: one event then contains several
// refunds, each with its time of creation.
func TestRead_Charge_WithRefunds_TellsEach(t *testing.T) {
	t.Parallel()
	event := chargeEvent(t, before, "charge.refunded")
	set(objectOf(event), document{"payment_intent": "pi_1", "refunds": refunds(t,
		document{"id": "re_1", "amount": 1000, "status": "succeeded", "created": periodStart},
		document{"id": "re_2", "amount": 2000, "status": "pending", "created": occurred - 5})})
	facts, err := Read(encode(t, event), subjectOf(event))
	if err != nil || len(facts) != 3 {
		t.Fatalf("%d facts, %v; want the payment's and two refunds'", len(facts), err)
	}
	for n, want := range []fact.Refund{
		{Status: "succeeded", Charge: "ch_1", PaymentIntent: "pi_1", Amount: 1000, Currency: "usd", CreatedAt: at(periodStart)},
		{Status: "pending", Charge: "ch_1", PaymentIntent: "pi_1", Amount: 2000, Currency: "usd", CreatedAt: at(occurred - 5)},
	} {
		fact := about(fact.RefundSeen, []string{"re_1", "re_2"}[n], "", "charge.refunded", fact.RankChange, fact.Data{Refund: &want})
		if want.Status == "succeeded" {
			fact.OccurredAt = at(periodStart)
		}
		same(t, facts[n+1], fact)
	}
}

// All charges of one payment intent form one payment.
func TestRead_Charge_OfPaymentIntent_IsAboutIt(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		event := chargeEvent(t, version, "charge.succeeded")
		objectOf(event)["payment_intent"] = document{"id": "pi_1"}
		if got := read(t, event); got.Object != "pi_1" || got.Payment.Charge != "ch_1" {
			t.Errorf("fact about %s, charge %s", got.Object, got.Payment.Charge)
		}
	})
}

func TestRead_PaymentIntent(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for eventType, tt := range map[string]struct {
			status string
			rank   fact.Rank
		}{
			"payment_intent.created":        {"requires_payment_method", fact.RankCreated},
			"payment_intent.payment_failed": {"requires_payment_method", fact.RankChange},
			"payment_intent.succeeded":      {"succeeded", fact.RankEnd},
			"payment_intent.canceled":       {"canceled", fact.RankEnd},
		} {
			event := paymentIntentEvent(t, version, eventType)
			objectOf(event)["status"] = tt.status
			want := fact.Payment{Status: tt.status, Invoice: invoiceIf(version), Charge: "ch_1", Amount: 4900, Currency: "usd"}
			if tt.status == "succeeded" {
				want.PaidAt = at(occurred)
			}
			same(t, read(t, event), about(fact.PaymentSeen, "pi_1", "cus_1", eventType, tt.rank, fact.Data{Payment: &want}))
		}
	})
}

// The fact is about the payment: it links the charge or payment intent to the invoice.
func TestRead_InvoicePayment(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change document
		object string
		rank   fact.Rank
		want   fact.Payment
	}{
		"paid": {
			document{}, "pi_1", fact.RankEnd,
			fact.Payment{Status: "succeeded", Invoice: "in_1", Amount: 4800, Currency: "usd", PaidAt: at(periodStart)},
		},
		"open": {
			document{"status": "open", "amount_paid": nil}, "pi_1", fact.RankChange,
			fact.Payment{Invoice: "in_1", Amount: 4900, Currency: "usd"},
		},
		"by charge": {
			document{"payment": document{"type": "charge", "charge": "ch_1"}, "invoice": document{"id": "in_1"}}, "ch_1", fact.RankEnd,
			fact.Payment{Status: "succeeded", Invoice: "in_1", Charge: "ch_1", Amount: 4800, Currency: "usd", PaidAt: at(periodStart)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event := invoicePaymentEvent(t, dahlia, "invoice_payment.paid")
			set(objectOf(event), tt.change)
			same(t, read(t, event), about(fact.PaymentSeen, tt.object, "", "invoice_payment.paid", tt.rank, fact.Data{Payment: &tt.want}))
		})
	}
	event := invoicePaymentEvent(t, dahlia, "invoice_payment.paid")
	objectOf(event)["payment"] = document{"type": "payment_record", "payment_record": "pr_1"}
	same(t, read(t, event), about(fact.PaymentSeen, "inpay_1", "", "invoice_payment.paid", fact.RankEnd, fact.Data{Payment: &fact.Payment{
		Status: "succeeded", Invoice: "in_1", Amount: 4800, Currency: "usd", OutOfBand: true, PaidAt: at(periodStart)}}))
}

func refundEvent(t testing.TB, version, eventType string) document {
	t.Helper()
	o := example(t, version, "refund")
	set(o, document{"id": "re_1", "charge": "ch_1", "payment_intent": "pi_1", "amount": 1000, "currency": "usd"})
	return eventOf(version, eventType, o)
}

func TestRead_Refund(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for eventType, tt := range map[string]struct {
			status string
			rank   fact.Rank
		}{
			"refund.created":        {"pending", fact.RankCreated},
			"refund.updated":        {"succeeded", fact.RankChange},
			"charge.refund.updated": {"succeeded", fact.RankChange},
			"refund.failed":         {"failed", fact.RankEnd},
		} {
			event := refundEvent(t, version, eventType)
			objectOf(event)["status"] = tt.status
			same(t, read(t, event), about(fact.RefundSeen, "re_1", "", eventType, tt.rank, fact.Data{Refund: &fact.Refund{
				Status: tt.status, Charge: "ch_1", PaymentIntent: "pi_1", Amount: 1000, Currency: "usd", CreatedAt: at(1234567890),
			}}))
		}
	})
}

func disputeEvent(t testing.TB, version, eventType string) document {
	t.Helper()
	o := example(t, version, "dispute")
	set(o, document{
		"id": "dp_1", "charge": document{"id": "ch_1", "object": "charge"}, "amount": 1000, "currency": "usd", "status": "needs_response", "reason": "fraudulent",
		"balance_transactions": []any{
			document{"id": "txn_1", "object": "balance_transaction", "amount": -1000, "fee": 1500, "net": -2500, "currency": "usd", "description": "Chargeback"},
			document{"id": "txn_2", "object": "balance_transaction", "created": periodEnd, "amount": 1000, "fee": 0, "net": 1000, "currency": "eur"},
		},
	})
	o["evidence_details"].(document)["due_by"] = periodEnd
	return eventOf(version, eventType, o)
}

func TestRead_Dispute(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for eventType, rank := range map[string]fact.Rank{
			"charge.dispute.created":          fact.RankCreated,
			"charge.dispute.updated":          fact.RankChange,
			"charge.dispute.funds_withdrawn":  fact.RankChange,
			"charge.dispute.funds_reinstated": fact.RankChange,
			"charge.dispute.closed":           fact.RankEnd,
		} {
			same(t, read(t, disputeEvent(t, version, eventType)), about(fact.DisputeSeen, "dp_1", "", eventType, rank, fact.Data{Dispute: &fact.Dispute{
				Status: "needs_response", Charge: "ch_1", Reason: "fraudulent", Amount: 1000, Currency: "usd", EvidenceDue: at(periodEnd),
				Movements: []fact.Movement{{ID: "txn_1", Amount: -1000, Fee: 1500, Currency: "usd"}, {ID: "txn_2", Amount: 1000, Currency: "eur", OccurredAt: at(periodEnd)}},
			}}))
		}
	})
}
