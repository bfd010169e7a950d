package event

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	done, skipped := timeline.Effect{Kind: "apply-facts", State: "done"}, timeline.Effect{Kind: "receipt-email", State: "skipped"}
	failed, doubtful := timeline.Effect{Kind: "finance-export", State: "failed"}, timeline.Effect{Kind: "receipt-email", State: "uncertain"}
	amount, gold, opened := int64(4900), int64(29900), time.Date(2026, 11, 28, 10, 57, 0, 0, time.UTC)
	paid := func(status, reason string) timeline.Receipt {
		code, _, _ := strings.Cut(reason, ": ")
		return timeline.Receipt{Status: status, Reason: reason, ReasonCode: code, Amount: &amount, Currency: "usd"}
	}
	answered := failed
	answered.LastError = "127.0.0.1:20703 answered 404"
	unconfirmed := doubtful
	unconfirmed.LastError = "no answer to the final dot – EOF"
	workspace, mailed := timeline.Effect{Kind: "provision-workspace", State: "done"}, timeline.Effect{Kind: "receipt-email", State: "done"}
	review := paid("needs_review", "paid_after_end: invoice in_1 was paid")
	review.Waits = &receipt.Waits{Decisions: []string{"approve", "reject"}}
	for want, c := range map[string]struct {
		receipt timeline.Receipt
		effects []timeline.Effect
		next    Next
		// undelivered lists the published events that no destination has accepted yet.
		undelivered []timeline.Undelivered
		unbooked    *billing.Money
		unmapped    []account.UnmappedPrice
	}{
		"No access: price price_gold has no plan. 299.00 USD paid. Task open since 2026-11-28 10:57 UTC. Map the price in plans.prices, and apply the new rules. Receipt is done.": {
			receipt: paid("processed", "unknown_price: price price_gold is not in plans.prices"), effects: []timeline.Effect{done, mailed},
			unmapped: []account.UnmappedPrice{{Price: "price_gold", Object: "cs_1", Amount: &gold, Currency: "usd", Since: &opened}},
		},
		"Done. Price price_gold has no plan, so it changes nothing. 299.00 USD paid. Map the price in plans.prices, and apply the new rules.": {
			receipt:  paid("processed", ""),
			unmapped: []account.UnmappedPrice{{Price: "price_gold", Object: "sub_1", Amount: &gold, Currency: "usd", Active: true}},
		},
		"An order or a change was refused, and is not granted: no. No access: price price_x has no plan. Map the price in plans.prices, and apply the new rules.": {
			receipt: paid("processed", "withheld: no"), unmapped: []account.UnmappedPrice{{Price: "price_x", Object: "sub_1"}},
		},
		"Not finished: the finance entry of 49.00 USD is not booked. Finance answered 404 Not Found. Receipt and Workspace are done.": {
			receipt: paid("dead", "effect_failed: finance-export is failed"), effects: []timeline.Effect{done, workspace, mailed, answered},
		},
		"Unclear: it is not known whether the receipt was sent. The mail server closed the connection before it confirmed the e-mail. Workspace is done.": {
			receipt: paid("needs_review", "effect_uncertain: receipt-email is uncertain"), effects: []timeline.Effect{done, workspace, unconfirmed},
		},
		"Needs a decision: paid after the subscription had ended: invoice in_1 was paid. Receipt is done.": {
			receipt: review, effects: []timeline.Effect{done, mailed},
		},
		"An order or a change was refused, and is not granted: the workspace system said no.": {
			receipt: paid("processed", "withheld: the workspace system said no"), effects: []timeline.Effect{done},
		},
		"Stored, and not started yet.": {receipt: timeline.Receipt{Status: "received"}},
		"In progress: the finance entry is not booked.": {
			receipt: timeline.Receipt{Status: "processing"}, effects: []timeline.Effect{done, done},
			next: Next{Pending: []workflows.PreviewedEffect{{Kind: "finance-export"}}},
		},
		"pawl retries it automatically: in 3s.":           {receipt: timeline.Receipt{Status: "retrying"}, next: Next{Message: "in 3s."}},
		"pawl retries it automatically: finance is down.": {receipt: timeline.Receipt{Status: "retrying", Reason: "finance is down"}, next: Next{Message: "in 3s."}},
		"Not finished: the finance entry is not booked, and it is not known whether the receipt was sent.": {
			receipt: timeline.Receipt{Status: "dead"}, effects: []timeline.Effect{doubtful, failed},
		},
		"Not finished: cannot read it.": {receipt: timeline.Receipt{Status: "needs_review", LastError: "cannot read it"}},
		"Done.":                         {receipt: timeline.Receipt{Status: "processed", OurAccount: "acme", Amount: &amount}, effects: []timeline.Effect{done}},
		"Done. The money is not booked: its account is unknown.": {receipt: timeline.Receipt{Status: "processed", Amount: &amount}, effects: []timeline.Effect{done}, unbooked: &billing.Money{Kind: "payment"}},
		"Done. Skipped: Receipt.":                                {receipt: timeline.Receipt{Status: "processed"}, effects: []timeline.Effect{done, skipped}},
		"Done. Not yet delivered to crm since 2026-11-28T10:57:00Z: access.changed (503 Service Unavailable).": {
			receipt: timeline.Receipt{Status: "processed"}, effects: []timeline.Effect{done},
			undelivered: []timeline.Undelivered{{Type: "access.changed", Since: time.Date(2026, 11, 28, 10, 57, 0, 0, time.UTC), Attempts: 3, Error: "destination crm: 503 Service Unavailable"}},
		},
		"Done. Not yet delivered to every destination since 2026-11-28T10:57:00Z: access.changed, payment.recorded.": {
			receipt: timeline.Receipt{Status: "processed"},
			undelivered: []timeline.Undelivered{{Type: "payment.recorded", Since: time.Date(2026, 11, 28, 10, 57, 0, 0, time.UTC)},
				{Type: "access.changed", Since: time.Date(2026, 11, 28, 10, 58, 0, 0, time.UTC)}},
		},
		"Ignored: connected account acct_9 is not mapped to an account. 49.00 USD paid. Map the connected account; pawl then runs its stored events.": {
			receipt: func() timeline.Receipt {
				r := paid("ignored", "account_not_mapped: the event belongs to connected account acct_9")
				r.Account = "acct_9"
				return r
			}(),
		},
		"Taken back: the card was stolen.":                      {receipt: timeline.Receipt{Status: "compensated", Reason: "compensated: the card was stolen"}},
		"Ignored: type_not_allowed: the source is off.":         {receipt: timeline.Receipt{Status: "ignored", Reason: "type_not_allowed: the source is off"}},
		"Ignored: the source does not use events of this type.": {receipt: timeline.Receipt{Status: "ignored", Reason: "type_ignored"}},
	} {
		c.receipt.WorkflowID = "stripe:evt_1"
		e := &Evidence{Event: timeline.Event{Receipt: c.receipt, Effects: c.effects, Undelivered: c.undelivered}, Next: c.next, Unbooked: c.unbooked, UnmappedPrices: c.unmapped}
		if got := verdict(e); got != want {
			t.Errorf("verdict() = %q, want %q", got, want)
		}
	}
}
