package flowtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/schema/receipt"
)

// An invoice without an account is booked for its customer. Then the customer is linked to an account, and the second
// event of the invoice arrives: nothing is booked or sent again, and the entry keeps its account.
func TestInvoicePaid_LinkedBetweenItsEvents_BookedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := buyer{T: t, seed: "linked-" + uuid.NewString()[:8]}
	for _, e := range []func(buyer) forge.Event{
		tells("invoice.paid", "starter", 0, ofNobody), tells("customer.created", "starter", time.Minute), tells("invoice.payment_succeeded", "starter", time.Second, ofNobody),
	} {
		event := e(b)
		r.receive(event)
		r.status(event, receipt.Processed)
	}
	var booked []string
	for _, e := range r.journal("finance") {
		booked = append(booked, fmt.Sprint(e.Body["kind"], " of ", e.Account))
	}
	customer := r.rows(`select distinct customer from facts`)
	if len(customer) != 1 || !slices.Equal(booked, []string{"payment of " + customer[0]}) {
		t.Errorf("finance has %v, want one payment of customer %v", booked, customer)
	}
	if n := r.done("email"); n != 1 {
		t.Errorf("%d mails were sent, want one receipt", n)
	}
	if account := r.rows(`select account from invoices`); !slices.Equal(account, []string{"acct-" + b.seed}) {
		t.Errorf("the invoice is of %v, want the account that its customer is linked to", account)
	}
}
