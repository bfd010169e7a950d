package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/billing"
)

// The search accepts amounts, days and invoice numbers as customers write them.
func TestFind_WordsOfCustomers(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status) values
		('01890000-0000-7000-8000-000000000011', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'processed'),
		('01890000-0000-7000-8000-000000000012', 'stripe', 'stripe', 'live', 'evt_2', 'id', 'invoice.paid', now(), '\x02', 'processed')`)
	s.exec(`insert into event_subjects (receipt_id, object, main, account, customer, number, amount, currency) values
		('01890000-0000-7000-8000-000000000011', 'in_1', true, 'Acme', 'cus_1', 'A-1', 104990, 'usd'),
		('01890000-0000-7000-8000-000000000012', 'in_2', true, 'Acme', 'cus_1', 'A-2', 104990, 'usd'),
		('01890000-0000-7000-8000-000000000013', '', true, 'shop customer 7', '', '', null, null)`)
	s.exec(`insert into accounts (mode, id, provider, customer) values ('live', 'Acme', 'stripe', 'cus_1')`)
	s.exec(`insert into invoices (mode, id, account, customer, status, amount, currency, period_start, occurred_at, state) values
		('live', 'in_1', 'Acme', 'cus_1', 'paid', 104990, 'usd', now(), now(), '{"Number": "A-1"}'), ('live', 'in_2', 'Acme', 'cus_1', 'paid', 104990, 'usd', now(), now(), '{"Number": "A-2"}')`)
	s.exec(`insert into addresses (customer, mode, provider, email_hash, said) values ('cus_1', 'live', 'stripe', $1, '')`, billing.HashEmail("ada@example.com"))
	s.exec(`insert into receipts (id, source, provider, account, mode, event_id, identity, type, received_at, body_hash, status) values
		('01890000-0000-7000-8000-000000000014', 'stripe', 'stripe', 'acct_9', 'live', 'evt_4', 'id', 'invoice.paid', now(), '\x04', 'ignored'),
		('01890000-0000-7000-8000-000000000015', 'stripe', 'stripe', '', 'live', 'evt_5', 'id', 'refund.updated', now(), '\x05', 'processed'),
		('01890000-0000-7000-8000-000000000016', 'stripe', 'stripe', '', 'live', 'evt_6', 'id', 'charge.dispute.created', now(), '\x06', 'processed')`)
	s.exec(`insert into event_subjects (receipt_id, object, main, amount, currency) values ('01890000-0000-7000-8000-000000000015', 're_1', true, 730, 'eur'), ('01890000-0000-7000-8000-000000000016', 'dp_1', true, 880, 'eur')`)
	s.exec(`insert into objects (mode, kind, id, account, state) values ('live', 'refund', 're_1', 'beta', '{"Amount": 730, "Currency": "eur"}'), ('live', 'payment', 'pi_9', 'beta', '{"Amount": 730, "Currency": "eur"}')`)
	s.exec(`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until) values ('dispute-entry:1', 'dispute-entry', 'done', '01890000-0000-7000-8000-000000000016', 'evt_6', 'r', now())`)
	s.exec(`insert into finance_entries (effect_key, mode, account, object, kind, amount, currency, cash) values ('dispute-entry:1', 'live', 'beta', 'txn_1', 'dispute', -880, 'eur', -880)`)
	s.exec(`insert into tasks (mode, kind, object, account, state, title, effect_key) values ('live', 'unknown_price', 'beta:price_gold', 'beta', 'open', 'map', '')`)
	b := s.as("vera", role.Viewer)
	const october = "/events?since=2026-10-31&until=2026-11-01"
	latest := time.Date(time.Now().Year(), time.March, 1, 0, 0, 0, 0, time.UTC)
	if latest.After(time.Now()) {
		latest = latest.AddDate(-1, 0, 0)
	}
	march := "/events?since=" + latest.Format(time.DateOnly) + "&until=" + latest.AddDate(0, 0, 1).Format(time.DateOnly)
	for q, want := range map[string]string{
		"a-1": "/events/01890000-0000-7000-8000-000000000011", "#A-1": "/events/01890000-0000-7000-8000-000000000011",
		"2026-10-31": october, "31.10.2026": october, "31 October 2026": october, "Oct 31, 2026": october, "Mar 1": march, "1 March": march,
		"shop customer 7": "/events?account=shop+customer+7",
		"acct_9":          "/events/01890000-0000-7000-8000-000000000014", "txn_1": "/events/01890000-0000-7000-8000-000000000016",
		"price_gold": "/tasks?about=price_gold",
	} {
		if r := b.get("/find?q=" + url.QueryEscape(q)); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != want {
			t.Errorf("%s: %d to %s, want %s", q, r.StatusCode, r.Header.Get("Location"), want)
		}
	}
	for q, want := range map[string][]string{
		"1,049.90 USD": {"evt_1", "evt_2"}, "$ 1049.90": {"evt_1", "evt_2"}, "7.30 EUR": {"evt_5"}, "acme": {"No account has exactly this ID", `href="/accounts/live/Acme"`},
		"ada@example.com": {`href="/accounts/live/Acme"`, "evt_1", "evt_2"},
	} {
		r := b.get("/find?q=" + url.QueryEscape(q))
		for _, words := range want {
			if r.StatusCode != http.StatusOK || !strings.Contains(r.text, words) {
				t.Errorf("%s: %d, want %s in\n%s", q, r.StatusCode, words, r.text)
			}
		}
	}
	if r := b.get("/events?object=a-1"); r.StatusCode != http.StatusOK || !strings.Contains(r.text, "evt_1") || strings.Contains(r.text, "evt_2") {
		t.Errorf("events about an invoice number: %d\n%s", r.StatusCode, r.text)
	}
	if r := b.get("/find?q=1,049.91"); r.StatusCode != http.StatusNotFound {
		t.Errorf("another amount: %d", r.StatusCode)
	}
}
