package schematest

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/event"
)

// Ref returns a Stripe event. [Receipts] creates its receipt. It is the same for an event ID in every test. Its mode is
// live, unless the ID begins with "test".
func Ref(eventID string) event.Ref {
	ref := event.Ref{
		ReceiptID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(eventID)).String(), Provider: "stripe", Mode: "live",
		EventID: eventID, Type: "invoice.paid",
	}
	if strings.HasPrefix(eventID, "test") {
		ref.Mode = "test"
	}
	return ref
}

// Receipts creates the receipts of the events that [Ref] returns.
func Receipts(t testing.TB, pool *pgxpool.Pool, eventIDs ...string) {
	t.Helper()
	for _, id := range eventIDs {
		ref := Ref(id)
		_, err := pool.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
			values ($1, 'stripe', $2, $3, $4, 'id', $5, now(), '', 'processing') on conflict do nothing`, ref.ReceiptID, ref.Provider, ref.Mode, ref.EventID, ref.Type)
		if err != nil {
			t.Fatal(err)
		}
	}
}
