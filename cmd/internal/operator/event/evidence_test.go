package event

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	done, skipped := timeline.Effect{Kind: "apply-facts", State: "done"}, timeline.Effect{Kind: "receipt-email", State: "skipped"}
	failed, doubtful := timeline.Effect{Kind: "finance-export", State: "failed"}, timeline.Effect{Kind: "receipt-email", State: "uncertain"}
	amount := int64(4900)
	for want, c := range map[string]struct {
		receipt timeline.Receipt
		effects []timeline.Effect
		next    Next
		// undelivered lists the published events that no destination has accepted yet.
		undelivered []timeline.Undelivered
		unbooked    *billing.Money
	}{
		"It is stored and has not run yet.": {receipt: timeline.Receipt{Status: "received"}},
		"It is in progress; done: apply-facts; not done: finance-export.": {
			receipt: timeline.Receipt{Status: "processing"}, effects: []timeline.Effect{done, done},
			next: Next{Pending: []workflows.PreviewedEffect{{Kind: "finance-export"}}},
		},
		"pawl retries it automatically: in 3s.":           {receipt: timeline.Receipt{Status: "retrying"}, next: Next{Message: "in 3s."}},
		"pawl retries it automatically: finance is down.": {receipt: timeline.Receipt{Status: "retrying", Reason: "finance is down"}, next: Next{Message: "in 3s."}},
		"It waits for a decision: dead; not done: finance-export; may have happened: receipt-email.": {
			receipt: timeline.Receipt{Status: "dead"}, effects: []timeline.Effect{doubtful, failed},
		},
		"It waits for a decision: cannot read it.": {receipt: timeline.Receipt{Status: "needs_review", LastError: "cannot read it"}},
		"It is done.": {receipt: timeline.Receipt{Status: "processed", OurAccount: "acme", Amount: &amount}, effects: []timeline.Effect{done}},
		"It is done; its money is not booked: its account is unknown.": {receipt: timeline.Receipt{Status: "processed", Amount: &amount}, effects: []timeline.Effect{done}, unbooked: &billing.Money{Kind: "payment"}},
		"It is done; done: apply-facts; skipped: receipt-email.":       {receipt: timeline.Receipt{Status: "processed"}, effects: []timeline.Effect{done, skipped}},
		"It is done; not yet delivered to crm since 2026-11-28T10:57:00Z: access.changed (503 Service Unavailable).": {
			receipt: timeline.Receipt{Status: "processed"}, effects: []timeline.Effect{done},
			undelivered: []timeline.Undelivered{{Type: "access.changed", Since: time.Date(2026, 11, 28, 10, 57, 0, 0, time.UTC), Attempts: 3, Error: "destination crm: 503 Service Unavailable"}},
		},
		"It is done; not yet delivered to every destination since 2026-11-28T10:57:00Z: access.changed, payment.recorded.": {
			receipt: timeline.Receipt{Status: "processed"},
			undelivered: []timeline.Undelivered{{Type: "payment.recorded", Since: time.Date(2026, 11, 28, 10, 57, 0, 0, time.UTC)},
				{Type: "access.changed", Since: time.Date(2026, 11, 28, 10, 58, 0, 0, time.UTC)}},
		},
		"It was compensated: the card was stolen.":             {receipt: timeline.Receipt{Status: "compensated", Reason: "compensated: the card was stolen"}},
		"It was ignored: type_not_allowed: the source is off.": {receipt: timeline.Receipt{Status: "ignored", Reason: "type_not_allowed: the source is off"}},
	} {
		e := &Evidence{Event: timeline.Event{Receipt: c.receipt, Effects: c.effects, Undelivered: c.undelivered}, Next: c.next, Unbooked: c.unbooked}
		if got := verdict(e); got != want {
			t.Errorf("verdict() = %q, want %q", got, want)
		}
	}
}
