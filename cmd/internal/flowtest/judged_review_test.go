package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The decision of a review applies to the object: whichever event opened the review, and in every order, the result
// is the same and the task of the review is closed.
func TestJudged_ReviewAnswered(t *testing.T) {
	t.Parallel()
	late := []happening{
		subscription("created", 0, "active", items(item("pro", 1))), ended(10*aDay, items(item("pro", 1))),
		bill("paid", 13*aDay, "in_3", lines(line("pro", 700, during(9*aDay, 39*aDay)))), ties(13*aDay, "pi_3", "in_3", 700),
	}
	paidLate := []string{
		"sub_1: acme canceled pro 1", "acme: suspended", "in_3: acme paid 700", "booked payment in_3 700 usd", "mailed receipt-email in_3",
		"told billing.invoice.paid in_3", "told billing.subscription.ended sub_1", "task review in_3 done",
	}
	voided := []happening{
		subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 1*aDay, "in_2", lines(line("pro", 2000))),
		ties(1*aDay, "pi_2", "in_2", 2000), bill("voided", 2*aDay, "in_2", lines(line("pro", 2000))),
	}
	paidAndVoid := []string{
		"sub_1: acme active pro 1", "in_2: acme paid 2000", "booked payment in_2 2000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2",
		"told billing.invoice.closed in_2", "task review in_2 done",
	}
	rejected := func(invoice string, of []string, more ...string) []string {
		return append(slices.Clone(of), append(more, "mailed correction-notice "+invoice, "task correction sub_1 open")...)
	}
	var cases []judged
	for n, order := range permutations(4) {
		if !schematest.Long() && n%3 > 0 {
			continue
		}
		for _, c := range []judged{
			{name: "paid after the end, and rejected", decide: event.Reject.Name, events: late, want: rejected("in_3", paidLate)},
			{name: "paid after the end, and approved", decide: event.Approve.Name, events: late, want: paidLate},
			{name: "paid and voided, and rejected", decide: event.Reject.Name, events: voided, want: rejected("in_2", paidAndVoid, "acme: suspended")},
			{name: "paid and voided, and approved", decide: event.Approve.Name, events: voided, want: append(slices.Clone(paidAndVoid), "acme: active pro 1", "sub_1 grants pro 1")},
		} {
			told := c.events
			c.name, c.inOrder, c.events = fmt.Sprint(c.name, ", in the order ", order), true, nil
			for _, at := range order {
				c.events = append(c.events, told[at])
			}
			cases = append(cases, c)
		}
	}
	judge(t, cases, nil)
}

// A person decides a review while the finance sink rejects the entry. pawl books the entry anyway, because the cash
// has moved. The second event uses the decision that was made for the first event.
func TestReview_RejectedByAnotherEvent_EntryIsStillBooked(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	e := paidAfterEnd(t, r)
	r.fault(`{"service":"finance","status":404}`)
	r.receive(e)
	r.status(e, receipt.Dead)
	tie := rename(t, purchase(t, seedOf(e), "invoice_payment.paid", "starter"), "evt_tie_"+uuid.NewString()[:8])
	r.receive(tie)
	r.status(tie, receipt.NeedsReview)
	r.mustAsk(event.Reject.Name, tie)
	r.status(tie, receipt.Processed)
	r.mustAsk(event.Retry.Name, e)
	r.status(e, receipt.Processed)
	if got := r.booked(); !slices.Equal(got, []string{"payment"}) {
		t.Errorf("booked %q, want the payment", got)
	}
	if open := r.rows(`select kind from tasks where state = 'open' and kind <> 'release'`); !slices.Equal(open, []string{"correction"}) {
		t.Errorf("open tasks %q", open)
	}
	mails := r.rows(`select kind from effects where kind in ('receipt-email', 'correction-notice') and state = 'done' order by kind`)
	if !slices.Equal(mails, []string{"correction-notice", "receipt-email"}) {
		t.Errorf("mailed %q", mails)
	}
	for _, event := range []string{e.ID, tie.ID} {
		if reason := r.rows(`select reason from receipts where event_id = $1`, event)[0]; !strings.HasPrefix(reason, "withheld: ") {
			t.Errorf("%s has the reason %q", event, reason)
		}
	}
}
