package obstacle_test

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/obstacle"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// subscribed inserts a subscription of account acme with additional fields.
func subscribed(status, state string) string {
	return `insert into subscriptions (mode, id, account, status, state) values ('live', 'sub_1', 'acme', '` + status + `', '{"ID":"sub_1","Status":"` + status + `"` + state + `}')`
}

func accountOf(state string) string {
	return `insert into accounts (mode, id, provider, customer, target_version, target_state) values ('live', 'acme', 'stripe', 'cus_1', 2, '` + state + `')`
}

func invoiceOf(status, state string) string {
	return `insert into invoices (mode, id, account, subscription, status, amount, currency, period_start, occurred_at, state)
		values ('live', 'in_1', 'acme', 'sub_1', '` + status + `', 0, 'usd', now(), now(), '{"ID":"in_1","Subscription":"sub_1","Status":"` + status + `","Currency":"usd"` + state + `}')`
}

const (
	paidInvoice = `,"Due":4900,"Paid":4900`
	behind      = `insert into workspaces (mode, account, version, state, plan, effect_key) values ('live', 'acme', 1, 'suspended', '', 'w')`
	ready       = `insert into workspaces (mode, account, version, state, plan, effect_key) values ('live', 'acme', 2, 'active', 'pro', 'w')`
	sinkDown    = `insert into breakers (sink, open, since, reason, probe_at) values ('workspaces:live', true, '2026-11-02', 'w.test answered 503', now())`
)

// Each cause produces a sentence with the amount and the next step. An account without a cause has no such sentence.
func TestExplain_CauseAmountAndNextStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows []string
		want []string
	}{
		"nothing": {rows: []string{accountOf("active"), subscribed("active", ``), invoiceOf("paid", paidInvoice), ready, sinkDown}},
		"unknown price": {
			rows: []string{accountOf(""), subscribed("active", `,"Asks":["price_x"]`), invoiceOf("paid", paidInvoice)},
			want: []string{"unknown_price: No access: price price_x has no plan. 49.00 USD paid. Map the price in plans.prices, and apply the new rules."},
		},
		"unknown price of an upgrade": {
			rows: []string{accountOf("active"), subscribed("active", `,"Asks":["price_x"]`), ready},
			want: []string{"unknown_price: Price price_x has no plan, so it changes nothing. Map the price in plans.prices, and apply the new rules."},
		},
		"unknown price of a session": {
			rows: []string{accountOf(""), `insert into objects (mode, kind, id, account, state) values ('live', 'checkout', 'cs_1', 'acme', '{"Amount":29900,"Currency":"usd","Asks":["price_gold"]}')`},
			want: []string{"unknown_price: No access: price price_gold has no plan. 299.00 USD paid. Map the price in plans.prices, and apply the new rules."},
		},
		"unpaid invoice": {
			rows: []string{accountOf("suspended"), subscribed("past_due", ``), invoiceOf("open", `,"Due":4900,"Paid":900,"Attempts":2,"NextAttempt":"2030-01-02T03:00:00Z"`)},
			want: []string{"unpaid_invoice: Invoice in_1 is open with 40.00 USD. Stripe plans the next attempt: 2030-01-02 03:00 UTC."},
		},
		"unpaid invoice, given up": {
			rows: []string{accountOf("suspended"), subscribed("unpaid", ``), invoiceOf("open", `,"Due":4900,"Attempts":4`)},
			want: []string{"unpaid_invoice: Invoice in_1 is open with 49.00 USD. No further attempt is planned: the customer has to pay it."},
		},
		"open invoice without an attempt, with access": {rows: []string{accountOf("active"), subscribed("active", ``), invoiceOf("open", `,"Due":4900`), ready}},
		"purchase refused": {
			rows: []string{accountOf("suspended"), subscribed("active", `,"Withheld":true`), invoiceOf("paid", paidInvoice)},
			want: []string{"purchase_refused: The purchase of sub_1 was refused, 49.00 USD paid, and pawl revoked the access. Refund it, or grant access."},
		},
		"purchase refused, and withheld since": {
			rows: []string{accountOf("suspended"), subscribed("active", `,"Refused":true,"Withheld":true`), invoiceOf("paid", paidInvoice), ready},
			want: []string{"purchase_refused: The purchase of sub_1 was refused, 49.00 USD paid, and pawl revoked the access. Refund it, or grant access."},
		},
		"change refused": {
			rows: []string{accountOf("active"), subscribed("active", `,"Refused":true`), invoiceOf("paid", paidInvoice), ready},
			want: []string{"change_refused: The change of sub_1 was refused, 49.00 USD paid, and the earlier access stays. Refund it, or grant the change."},
		},
		"parked event": {
			rows: []string{accountOf(""), invoiceOf("open", `,"Due":4900`), `insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason)
				values (gen_random_uuid(), 's', 'stripe', 'live', 'evt_9', 'id', 'invoice.paid', 'in_1', now(), '\x01', 'dead', 'effect_failed: x'),
				       (gen_random_uuid(), 's', 'stripe', 'test', 'evt_test', 'id', 'invoice.paid', 'in_1', now(), '\x01', 'dead', 'effect_failed: x')`},
			want: []string{"parked_event: Event evt_9 (49.00 USD) waits for a decision: a step failed: x.", "unpaid_invoice: Invoice in_1 is open with 49.00 USD. No further attempt is planned: the customer has to pay it."},
		},
		"failed effect": {
			rows: []string{accountOf("active"), subscribed("active", ``), behind, `insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason, waits)
				values (gen_random_uuid(), 's', 'stripe', 'live', 'evt_9', 'id', 'invoice.paid', 'sub_1', now(), '\x01', 'dead', 'effect_failed: x', '{"decisions":["retry"],"effects":[{"key":"w:1","kind":"provision-workspace"}]}')`,
				`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, error) values ('w:1', 'provision-workspace', 'failed', gen_random_uuid(), 'evt_9', 'r', now(), 'w.test answered 404')`},
			want: []string{"parked_event: Event evt_9 is not finished: the workspace is not ready. The workspace system answered 404 Not Found. Remove the cause, then retry the event. [events retry evt_9 --reason REASON]"},
		},
		"retried effect": {
			rows: []string{accountOf("active"), subscribed("active", ``), behind, `insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason)
				values (gen_random_uuid(), 's', 'stripe', 'live', 'evt_9', 'id', 'invoice.paid', 'sub_1', now(), '\x01', 'retrying', 'provision-workspace: w.test answered 503')`},
			want: []string{"retrying_event: pawl retries event evt_9: the workspace is not ready. The workspace system answered 503 Service Unavailable."},
		},
		"withheld effects": {
			rows: []string{accountOf("active"), `insert into withheld (key, kind, mode, receipt_id, account, amount, currency) values ('a', 'finance-export', 'live', gen_random_uuid(), 'acme', 4900, 'usd'), ('b', 'finance-export', 'live', gen_random_uuid(), 'acme', 100, 'usd')`},
			want: []string{"effects_withheld: Booking is withheld (50.00 USD), because the event occurred before effects began."},
		},
		"sink down": {
			rows: []string{accountOf("active"), subscribed("active", ``), behind, sinkDown},
			want: []string{"sink_down: The workspace is not ready: the workspace system (live) has been down since 2026-11-02 00:00 UTC (w.test answered 503). pawl retries automatically."},
		},
		"sink paused": {
			rows: []string{accountOf("active"), subscribed("active", ``), behind, `insert into pauses (kind, name, who, why, since) values ('sink', 'workspaces:live', 'ada', 'moving', '2026-11-02')`},
			want: []string{"sink_down: The workspace is not ready: a person has paused the workspace system (live) since 2026-11-02 00:00 UTC (moving). The work continues when the sink is resumed."},
		},
		"disputed": {
			rows: []string{accountOf("suspended"), subscribed("active", `,"Held":true`), `insert into objects (mode, kind, id, account, state) values ('live', 'dispute', 'dp_1', 'acme', '{"Status":"needs_response","Amount":4900,"Currency":"usd"}')`},
			want: []string{"disputed: Access is suspended by dispute dp_1 of 49.00 USD (needs_response). Answer it in Stripe, or release the hold."},
		},
		"refunded": {
			rows: []string{accountOf("suspended"), subscribed("active", `,"PaidBack":true`), invoiceOf("paid", paidInvoice)},
			want: []string{"paid_back: The payment of sub_1 was refunded in full, 49.00 USD paid. A new payment grants access."},
		},
		"ended": {
			rows: []string{accountOf("suspended"), subscribed("canceled", `,"EndedAt":"2026-11-01T00:00:00Z"`)},
			want: []string{"ended: sub_1 has ended (2026-11-01 00:00 UTC). A new purchase grants access."},
		},
		"on hold": {
			rows: []string{`insert into accounts (mode, id, provider, target_version, target_state, held) values ('live', 'acme', 'stripe', 2, 'suspended', true)`},
			want: []string{"on_hold: acme is on hold. Release it to restore access."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := schematest.New(t)
			for _, sql := range c.rows {
				if _, err := db.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			acc, err := account.Show(t.Context(), db, account.Name{Mode: "live", ID: "acme"})
			if err != nil {
				t.Fatal(err)
			}
			obstacle.Explain(acc, decide.ShellWord)
			got := []string{}
			for _, o := range acc.Obstacles {
				line := string(o.Cause) + ": " + o.Message
				if o.Effect != "" {
					line += " [" + o.Command + "]"
				}
				got = append(got, line)
			}
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
