package billing

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// held is what was there before the facts: what they are folded with, and what may move with them.
type held struct {
	subscription *Subscription
	invoice      *Invoice
	// billed are the newest invoices of the subscription.
	billed []Invoice
	books  books
	// subscriptions and oneOff are the customer's, where the facts link it: oneOff are the invoices outside of any
	// subscription.
	subscriptions []Subscription
	oneOff        []Invoice
}

// readHeld reads, in one statement, what is there of what the facts are about; and what may move with the customer.
func (a *applying) readHeld(b *pgx.Batch) {
	s, n := a.subject, a.money
	if n.any() {
		b.Queue(heldOfFamilySQL, s.Mode, n.payment, a.invoice, a.subscription, n.session, n.credit, s.Provider).Query(a.collectHeld)
	} else {
		b.Queue(heldSQL, s.Mode, a.subscription, a.invoice, s.Provider).Query(a.collectHeld)
	}
	if a.linked {
		b.Queue(heldOfCustomerSQL, s.Mode, s.Customer).Query(a.collectHeld)
	}
}

func (a *applying) collectHeld(rows pgx.Rows) error {
	var kind string
	var state []byte
	_, err := pgx.ForEachRow(rows, []any{&kind, &state}, func() error {
		if kind == "effects from" {
			return json.Unmarshal(state, &a.policy.EffectsFrom)
		}
		a.change.Rows++
		return a.held.take(kind, state)
	})
	return err
}

// take adds a row that was read. What is in the books may be found in several ways.
func (h *held) take(kind string, state []byte) error {
	switch kind {
	case "subscription":
		return json.Unmarshal(state, &h.subscription)
	case "invoice":
		return json.Unmarshal(state, &h.invoice)
	case "billed":
		return add(&h.billed, state)
	case "subscription of customer":
		return add(&h.subscriptions, state)
	case "invoice of customer":
		return add(&h.oneOff, state)
	case "payment":
		return hold(&h.books.payments, state, paymentID)
	case "refund":
		return hold(&h.books.refunds, state, refundID)
	case "dispute":
		return hold(&h.books.disputes, state, disputeID)
	case "warning":
		return hold(&h.books.warnings, state, warningID)
	case "credit":
		return hold(&h.books.credits, state, creditID)
	}
	return hold(&h.books.checkouts, state, checkoutID)
}

// hold adds what a row holds to a list, once.
func hold[O any](list *[]O, state []byte, id func(O) string) error {
	var o O
	err := json.Unmarshal(state, &o)
	*list = Replaced(*list, id, o)
	return err
}

func add[O any](list *[]O, state []byte) error {
	var o O
	err := json.Unmarshal(state, &o)
	*list = append(*list, o)
	return err
}

// heldSQL reads what is there of a subscription $2, of an invoice $3, and of the money that refers to them.
var heldSQL = union(slices.Concat(
	heldOf("$2", "$3", `coalesce(nullif($2, ''), (select subscription from invoices where mode = $1 and id = $3))`),
	began("$4"),
)...)

// heldOfFamilySQL reads the same of what a payment, an invoice, a subscription or a session belongs to, and what else is
// of the payment.
var heldOfFamilySQL = union(slices.Concat(heldOf(theSubscription, theInvoice, theSubscription), began("$7"), []string{
	"payment", "payments where mode = $1 and id = " + thePayment,
	"refund", "refunds where mode = $1 and payment = " + thePayment + " and payment <> ''",
	"warning", "fraud_warnings where mode = $1 and payment = " + thePayment + " and payment <> ''",
	"dispute", "disputes where mode = $1 and payment = " + thePayment + " and payment <> ''",
	"credit", "credit_notes where mode = $1 and id = $6",
	"checkout", "checkouts where mode = $1 and id = " + theSession,
})...)

// heldOf reads a subscription, an invoice, and the payments of the invoice with what refers to them. The disputes of the
// invoice's subscription say what is held back; they and the warnings have tasks, which move with it.
func heldOf(subscription, invoice, ofInvoice string) []string {
	return []string{
		"subscription", "subscriptions where mode = $1 and id = " + subscription,
		"invoice", "invoices where mode = $1 and id = " + invoice,
		"billed", "invoices where mode = $1 and subscription = " + subscription + " and subscription <> ''" +
			" order by period_start desc, occurred_at desc, id desc limit " + strconv.Itoa(mostInvoices),
		"payment", "payments where mode = $1 and invoice = " + invoice + " and invoice <> ''",
		"refund", "refunds where mode = $1 and invoice = " + invoice + " and invoice <> ''",
		"warning", "fraud_warnings where mode = $1 and invoice = " + invoice + " and invoice <> ''",
		"warning", "fraud_warnings where mode = $1 and subscription = " + ofInvoice + " and subscription <> ''",
		"dispute", "disputes where mode = $1 and invoice = " + invoice + " and invoice <> ''",
		"dispute", "disputes where mode = $1 and subscription = " + ofInvoice + " and subscription <> ''",
		"credit", "credit_notes where mode = $1 and invoice = " + invoice + " and invoice <> ''",
	}
}

// began reads when effects began, with no row where they did from the start.
func began(provider string) []string {
	return []string{"effects from", "(select to_jsonb(at) as state from effects_from where mode = $1 and provider = " + provider + ") began"}
}

// heldOfCustomerSQL reads what moves with a customer: subscriptions, what no invoice that is known decides about, and
// what has a task.
var heldOfCustomerSQL = union(
	"subscription of customer", "subscriptions where mode = $1 and customer = $2 and customer <> ''",
	"invoice of customer", "invoices where mode = $1 and customer = $2 and customer <> '' and subscription = ''",
	"payment", ofCustomer("payments"), "refund", ofCustomer("refunds"), "warning", "fraud_warnings where mode = $1 and customer = $2 and customer <> ''",
	"dispute", "disputes where mode = $1 and customer = $2 and customer <> ''", "credit", ofCustomer("credit_notes"), "checkout", "checkouts where mode = $1 and customer = $2 and customer <> ''",
)

func ofCustomer(table string) string {
	return table + ` where mode = $1 and customer = $2 and customer <> ''
   and (select i.id from invoices i where i.mode = $1 and i.id = ` + table + `.invoice) is null`
}

// union puts together what tables hold: pairs of the kind of a row, and what follows "from".
func union(pairs ...string) string {
	var parts []string
	for n := 0; n < len(pairs); n += 2 {
		parts = append(parts, "(select '"+pairs[n]+"' as kind, state from "+pairs[n+1]+")")
	}
	return strings.Join(parts, "\nunion all ")
}
