package flowtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// licensed returns the request that creates the licence of a purchase, and revoked the request that revokes it.
func (r *rig) licensed(seed string) string {
	invoice := r.published("billing.invoice.paid", "invoice")
	at := r.rows(`select convert_from(b.body, 'utf8')::jsonb ->> 'time' from receipts r join bodies b on b.receipt_id = r.id where r.type = 'billing.invoice.paid'`)
	return fmt.Sprintf(`PUT /licences/%s flow-request:pawl:live:licence:create:acct-%s:%s {"account":"acct-%s","at":"%s","plan":"starter"}`, invoice, seed, invoice, seed, strings.Join(at, " "))
}

func (r *rig) revoked(seed string) string {
	return fmt.Sprintf(`DELETE /licences/%s flow-request:pawl:live:licence:revoke:acct-%s:%s`,
		r.published("billing.refund.succeeded", "invoice"), seed, r.published("billing.refund.succeeded", "refund"))
}

// published returns a field of the only published event of a type.
func (r *rig) published(eventType, field string) string {
	r.Helper()
	found := r.rows(`select data ->> $2 from outbox where type = $1`, eventType, field)
	if len(found) != 1 {
		r.Fatalf("%s was published %d times", eventType, len(found))
	}
	return found[0]
}

// publishedReceipt waits until the receipt of a published event has one of the statuses, and returns its workflow ID.
func (r *rig) publishedReceipt(eventType string, wanted ...receipt.Status) (workflowID string) {
	r.Helper()
	r.until(fmt.Sprintf("the receipt of %s is %v", eventType, wanted), func() bool {
		for _, status := range wanted {
			found := r.rows(`select workflow_id from receipts where provider = 'pawl' and type = $1 and status = $2`, eventType, string(status))
			if len(found) == 1 {
				workflowID = found[0]
				return true
			}
		}
		return false
	})
	return workflowID
}

// An invoice is paid: a licence is created once, although Stripe repeats the event, the worker is killed after it stored
// the receipt and before it recorded this, and the run of the invoice is reset. A refund revokes the licence.
func TestPublishedFlow_PaidThenRefunded_EachOnce(t *testing.T) {
	t.Parallel()
	s := newStores(t, nil)
	r := newIdleRig(t, false, func(c *config.Config) { flowing(t, c, examples(t)[examplePublished], s) })
	kill := r.hire()
	seed := "licence-" + uuid.NewString()[:8]
	paid := purchase(t, seed, "invoice.paid", "starter")
	run := r.receive(paid)
	r.receive(paid)
	r.result(run, "")
	r.publishedReceipt("billing.invoice.paid", receipt.Processed)
	kill()
	r.exec(`update outbox set flows_at = null`)
	r.work()
	r.until("the repeated receipts are recorded", func() bool {
		return len(r.rows(`select type from outbox where flows_at is null and type = 'billing.invoice.paid'`)) == 0
	})
	before := r.history(run, "")
	r.resetAndCheck(branch{flow: "InvoicePaid", outcome: "processed"}, paid, run, before)
	s.want(t, r.licensed(seed))

	for _, eventType := range []string{"charge.succeeded", "invoice_payment.paid", "refund.updated"} {
		e := purchase(t, seed, eventType, "starter")
		r.result(r.receive(rename(t, e, e.ID+"_"+strings.ReplaceAll(eventType, ".", "_"))), "")
	}
	r.publishedReceipt("billing.refund.succeeded", receipt.Processed)
	s.want(t, r.licensed(seed), r.revoked(seed))
	// Only the selected events have receipts. Their data is the data that destinations receive.
	got := r.rows(`select concat_ws(' ', r.source, r.type, r.account, r.mode, r.object_id) from receipts r where provider = 'pawl' order by received_at, id`)
	account, invoice := "acct-"+seed, r.published("billing.invoice.paid", "invoice")
	if want := []string{"pawl billing.invoice.paid " + account + " live " + invoice, "pawl billing.refund.succeeded " + account + " live " + r.published("billing.refund.succeeded", "refund")}; !slices.Equal(got, want) {
		t.Errorf("receipts %q, want %q", got, want)
	}
	var event struct {
		ID, Source, Type, Subject string
		Data                      map[string]any
	}
	body := r.rows(`select convert_from(b.body, 'utf8') from receipts r join bodies b on b.receipt_id = r.id where r.type = 'billing.invoice.paid'`)
	if err := json.Unmarshal([]byte(body[0]), &event); err != nil {
		t.Fatal(err)
	}
	if event.Source != "/pawl/live" || event.Subject != account || event.Data["invoice"] != invoice {
		t.Errorf("the event is %s", body[0])
	}
	told := 0
	for _, e := range r.journal("events") {
		if e.Body["invoice"] == invoice && e.Body["refund"] == nil && e.Body["charge"] == nil {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the destination received the event %d times", told)
	}
}

// The licences are down: the run waits and ends. A request that fails for good parks the run, and a retry ends it.
func TestPublishedFlow_SinkFails_WaitsOrParks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		failures int
		parks    bool
	}{"waits": {failures: 2}, "parks": {failures: 3, parks: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := name + "-" + uuid.NewString()[:8]
			s := newStores(t, map[string][]int{"PUT /licences": slices.Repeat([]int{http.StatusServiceUnavailable}, tt.failures)})
			example := strings.Replace(examples(t)[examplePublished], `"/licences/{event.data.invoice}"`, "/licences", 1)
			r := newRig(t, func(c *config.Config) { flowing(t, c, example, s) })
			r.result(r.receive(purchase(t, seed, "invoice.paid", "starter")), "")
			if tt.parks {
				r.decide(r.publishedReceipt("billing.invoice.paid", receipt.Dead), workflows.UpdateRetry, workflows.DecisionInput{})
			}
			r.publishedReceipt("billing.invoice.paid", receipt.Processed)
			s.want(t, strings.Replace(r.licensed(seed), "/"+r.published("billing.invoice.paid", "invoice"), "", 1))
			if len(s.calls) != tt.failures+1 {
				t.Errorf("calls %q", s.calls)
			}
		})
	}
}

// A destination that is down does not delay the flow of an event.
func TestPublishedFlow_DestinationDown_NotDelayed(t *testing.T) {
	t.Parallel()
	s := newStores(t, nil)
	down := newStores(t, map[string][]int{"POST /": slices.Repeat([]int{http.StatusServiceUnavailable}, 1000)})
	r := newRig(t, func(c *config.Config) {
		flowing(t, c, examples(t)[examplePublished], s)
		events := c.Destinations["events"]
		events.URL = down.URL + "/"
		c.Destinations["events"] = events
	})
	seed := "down-" + uuid.NewString()[:8]
	r.result(r.receive(purchase(t, seed, "invoice.paid", "starter")), "")
	r.publishedReceipt("billing.invoice.paid", receipt.Processed)
	s.want(t, r.licensed(seed))
	if got := r.rows(`select type from outbox where published_at is not null`); len(got) != 0 {
		t.Errorf("published %q", got)
	}
}

// The events of withheld effects are not published, so that no flow runs until a person releases them.
func TestPublishedFlow_BeforeEffects_Withheld(t *testing.T) {
	t.Parallel()
	s := newStores(t, nil)
	r := newRig(t, func(c *config.Config) { flowing(t, c, examples(t)[examplePublished], s) })
	r.exec(`insert into effects_from (mode, at, changed_by) values ('live', $1, 'a test')`, bought)
	old, seed := "old-"+uuid.NewString()[:8], "new-"+uuid.NewString()[:8]
	r.result(r.receive(purchaseAt(t, old, "invoice.paid", "starter", bought.Add(-1e9))), "")
	r.result(r.receive(purchase(t, seed, "invoice.paid", "starter")), "")
	r.publishedReceipt("billing.invoice.paid", receipt.Processed)
	s.want(t, r.licensed(seed))
}

// Without a flow on published events, pawl stores no additional receipt.
func TestPublishedFlow_None_NoReceipts(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { flowing(t, c, examples(t)[exampleOrder], newStores(t, nil)) })
	e := purchase(t, "none-"+uuid.NewString()[:8], "invoice.paid", "starter")
	r.result(r.receive(e), "")
	r.status(e, receipt.Processed)
	r.until("the outbox is published", func() bool {
		return len(r.rows(`select type from outbox where published_at is null`)) == 0
	})
	if got := r.rows(`select provider || ' ' || type from receipts`); !slices.Equal(got, []string{"stripe invoice.paid"}) {
		t.Errorf("receipts %q", got)
	}
}
