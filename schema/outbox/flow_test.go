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

// An event that no flow of a process selects starts no later flow, but only an hour after it was published: until then,
// a process with a newer file can select it. Events that still wait for a destination, and events of selected types,
// are not affected.
func TestPassFlows_PublishedLongAgo_NotForLaterFlows(t *testing.T) {
	b := setup(t)
	b.queue("waits", "access.changed", "")
	b.queue("selected", "task.opened", "")
	b.queue("new", "access.changed", "")
	b.queue("old", "access.changed", "")
	b.queue("older", "access.changed", "")
	b.queue("addressed", "task.opened", "crm")
	for _, e := range b.take(time.Minute) {
		if e.Account != "waits" {
			b.settle(outbox.Settled{ID: e.ID, Published: true})
		}
	}
	all := []string{"waits", "selected", "new", "old", "older"}
	pass := func(limit int, want int64, types ...string) {
		t.Helper()
		if got, err := b.store.PassFlows(t.Context(), types, time.Hour, limit); err != nil || got != want {
			t.Errorf("recorded %d events (%v), want %d", got, err, want)
		}
	}
	left := func(want ...string) {
		t.Helper()
		if got := accounts(b.forFlows("access.changed", "task.opened")); !slices.Equal(got, want) {
			t.Errorf("for flows %q, want %q", got, want)
		}
	}
	pass(10, 0)
	left(all...)
	if _, err := b.pool.Exec(t.Context(), `update outbox set published_at = published_at - interval '2 hours' where account not in ('waits', 'new')`); err != nil {
		t.Fatal(err)
	}
	pass(10, 1, "task.opened", "access.changed") // the event for only one destination
	left(all...)
	pass(1, 1, "task.opened")
	pass(10, 1, "task.opened")
	left("waits", "selected", "new")
	pass(10, 1) // a file without flows
	left("waits", "new")
}
