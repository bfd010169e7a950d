package operator_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

// pawl shows and erases all data of a customer, including the payload of an event without a fact. The data of other
// customers stays, and so do the facts, the ledger and the audit trail. pawl stores no new data of the customer
// afterwards.
func TestForget_ErasesAllOfOneCustomer(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	count := func(sql string) (n int) {
		t.Helper()
		if err := db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	schematest.Receipts(t, db, "evt_1", "evt_2", "evt_3", "evt_4")
	exec(`update receipts set status = 'processed' where event_id <> 'evt_4'`)
	for event, customer := range map[string]string{"evt_1": "cus_1", "evt_2": "cus_1", "evt_3": "cus_12", "evt_4": "cus_1"} {
		exec(`insert into receipt_bodies (receipt_id, headers, body) values ($1, '{}', $2)`, schematest.Ref(event).ReceiptID,
			[]byte(fmt.Sprintf(`{"customer": %q, "email": "ada@x.test"}`, customer)))
	}
	exec(`insert into facts (provider, mode, kind, object, customer, event_id, receipt_id, occurred_at, rank, origin, data)
		select provider, mode, 'invoice_seen', 'in_' || event_id, case event_id when 'evt_3' then 'cus_12' else 'cus_1' end, event_id, id, now(), 3, 'event', '{}'
		  from receipts where event_id <> 'evt_2'`)
	exec(`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, request, error)
		values ('k', 'receipt-email', 'failed', $1, 'evt_1', 'r', now(), 'x', '550 <ada@x.test> unknown')`, schematest.Ref("evt_1").ReceiptID)
	exec(`insert into invoices (mode, id, account, customer, status, amount, currency, period_start, occurred_at, state, page)
		values ('live', 'in_1', 'acme', 'cus_1', 'open', 1, 'usd', now(), now(), '{}', 'https://x.test')`)
	keep := func(second int) {
		t.Helper()
		for _, customer := range []string{"cus_1", "cus_12"} {
			a := billing.Address{Subject: fact.Subject{Provider: "stripe", Mode: "live", Customer: customer, EventID: "evt_1",
				OccurredAt: time.Unix(int64(second), 0)}, Email: "ada@x.test", Name: "Ada", Invoice: "in_1", Page: "https://x.test/2"}
			if err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return billing.KeepAddress(t.Context(), tx, a) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	keep(1)
	o := over(db, says(nil))
	refused := new(decide.RefusedError)
	if _, err := o.Decide(t.Context(), ask("forget", "cus_1")); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "evt_4") {
		t.Fatalf("an event is at work: %v", err)
	}
	exec(`update receipts set status = 'processed'`)
	shown, err := o.Decide(t.Context(), ask("export", "cus_1"))
	if err != nil {
		t.Fatal(err)
	}
	if held := shown.Result.(*account.Traces); len(held.Addresses) != 1 || len(held.Bodies) != 3 || held.Requests != 1 || len(held.Pages) != 1 {
		t.Errorf("shown is %+v", held)
	}
	preview, err := o.Preview(t.Context(), ask("forget", "cus_1"))
	if err != nil || !strings.Contains(preview.Message, "1 addresses, 3 payloads, 1 stored requests") || count(`select count(*) from receipt_bodies`) != 4 {
		t.Errorf("preview %+v, %v", preview, err)
	}
	answer, err := o.Decide(t.Context(), ask("forget", "cus_1"))
	if err != nil || answer.Message != preview.Message {
		t.Fatalf("%+v, %v; want what the preview said", answer, err)
	}
	keep(2)
	for sql, want := range map[string]int{
		`select count(*) from receipt_bodies`:                                                   1,
		`select count(*) from addresses where email = 'ada@x.test'`:                             1, // cus_12's
		`select count(*) from addresses where forgotten_at is not null`:                         1,
		`select count(*) from effects where request is null and error = '550 (erased) unknown'`: 1,
		`select count(*) from facts`:                                                            3,
		`select count(*) from operator_actions where concat(before, after) like '%@%'`:          0,
		`select count(*) from operator_actions`:                                                 2,
	} {
		if got := count(sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
	if _, _, err := audit.New(db, slog.New(slog.DiscardHandler)).Verify(t.Context(), ""); err != nil {
		t.Errorf("the audit trail: %v", err)
	}
	if _, err := o.Decide(t.Context(), ask("forget", "cus_nobody")); err == nil || !strings.Contains(err.Error(), "no customer") {
		t.Errorf("of nobody: %v", err)
	}
}
