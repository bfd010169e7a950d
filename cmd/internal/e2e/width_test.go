package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/console"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

// longRows are rows with names and IDs of the length that companies and Stripe use.
var longRows = []string{
	`insert into accounts (mode, id, customer, provider, target_state, target_plan) select 'live', 'northwind-traders-europe-' || n, 'cus_QbXyzAbCdEfGh' || n, 'stripe', 'active', 'enterprise-yearly' from generate_series(1, 4) n`,
	`insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason, workflow_id)
		select ('01890000-0000-7000-8000-00000000000' || n)::uuid, 'stripe-eu-payments', 'stripe', 'live', 'evt_1QbXyzAbCdEfGhIjKlMnOp' || lpad(n::text, 2, '0'), 'id',
		       (array['customer.subscription.trial_will_end', 'invoice.payment_action_required', 'invoice.paid', 'charge.dispute.funds_withdrawn'])[n], 'in_1QbXyzAbCdEfGhIjKlMnOp0' || n,
		       now() - n * interval '26 hours', '', (array['dead', 'needs_review', 'retrying', 'processed'])[n],
		       (array['effect_failed: finance-export is failed: fault: erp.example.com:8443 answered 404', 'paid_after_end: in_1 was paid after the end', '', ''])[n], 'stripe:evt_' || n
		  from generate_series(1, 4) n`,
	`insert into event_subjects (receipt_id, object, main, account, customer, number, amount, currency)
		select ('01890000-0000-7000-8000-00000000000' || n)::uuid, 'in_1QbXyzAbCdEfGhIjKlMnOp0' || n, true, 'northwind-traders-europe-' || n, 'cus_QbXyzAbCdEfGh' || n, 'NORTHWIND-2026-000' || n, 123456700, 'usd' from generate_series(1, 4) n`,
	`insert into effects (key, kind, state, attempts, receipt_id, event_id, run_id, lease_until, claimed_at, error)
		select kind || ':stripe:live:in_1QbXyzAbCdEfGhIjKlMnOp0' || n, kind, (array['failed', 'uncertain', 'failed'])[n], 2, ('01890000-0000-7000-8000-00000000000' || n)::uuid, 'evt_1QbXyzAbCdEfGhIjKlMnOp0' || n, '', now(), now(), 'fault: erp.example.com:8443 answered 503'
		  from generate_series(1, 3) n cross join unnest(array['finance-export', 'receipt-email']) kind`,
	`insert into tasks (mode, kind, object, account, state, title, effect_key, amount, currency, due_by, taken_by) values
		('live', 'dispute', 'dp_1QbXyzAbCdEfGhIjKlMnOp01', 'northwind-traders-europe-1', 'open', 'Submit evidence for dispute dp_1QbXyzAbCdEfGhIjKlMnOp01 until 2026-12-24 23:59 UTC', '', 123456700, 'usd', now() + interval '9 days', 'margarethe.schwarzenberg'),
		('live', 'unknown_price', 'northwind-traders-europe-1:price_1QbXyzAbCdEfGhIjKlMnOpQr', 'northwind-traders-europe-1', 'open', 'Add price price_1QbXyzAbCdEfGhIjKlMnOpQr to plans.prices or plans.ignore: account northwind-traders-europe-1 pays for it', '', 0, '', null, ''),
		('live', 'correction', 'sub_1QbXyzAbCdEfGhIjKlMnOpQr', 'northwind-traders-europe-2', 'open', 'The order sub_1QbXyzAbCdEfGhIjKlMnOpQr is withheld: refund the payment', '', 4900, 'usd', null, '')`,
	`insert into finance_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, settlement, settlement_unknown, method, reference, occurred_at)
		select 'finance-export:' || n, 'live', 'northwind-traders-europe-' || n, 'in_1QbXyzAbCdEfGhIjKlMnOp0' || n, 'in_1QbXyzAbCdEfGhIjKlMnOp0' || n, (array['payment', 'reversal', 'refund', 'dispute'])[n], 123456700, 'usd', 123456700,
		       case when n < 3 then '{"amount": 123456700, "fee": 3580300, "net": 119876400, "currency": "usd"}'::jsonb end, case when n > 2 then 'not_permitted' else '' end, 'out_of_band', 'R', now() - n * interval '3 days' from generate_series(1, 4) n`,
	`insert into jobs (id, action, filter, who, why, rate, state, items, created_at) values ('retry-9f8e7d6c5b4a', 'retry', '{"status":"dead","source":"stripe-eu-payments"}', 'margarethe.schwarzenberg', 'finance is back', 1, 'paused', 61, now())`,
	`insert into operator_actions (request_id, actor, issuer, subject, action, target, reason, prev_hash, hash) values
		('r1', 'margarethe.schwarzenberg', 'https://login.northwind-traders.example.com', '00u1a2b3c4d5e6f7g8h9', 'mark-done', 'evt_1QbXyzAbCdEfGhIjKlMnOp01', 'booked by hand as entry 4711 in the ERP', '', '\x01')`,
}

// longPages are the pages of the rows.
var longPages = []string{"/", "/overview", "/events", "/tasks", "/entries", "/entries/sums", "/accounts", "/emails", "/effects", "/jobs", "/audit", "/people",
	"/payments/unassigned", "/scheduled", "/sinks", "/sources", "/outages", "/rejections", "/rules",
	"/events/01890000-0000-7000-8000-000000000001", "/accounts/live/northwind-traders-europe-1", "/tasks/dp_1QbXyzAbCdEfGhIjKlMnOp01",
	"/decide?verb=take-task&target=dp_1QbXyzAbCdEfGhIjKlMnOp01&mode=live", "/find?q=NORTHWIND-2026-0001"}

// split lists the words that do not fit in one line, and the elements beside the window. A word ends where a browser
// may break it: at spaces, hyphens and marked breaks.
const split = `(() => {
	const found = [], range = document.createRange(), width = document.documentElement.clientWidth;
	const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
	for (let node = walker.nextNode(); node; node = walker.nextNode()) {
		if (!node.parentElement.checkVisibility() || node.parentElement.closest("pre, svg, .unseen")) continue;
		for (const word of node.data.matchAll(/[^\s\u2010\u2013\/?-]+/g)) {
			range.setStart(node, word.index);
			range.setEnd(node, word.index + word[0].length);
			const lines = [...range.getClientRects()].filter((r) => r.width > 0);
			if (new Set(lines.map((r) => Math.round(r.top))).size > 1) found.push("split: " + word[0]);
			if (lines.some((r) => r.right > width + 1)) found.push("outside: " + word[0]);
		}
	}
	for (const cell of document.querySelectorAll("main :is(td, dd, li, p)"))
		if (cell.scrollWidth > cell.clientWidth + 1 && cell.clientWidth > 0) found.push("over its cell: " + cell.textContent.trim().slice(0, 60));
	return [...new Set(found)].slice(0, 8);
})()`

// No page scrolls horizontally, and no word is split, in the windows of a phone, a tablet and a desktop, with names and
// IDs as long as in practice. At 1440 px the lists of events, tasks and money are tables.
func TestConsole_Widths_NothingSplitOrOutside(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	for _, sql := range longRows {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v: %s", err, sql)
		}
	}
	cfg := &config.Config{Dev: config.Development{Enabled: true}}
	cfg.Console.Listen = "127.0.0.1:0"
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	server, err := console.New(console.Options{Config: cfg, Log: log, Page: func(string, string) string { return "" },
		Operator: &decide.Operator{Verbs: operator.Verbs, DB: db, Audit: audit.New(db, log), TaskQueue: "pawl",
			Outlook: func(context.Context) (workflows.Outlook, func(), error) { return nil, nil, errors.New("no preview") }}})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	t.Cleanup(front.Close)
	b := newBrowser(t)
	for _, page := range longPages {
		b.look(front.URL+page, "light", 1440)
		if title := get(b, chromedp.Evaluate[string](`document.title`)); strings.HasPrefix(title, "This page failed") {
			t.Errorf("%s fails", page)
		}
		for _, width := range []int64{360, 900, 1440} {
			b.shape("light", width)
			where := fmt.Sprintf("%s, %d px", page, width)
			b.sound(where)
			for _, fault := range get(b, chromedp.Evaluate[[]string](split)) {
				t.Errorf("%s: %s", where, fault)
			}
			isTable := get(b, chromedp.Evaluate[bool](`[...document.querySelectorAll("main table")].every((t) => getComputedStyle(t).display === "table")`))
			if width == 1440 && !isTable {
				t.Errorf("%s: a table is a list of cards", where)
			}
		}
	}
	b.noFaults("widths")
}
