package bench

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// rowsSQL reads all rows of a delivery, without random IDs and times.
const rowsSQL = `
select concat_ws('|', r.source, r.provider, r.account, r.mode, r.event_id, r.identity, r.type, r.object_id, r.api_version, r.occurred_at,
                 r.received_at, r.body_hash, r.secret_label, r.correlation_id, r.status, r.reason, r.duplicates, r.dispatch_at > now(),
                 b.headers, b.body, d.source, d.received_at, d.outcome, d.body_hash, d.secret_label)
  from receipts r join receipt_bodies b on b.receipt_id = r.id join deliveries d on d.receipt_id = r.id order by d.outcome desc`

// The rival storage writes the same rows as pawl, so that it is not faster because it writes less.
func TestPlainInsert_WritesWhatPawlWrites(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	delivery := func() receipt.Delivery {
		return receipt.Delivery{
			Source: "stripe", Provider: "stripe", ReceivedAt: at, Secret: "first", Header: http.Header{"A": {"b"}},
			Events: []receipt.New{{
				Account: "acct_1", Mode: "test", EventID: "evt_1", Identity: receipt.ByID, Type: "invoice.paid", Object: "in_1",
				APIVersion: "2025-03-31.basil", OccurredAt: at, Status: receipt.Received, Body: []byte(`{"id":"evt_1"}`), Correlation: "c",
			}},
		}
	}
	rows := func(pool *pgxpool.Pool, insert func(receipt.Delivery) ([]receipt.Outcome, error)) []string {
		for i := range 2 {
			got, err := insert(delivery())
			if err != nil || len(got) != 1 || got[0].Duplicate != (i == 1) || got[0].ReceiptID == "" {
				t.Fatalf("delivery %d: %+v, %v", i+1, got, err)
			}
		}
		found, err := pool.Query(t.Context(), rowsSQL)
		if err != nil {
			t.Fatal(err)
		}
		list, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	ours, theirs := schematest.New(t), schematest.New(t)
	store := receipt.NewStore(ours, receipt.Options{Timeout: 20 * time.Second})
	t.Cleanup(store.Close)
	want := rows(ours, func(d receipt.Delivery) ([]receipt.Outcome, error) { return store.Insert(t.Context(), d) })
	rival, err := NewRival(modeInsert, theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := rows(theirs, func(d receipt.Delivery) ([]receipt.Outcome, error) { return rival.Insert(t.Context(), d) })
	if len(want) != 2 || !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The fill creates the stated number of receipts.
func TestFill_Counts(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := &stack{Options: Options{Progress: t.Output()}}
	if err := s.fill(t.Context(), dsn, 1000); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var receipts int
	err = conn.QueryRow(t.Context(), `select count(*) from receipts where status = 'processed'`).Scan(&receipts)
	if err != nil || receipts != 1000 {
		t.Errorf("%d receipts, %v; want 1000", receipts, err)
	}
}
