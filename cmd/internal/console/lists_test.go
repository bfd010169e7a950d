package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/role"
)

// The page Money adds up the entries that people skipped, apart from the booked ones, and links to their list.
func TestMoney_SkippedEntries_SummedApart(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	b := s.as("vera", role.Viewer)
	if page := b.get("/entries").text; strings.Contains(page, "<h2>Skipped entries") {
		t.Error("the page has skipped entries, and none was skipped")
	}
	s.exec(`insert into skipped_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, occurred_at, event_id, actor, reason, skipped_at) values
		('e1', 'live', 'acme', 'in_1', 'in_1', 'payment', 4800, 'usd', 4800, '2026-10-01 09:00Z', 'evt_1', 'ada', 'booked elsewhere', '2026-11-03 10:00Z'),
		('e2', 'live', 'acme', 're_1', 'in_1', 'refund', 900, 'usd', -900, '2026-10-02 09:00Z', 'evt_2', 'ada', 'the same', '2026-11-03 10:00Z'),
		('e5', 'live', 'acme', 'in_5', 'in_5', 'payment', 1234, 'usd', 1234, '2026-10-03 09:00Z', 'evt_5', 'ada', 'no answer', '2026-11-03 10:00Z'),
		('e3', 'live', 'beta', 'in_2', 'in_2', 'payment', 500, 'eur', 500, '2026-11-02 09:00Z', 'evt_3', 'bob', 'a test', '2026-11-03 10:00Z'),
		('e4', 'test', 'acme', 'in_3', 'in_3', 'payment', 7770000, 'usd', 7770000, '2026-10-02 09:00Z', 'evt_4', 'ada', 'x', '2026-11-03 10:00Z')`)
	s.exec(`update skipped_entries set perhaps_booked = true where effect_key = 'e5'`)
	page := b.get("/entries?since=2026-10-01&until=2026-11-01").text
	for _, wanted := range []string{"12.34 USD", "<h2>Skipped entries</h2>", "39.00 USD", `href="/entries/skipped?since=2026-10-01&amp;until=2026-11-01"`, "No entry matches"} {
		if !strings.Contains(page, wanted) {
			t.Errorf("the page lacks %q:\n%s", wanted, page)
		}
	}
	page = b.get("/entries/skipped").text
	for _, wanted := range []string{"perhaps booked: an attempt had no answer", "48.00 USD", "-9.00 USD", "5.00 EUR", "39.00 USD", "booked elsewhere", `href="/events/evt_3"`, "refund to the customer"} {
		if !strings.Contains(page, wanted) {
			t.Errorf("the list lacks %q:\n%s", wanted, page)
		}
	}
	if strings.Contains(page, "77700") {
		t.Error("the list contains test money")
	}
	if file := b.get("/entries/skipped?account=beta&format=csv").text; !strings.HasSuffix(file, "2026-11-02 09:00:00,payment,beta,in_2,5.00,EUR,5.00,EUR,bob,a test,2026-11-03 10:00:00,,evt_3\n") {
		t.Errorf("the file is\n%s", file)
	}
}

// Finance sees what moved, adds it up per day and currency, and downloads the same rows.
func TestMoney_ListedSummedAndDownloaded(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.exec(`insert into finance_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, settlement, method, occurred_at) values
		('e1', 'live', 'acme', 'in_1', 'in_1', 'payment', 4900, 'usd', 4900, '{"amount": 4900, "fee": 172, "net": 4728, "currency": "usd"}', 'charge', '2026-10-01 09:00Z'),
		('e2', 'live', '=1+1', 're_1', 'in_1', 'refund', 900, 'usd', -900, null, '', '2026-10-02 09:00Z'),
		('e3', 'live', 'beta', 'in_2', 'in_2', 'payment', 500, 'jpy', 500, null, 'charge', '2026-10-02 09:00Z'),
		('e4', 'test', 'acme', 'in_3', 'in_3', 'payment', 7770000, 'usd', 7770000, null, 'charge', '2026-10-02 09:00Z')`)
	b := s.as("vera", role.Viewer)
	page := b.get("/entries?since=2026-10-01&until=2026-11-01").text
	for _, wanted := range []string{"-9.00 USD", "47.28 USD", "refund to the customer", "500 JPY", "Totals per day", "<td data-head=\"day (utc)\"",
		`href="/entries?format=csv&amp;since=2026-10-01&amp;until=2026-11-01"`, `href="/entries/sums?since=2026-10-01&amp;until=2026-11-01"`, `<option value="refund_reversal">refund reversal`} {
		if !strings.Contains(page, wanted) {
			t.Errorf("the page lacks %q", wanted)
		}
	}
	if strings.Contains(page, "77700") {
		t.Error("the page contains test money")
	}
	// Without a mode, the list has live entries, and the filter says so.
	mode := regexp.MustCompile(`(?s)<select name="mode">.*?</select>`)
	if got := mode.FindString(b.get("/entries").text); !strings.Contains(got, `<option value="live" selected>`) || strings.Contains(got, `value=""`) {
		t.Errorf("the filter of the mode is %s", got)
	}
	file := b.get("/entries?kind=refund&format=csv")
	if got := file.Header.Get("Content-Disposition"); !strings.HasPrefix(got, `attachment; filename="pawl-entries-`) || !strings.HasPrefix(file.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("headers %v", file.Header)
	}
	want := "date (UTC),what,account,invoice,amount,amount currency,money moved,money moved currency,fee,fee currency,net,net currency,paid,note,event,by\n" +
		"2026-10-02 09:00:00,refund to the customer,'=1+1,in_1,-9.00,USD,-9.00,USD,,,,,,,,\n"
	if file.text != want {
		t.Errorf("the file is\n%s\nwant\n%s", file.text, want)
	}
	if sums := b.get("/entries/sums?format=csv&mode=live").text; !strings.HasSuffix(sums, "2026-10-02,JPY,1,500,JPY,0,JPY,500,JPY,,,,,1\n"+
		"2026-10-02,USD,1,0.00,USD,-9.00,USD,-9.00,USD,,,,,1\n2026-10-01,USD,1,49.00,USD,0.00,USD,49.00,USD,1.72,USD,47.28,USD,0\n") {
		t.Errorf("the totals are\n%s", sums)
	}
	for _, path := range []string{"/entries?format=xml", "/entries?cursor=x", "/entries?cursor=2026-10-01T00:00:00Z", "/entries?mode=both", "/entries/sums?cursor=yesterday/usd"} {
		if r := b.get(path); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if r := s.browser().get("/entries?format=csv"); r.StatusCode != http.StatusSeeOther || !strings.HasPrefix(r.Header.Get("Location"), "/sign-in?next="+url.QueryEscape("/entries")) {
		t.Errorf("without a sign-in: %d to %s", r.StatusCode, r.Header.Get("Location"))
	}
}

// Support sees the e-mails of a customer with their invoices, and can send an unclear e-mail again. No page contains an
// address.
func TestEmails_ListedWithTheirDecision(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.exec(`insert into accounts (mode, id, provider, customer, target_version, target_state) values ('live', 'acme', 'stripe', 'cus_1', 1, 'active')`)
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, waits) values
		('01890000-0000-7000-8000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', 'in_1', now(), '\x01', 'needs_review',
		 '{"decisions": ["resend", "skip"], "effects": [{"key": "receipt-email:stripe:live:in_1", "kind": "receipt-email", "state": "uncertain", "uncertain": true}]}')`)
	s.exec(`insert into event_subjects (receipt_id, object, main, account, number) values ('01890000-0000-7000-8000-000000000001', 'in_1', true, 'acme', 'A-1')`)
	s.exec(`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, error, error_class, claimed_at, done_at) values
		('receipt-email:stripe:live:in_1', 'receipt-email', 'uncertain', '01890000-0000-7000-8000-000000000001', 'evt_1', 'r', now(),
		 'no answer to the final dot – 250 <ada@example.com>', 'uncertain', '2026-10-01 09:00Z', null),
		('action-required-notice:stripe:live:in_1:2', 'action-required-notice', 'done', '01890000-0000-7000-8000-000000000001', 'evt_1', 'r', now(), '', '', '2026-09-01 09:00Z',
		 '2026-09-01 09:00Z')`)
	const resend = `<a class="id" href="/decide?effect=receipt-email%3Astripe%3Alive%3Ain_1&amp;target=01890000-0000-7000-8000-000000000001&amp;verb=resend">Send again</a>`
	support, oncall := s.as("vera", role.Support), s.as("otto", role.Operator)
	for _, path := range []string{"/emails?account=acme", "/accounts/live/acme"} {
		page := oncall.get(path).text
		for _, wanted := range []string{`title="unclear">Unclear</span>`, "The mail server did not confirm it: it may have arrived; its event waits for a decision",
			"Payment failed, attempt 2", `title="A-1"`, `<th scope="col">decision`, resend, `href="/events/evt_1"`} {
			if !strings.Contains(page, wanted) {
				t.Errorf("%s lacks %q", path, wanted)
			}
		}
		if strings.Contains(page, "ada@example.com") {
			t.Errorf("%s contains an address", path)
		}
		if page := support.get(path).text; strings.Contains(page, "verb=resend") || !strings.Contains(page, "Unclear") {
			t.Errorf("%s offers a decision that the person may not make", path)
		}
	}
	if page := oncall.get("/accounts/live/acme").text; !strings.Contains(page, `href="/emails?account=acme&amp;mode=live">All e-mails`) {
		t.Error("the page of the account has no link to its e-mails")
	}
	if page := oncall.get("/emails?outcome=sent").text; strings.Contains(page, `<th scope="col">decision`) || !strings.Contains(page, `<option value="dunning-notice">Payment reminder`) {
		t.Error("the list of sent e-mails offers decisions, or its filter has no words")
	}
	want := "when (UTC),e-mail,account,about,outcome,note,event\n2026-09-01 09:00:00,\"Payment failed, attempt 2\",acme,A-1,sent,,evt_1\n"
	if file := support.get("/emails?kind=action-required-notice&format=csv").text; file != want {
		t.Errorf("the file is\n%s\nwant\n%s", file, want)
	}
	for _, path := range []string{"/emails?cursor=x", "/emails?outcome=lost", "/emails?kind=letter"} {
		if r := support.get(path); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}

// Support sees what happens next, and what prevents it.
func TestScheduled_ListedWithObstacles(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status) values
		('01890000-0000-7000-8000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.payment_failed', 'in_1', now(), '\x01', 'dead'),
		('01890000-0000-7000-8000-000000000002', 'shop', 'stripe', 'live', 'evt_2', 'id', 'invoice.payment_failed', 'in_2', now(), '\x01', 'processed'),
		('01890000-0000-7000-8000-000000000003', 'stripe', 'stripe', 'live', 'evt_3', 'id', 'invoice.payment_failed', 'in_3', now(), '\x01', 'retrying')`)
	s.exec(`insert into pauses (kind, name, who, why) values ('source', 'shop', 'ada', 'migration')`)
	s.exec(`insert into invoices (mode, id, account, status, amount, currency, period_start, occurred_at, state) values
		('live', 'in_1', 'acme', 'open', 0, 'usd', now(), now(), '{"Number": "A-1", "Remaining": 4900, "Currency": "usd"}')`)
	s.exec(`insert into due (mode, owner, account, object, why, step, at, provider, event_id, receipt_id, occurred_at, next_at) values
		('live', 'sub_1', 'acme', 'in_1', 'dunning', 2, now() + interval '3 hours', 'stripe', 'evt_1', '01890000-0000-7000-8000-000000000001', now(), now()),
		('live', 'sub_2', 'beta', 'sub_2', 'grace', 0, now() + interval '3 days', 'stripe', 'evt_2', '01890000-0000-7000-8000-000000000002', now(), now()),
		('live', 'carl', 'carl', 'carl', 'keep', 0, now() - interval '5 minutes', 'stripe', 'evt_3', '01890000-0000-7000-8000-000000000003', now(), now()),
		('live', 'dora', 'dora', 'dora', 'keep', 0, now() + interval '5 days', 'stripe', 'evt_3', '01890000-0000-7000-8000-000000000003', now(), now()),
		('test', 'sub_9', 'zoe', 'sub_9', 'end', 0, now(), 'stripe', 'evt_3', '01890000-0000-7000-8000-000000000003', now(), now())`)
	b := s.as("vera", role.Viewer)
	page := b.get("/scheduled").text
	rows := strings.Split(page, "<tr>")
	if len(rows) != 6 { // with the headings
		t.Fatalf("%d rows:\n%s", len(rows), page)
	}
	for i, wanted := range [][]string{2: {"carl", "opens a task to release the workspace", "waits for evt_3"},
		3: {"acme", "sends payment reminder 2", `title="A-1"`, "49.00 USD", "waits for a decision about evt_1"},
		4: {"beta", "the grace period ends", "sub_2", "waits until source shop is resumed"}, 5: {"dora"}} {
		for _, w := range wanted {
			if !strings.Contains(rows[i], w) {
				t.Errorf("row %d lacks %q: %s", i, w, rows[i])
			}
		}
	}
	if strings.Contains(rows[5], "waits") {
		t.Errorf("an event in progress delays only a due action: %s", rows[5])
	}
	for path, want := range map[string]int{"/scheduled?until=12h": 2, "/scheduled?since=1h&until=4d": 2, "/scheduled?account=dora": 1, "/scheduled?mode=test": 1} {
		if page := b.get(path).text; strings.Count(page, "<tr>") != want+1 {
			t.Errorf("%s: %d rows, want %d", path, strings.Count(page, "<tr>")-1, want)
		}
	}
	for _, path := range []string{"/scheduled?cursor=x", "/scheduled?cursor=2026-10-01T00:00:00Z/end", "/scheduled?until=tonight"} {
		if r := b.get(path); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}

// Support sees whom an outage affected, and opens its events.
func TestOutages_ListedWithEventsAndMoney(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
		select ('01890000-0000-7000-8000-00000000000' || n)::uuid, 'stripe', 'stripe', mode, 'evt_' || n, 'id', 'invoice.paid', now(), '', 'processed'
		  from (values (1, 'live'), (2, 'live'), (3, 'test'), (4, 'live')) r (n, mode)`)
	s.exec(`insert into event_subjects (receipt_id, object, main, account, amount, currency)
		select ('01890000-0000-7000-8000-00000000000' || n)::uuid, 'in_' || n, true, 'acct-' || n, 4900, case n when 2 then 'eur' else 'usd' end from generate_series(1, 4) n`)
	s.exec(`insert into breakers (sink, open, since, reason, probe_at) values ('finance', true, now(), 'f.test answered 503', now())`)
	s.exec(`insert into outages (sink, since, until, reason, answer) values
		('finance', '2026-10-01 10:48Z', '2026-10-01 11:20Z', 'f.test answered 503', 'closed for the night'), ('finance', now() - interval '1 minute', null, 'f.test answered 401', '')`)
	s.exec(`insert into outage_events (outage, receipt_id, mode)
		select 1, id, mode from receipts where event_id <> 'evt_4'`)
	b := s.as("vera", role.Viewer)
	page := b.get("/outages").text
	for _, wanted := range []string{"Finance answered 503 Service Unavailable (closed for the night)", "49.00 EUR + 49.00 USD", "32 min", `href="/events?mode=live&amp;outage=1"`,
		"Still down", `<a href="/outages"`} {
		if !strings.Contains(page, wanted) {
			t.Errorf("the page lacks %q", wanted)
		}
	}
	if strings.Contains(page, "98.00") {
		t.Error("the page adds up test money")
	}
	if events := b.get("/events?mode=live&outage=1").text; !strings.Contains(events, "evt_1") || !strings.Contains(events, "evt_2") || strings.Contains(events, "evt_3") || strings.Contains(events, "evt_4") {
		t.Error("the list of the outage's events has other events than evt_1 and evt_2")
	}
	file := b.get("/outages?until=2026-10-02&format=csv").text
	if want := "outage,sink,from (UTC),to (UTC),duration,cause,events,accounts,money\n" +
		"1,Finance,2026-10-01 10:48:00,2026-10-01 11:20:00,32 min,Finance answered 503 Service Unavailable (closed for the night),2,2,49.00 EUR + 49.00 USD\n"; file != want {
		t.Errorf("the file is\n%s\nwant\n%s", file, want)
	}
	for _, path := range []string{"/outages?cursor=x", "/outages?cursor=2026-10-01T00:00:00Z/x", "/outages?mode=both", "/events?outage=x", "/events?outage=0"} {
		if r := b.get(path); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if story := b.get("/events/evt_1").text; !strings.Contains(story, "waited for finance, which was down from") || !strings.Contains(story, `datetime="2026-10-01T11:20:00Z"`) {
		t.Error("the page of an event does not contain the outage that delayed it")
	}
}
