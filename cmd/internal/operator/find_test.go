package operator_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

const (
	Live      = "00000000-0000-0000-0000-000000000001"
	connected = "00000000-0000-0000-0000-000000000002"
	test      = "00000000-0000-0000-0000-000000000003"
)

func TestFindEvent(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, account, mode, event_id, identity, type, received_at, body_hash, status) values
		($1, 's', 'stripe', '', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'received'),
		($2, 's', 'stripe', 'acct_9', 'live', 'evt_2', 'id', 'invoice.paid', now(), '\x02', 'received'),
		($3, 's', 'stripe', '', 'test', 'evt_3', 'id', 'invoice.paid', now(), '\x03', 'received'),
		(gen_random_uuid(), 's', 'stripe', '', 'live', 'evt_3', 'id', 'invoice.paid', now(), '\x04', 'received')`, Live, connected, test); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"evt_1": Live, Live: Live, "stripe:evt_1": Live, "stripe:acct_9:evt_2": connected, test: test,
	} {
		r, err := event.Find(t.Context(), db, id)
		if err != nil || r.ID != want {
			t.Errorf("FindEvent(%q) = %v, %v; want %s", id, r, err, want)
		}
	}
	for _, id := range []string{"evt_9", "github:evt_1", "stripe:evt_2", "stripe:", ""} {
		_, err := event.Find(t.Context(), db, id)
		if !decide.IsFault(err, decide.Unknown) {
			t.Errorf("FindEvent(%q): %v, want that it is unknown", id, err)
		}
	}
	_, err := event.Show(t.Context(), db, "evt_3")
	if !decide.IsFault(err, decide.Ambiguous) || !strings.Contains(err.Error(), test) {
		t.Errorf("ShowEvent(evt_3): %v, want that it is ambiguous, and lists both receipts", err)
	}
}

// If several events are about an object, the object's ID does not identify one of them: the refusal reports that and
// lists the events.
func TestFindEvent_Object(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	if _, err := db.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status) values
		($1, 's', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', 'in_1', now(), '\x01', 'received'),
		(gen_random_uuid(), 's', 'stripe', 'live', 'evt_2', 'id', 'customer.subscription.updated', 'sub_1', now(), '\x02', 'received'),
		(gen_random_uuid(), 's', 'stripe', 'live', 'evt_3', 'id', 'customer.subscription.deleted', 'sub_1', now(), '\x03', 'dead')`, Live); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `insert into event_subjects (receipt_id, object, main, account, number)
		select id, object_id, true, 'acme', case object_id when 'in_1' then 'PAWL-1' else '' end from receipts`); err != nil {
		t.Fatal(err)
	}
	if r, err := event.Find(t.Context(), db, "in_1"); err != nil || r.ID != Live {
		t.Errorf("the one event about in_1: %+v, %v", r, err)
	}
	// Customers quote the number that is printed on the invoice.
	if _, err := db.Exec(t.Context(), `insert into accounts (mode, id, provider) values ('live', 'acme', 'stripe')`); err != nil {
		t.Fatal(err)
	}
	if r, err := event.Find(t.Context(), db, "PAWL-1"); err != nil || r.ID != Live {
		t.Errorf("the one event about PAWL-1: %+v, %v", r, err)
	}
	for _, account := range []string{"", "acme"} {
		found, err := event.List(t.Context(), db, event.Filter{Object: "PAWL-1", Account: account})
		if err != nil || len(found) != 1 || found[0].EventID != "evt_1" {
			t.Errorf("events about PAWL-1 of account %q: %+v, %v", account, found, err)
		}
	}
	if _, err := db.Exec(t.Context(), `insert into addresses (customer, mode, provider, email, email_hash, said)
		values ('sub_1', 'live', 'stripe', 'ada@example.com', $1, '')`, billing.HashEmail("ada@example.com")); err != nil {
		t.Fatal(err)
	}
	if found, err := event.List(t.Context(), db, event.Filter{Object: "Ada@example.com"}); err != nil || len(found) != 2 {
		t.Errorf("events about Ada@example.com: %+v, %v", found, err)
	}
	if found, err := event.List(t.Context(), db, event.Filter{Object: "PAWL-2"}); err != nil || len(found) != 0 {
		t.Errorf("events about PAWL-2: %+v, %v", found, err)
	}
	_, err := event.Find(t.Context(), db, "sub_1")
	if err == nil || !strings.Contains(err.Error(), "2 events contain sub_1: use the ID of one: ") || !strings.Contains(err.Error(), "evt_3 (customer.subscription.deleted, dead)") {
		t.Errorf("sub_1: %v, want both events", err)
	}
	_, err = over(db, says(nil)).Decide(t.Context(), ask("retry", "in_1"))
	if err == nil || !strings.Contains(err.Error(), "evt_1 is received") {
		t.Errorf("a refusal about in_1: %v, want it to name the event", err)
	}
}
