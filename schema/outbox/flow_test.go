package outbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/outbox"
)

// queue writes an event to the outbox, and returns its type.
func (b bundle) queue(account, eventType, onlyTo string) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), `insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, only_to)
		values ($1, 'live', $2, $3, $4, 'key', '{}', $5)`, uuid.New(), account, eventType, uuid.New(), onlyTo); err != nil {
		b.Fatal(err)
	}
}

func (b bundle) forFlows(types ...string) (events []outbox.Event) {
	b.Helper()
	events, err := b.store.ForFlows(b.Context(), types, 10)
	if err != nil {
		b.Fatal(err)
	}
	return events
}

// Flows get the events of the selected types in the order of the outbox, whether destinations accept them or not, until
// their receipts are recorded.
func TestForFlows_SelectedUntilReceived(t *testing.T) {
	b := setup(t)
	b.queue("a", "access.changed", "")
	b.queue("a", "billing.invoice.paid", "")
	b.queue("b", "billing.refund.succeeded", "")
	b.queue("b", "billing.invoice.paid", "crm")
	b.queue("a", "billing.invoice.paid", "")
	types := func() (list []string) {
		for _, e := range b.forFlows("billing.invoice.paid", "billing.refund.succeeded") {
			list = append(list, e.Account+" "+e.Type)
		}
		return list
	}
	all := []string{"a billing.invoice.paid", "b billing.refund.succeeded", "a billing.invoice.paid"}
	if got := types(); !slices.Equal(got, all) {
		t.Fatalf("for flows %q, want %q", got, all)
	}
	taken := b.take(time.Minute)
	b.settle(outbox.Settled{ID: taken[0].ID, Error: "answered 503", RetryIn: time.Hour})
	b.settle(outbox.Settled{ID: taken[1].ID, Published: true})
	if got := types(); !slices.Equal(got, all) {
		t.Errorf("after a delivery, for flows %q, want %q", got, all)
	}
	first := b.forFlows("billing.invoice.paid")[0]
	for range 2 { // a repeated record changes nothing
		if err := b.store.Received(b.Context(), []int64{first.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if got := types(); !slices.Equal(got, all[1:]) {
		t.Errorf("after the first receipt, for flows %q, want %q", got, all[1:])
	}
}

// An event that no flow selected when it was published does not start a flow that is added later. An event that is
// still waiting does.
func TestSettle_NoFlow_NotForLaterFlows(t *testing.T) {
	b := setup(t)
	b.queue("a", "access.changed", "")
	b.queue("b", "access.changed", "")
	for _, e := range b.take(time.Minute) {
		b.settle(outbox.Settled{ID: e.ID, Published: e.Account == "a", NoFlow: true})
	}
	if got := accounts(b.forFlows("access.changed")); !slices.Equal(got, []string{"b"}) {
		t.Errorf("for flows %q, want the event that waits", got)
	}
}
