package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

func TestEvents_ListAndShow(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	if r := s.pawl(t, "migrate", "--json"); r.code != 0 || decode[map[string]int](t, r)["version"] < 1 {
		t.Fatalf("migrate: exit %d, %s %s", r.code, r.out, r.err)
	}
	conn := connect(t, dsn)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, workflow_id, last_error, waits) values
			('00000000-0000-0000-0000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'dead', 'stripe:evt_1', E'451 \x1b[31mred',
			'{"decisions":["skip","retry","done","compensate"],"effects":[{"key":"receipt-email:stripe:live:in_1","kind":"receipt-email","state":"failed","by_hand":true}]}')`,
		`insert into effects (key, kind, state, receipt_id, event_id, workflow_id, run_id, lease_until, error)
			values ('receipt-email:stripe:live:in_1', 'receipt-email', 'failed', '00000000-0000-0000-0000-000000000001', 'evt_1', 'stripe:evt_1', 'run', now(), '451 later')`,
		`insert into facts (provider, mode, kind, object, customer, event_id, receipt_id, occurred_at, rank, origin, data)
			values ('stripe', 'live', 'linked', 'cus_1', 'cus_1', 'evt_1', '00000000-0000-0000-0000-000000000001', now(), 3, 'event', '{"Link":{"Account":"other"}}'),
			('stripe', 'live', 'invoice_seen', 'in_1', 'cus_1', 'evt_1', '00000000-0000-0000-0000-000000000001', now(), 3, 'event',
			'{"Invoice":{"Paid":49900,"Due":50000,"Currency":"usd"}}')`,
		`insert into invoices (mode, id, account, status, amount, currency, period_start, occurred_at, receipt_id, state)
			values ('live', 'in_1', 'acme', 'paid', 49900, 'usd', now(), now(), '00000000-0000-0000-0000-000000000001', '{}')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}

	r := s.pawl(t, "events", "list", "--status", "dead", "--json")
	if got := decode[[]timeline.Receipt](t, r); len(got) != 1 || got[0].EventID != "evt_1" {
		t.Errorf("list = %+v, want evt_1", got)
	}
	if r := s.pawl(t, "events", "list", "--status", "processed", "--json"); strings.TrimSpace(r.out) != "[]" {
		t.Errorf("empty list = %q, want []", r.out)
	}
	if r := s.pawl(t, "events", "list"); !strings.Contains(r.out, "acme  ") || !strings.Contains(r.out, "499.00 USD  evt_1") || !strings.HasPrefix(r.out, "RECEIVED") {
		t.Errorf("table = %q", r.out)
	}
	event := decode[timeline.Event](t, s.pawl(t, "events", "show", "stripe:evt_1", "--json"))
	if len(event.Effects) != 1 || event.Effects[0].LastError != "451 later" || event.Receipt.Status != "dead" {
		t.Errorf("event = %+v", event)
	}
	r = s.pawl(t, "events", "show", "evt_1")
	for _, want := range []string{"evt_1  invoice.paid", "receipt-email", "451 later", "TIME", "received"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("screen does not show %q:\n%s", want, r.out)
		}
	}
	if !strings.Contains(r.out, "acme, 499.00 USD") {
		t.Errorf("screen does not show whose it is, and how much:\n%s", r.out)
	}
	// It ends with what can be done, as commands that the program takes.
	_, decisions, _ := strings.Cut(r.out, "What can be done")
	var offered []string
	for _, line := range strings.Split(decisions, "\n") {
		args, ours := pawlArguments(line)
		if !ours {
			continue
		}
		if err := understood(args); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if !slices.Contains(args, s.file) {
			t.Errorf("%s: it does not name the configuration", line)
		}
		offered = append(offered, args[slices.Index(args, "events")+1])
	}
	if !slices.Equal(offered, []string{"retry", "done", "skip", "compensate"}) || !strings.HasSuffix(r.out, "# takes back what was done\n") {
		t.Errorf("offered %q:\n%s", offered, decisions)
	}
	if strings.Contains(r.out, "\x1b") {
		t.Error("an escape sequence of the stored error reaches the terminal")
	}
	r = s.pawl(t, "events", "show", "evt_none", "--json")
	if r.code != 1 || r.out != "" || !strings.Contains(r.err, `no event "evt_none"`) {
		t.Errorf("unknown: exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
}

// A list that ends at its limit says so, and one that is whole does not.
func TestLists_MoreThanTheLimit_IsSaid(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	if r := s.pawl(t, "migrate"); r.code != 0 {
		t.Fatal(r.err)
	}
	conn := connect(t, dsn)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, received_at, body_hash, status)
			select gen_random_uuid(), 'stripe', 'stripe', 'live', 'evt_' || n, 'id', now(), '\x01', 'processed' from generate_series(1, 3) as n`,
		`insert into rejections (id, source, received_at, class, headers, body)
			select gen_random_uuid(), 'stripe', now(), 'missing_header', '{}', '' from generate_series(1, 3) as n`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range []string{"events", "rejections"} {
		for limit, want := range map[string]int{"2": 2, "3": 3, "9223372036854775807": 3} {
			r := s.pawl(t, what, "list", "--json", "--limit", limit)
			if got := len(decode[[]json.RawMessage](t, r)); got != want || strings.Contains(r.err, "there are more than these 2") != (limit == "2") {
				t.Errorf("%s list --limit %s: %d and %q, want %d", what, limit, got, r.err, want)
			}
		}
	}
}

func TestEffectNote_SaysWhatTheStateLeavesOpen(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]timeline.Effect{
		"already done by evt_1":        {State: "done", SatisfiedBy: "evt_1"},
		"451 later; by evt_1":          {State: "failed", LastError: "451 later", SatisfiedBy: "evt_1"},
		"reversed by ada":              {State: "skipped", LastError: "reversed by ada"},
		"by evt_1":                     {State: "compensated", SatisfiedBy: "evt_1"},
		"no answer: may have happened": {State: "uncertain", LastError: "no answer: may have happened", MayHaveHappened: true},
		"skipped by ada; it may have happened: an attempt was not answered": {State: "skipped", LastError: "skipped by ada", MayHaveHappened: true},
	} {
		if got := effectNote(f); got != want {
			t.Errorf("note of %+v is %q, want %q", f, got, want)
		}
	}
}

func TestTimelineRows_AStormIsOneRow(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	entries := []timeline.Entry{{At: at, What: "delivered", Detail: "to stripe"}}
	for i := range 200 {
		entries = append(entries, timeline.Entry{At: at.Add(time.Duration(i) * time.Millisecond), What: "duplicate", Detail: "to stripe"})
	}
	entries = append(entries, timeline.Entry{At: at.Add(time.Second), What: "duplicate", Detail: "to stripe, other bytes"})
	got := timelineRows(entries)
	if len(got) != 4 || got[1][2] != "to stripe" || got[2][2] != "to stripe (200 times, until 2026-03-01 10:00:00.199)" || got[3][2] != "to stripe, other bytes" {
		t.Errorf("rows %q", got)
	}
}

func TestTimelineRows_ARelayNamesItsConsumer(t *testing.T) {
	t.Parallel()
	got := timelineRows([]timeline.Entry{
		{What: "effect-failed", Detail: "relay", Key: "relay:zoom:live:acc:evt_1:crm", Error: "127.0.0.1:9000 answered 503"},
		{What: "effect-done", Detail: "relay, generation 2", Key: "relay:zoom:live:acc:evt_1:books"},
		{What: "run-closed", Detail: "processed"},
	})
	for i, want := range []string{"relay to crm: 127.0.0.1:9000 answered 503", "relay to books, generation 2", "processed"} {
		if got[i+1][2] != want {
			t.Errorf("row %d: %q, want %q", i+1, got[i+1][2], want)
		}
	}
}

func TestEvents_DatabaseDown_OneSentence(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://pawl:hush@127.0.0.1:1/none?connect_timeout=2", map[string]string{"stripe": "stripe"})
	r := s.pawl(t, "events", "list")
	if r.code != 1 || strings.Contains(r.err, "hush") || strings.Contains(r.err, "Usage") {
		t.Errorf("exit %d, stderr %q; want exit 1 without password or usage", r.code, r.err)
	}
}

func TestEvents_OfAnObjectOrAnAccount(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := connect(t, dsn)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status) values
			('00000000-0000-0000-0000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'processed'),
			('00000000-0000-0000-0000-000000000002', 'stripe', 'stripe', 'live', 'evt_2', 'id', 'invoice.payment_succeeded', now(), '\x01', 'processed'),
			('00000000-0000-0000-0000-000000000003', 'stripe', 'stripe', 'live', 'evt_3', 'id', 'invoice.paid', now(), '\x01', 'processed')`,
		`insert into facts (provider, mode, kind, object, event_id, receipt_id, occurred_at, rank, origin, data) values
			('stripe', 'live', 'invoice_seen', 'in_1', 'evt_1', '00000000-0000-0000-0000-000000000001', now(), 3, 'event', '{}'),
			('stripe', 'live', 'invoice_seen', 'in_1', 'evt_2', '00000000-0000-0000-0000-000000000002', now(), 3, 'event', '{}'),
			('stripe', 'live', 'invoice_seen', 'in_3', 'evt_3', '00000000-0000-0000-0000-000000000003', now(), 3, 'event', '{}')`,
		`insert into accounts (mode, id, provider) values ('live', 'acme', 'stripe')`,
		`insert into invoices (mode, id, account, status, amount, currency, period_start, occurred_at, receipt_id, state)
			values ('live', 'in_3', 'acme', 'paid', 1, 'usd', now(), now(), gen_random_uuid(), '{}')`,
		`insert into effects (key, kind, state, receipt_id, event_id, workflow_id, run_id, lease_until)
			values ('receipt-email:stripe:live:in_1', 'receipt-email', 'done', '00000000-0000-0000-0000-000000000001', 'evt_1', 'w', 'r', now())`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	several := decode[struct {
		Object string
		Events []timeline.Receipt
	}](t, s.pawl(t, "events", "show", "in_1", "--json"))
	if several.Object != "in_1" || len(several.Events) != 2 {
		t.Errorf("of in_1: %+v, want its two events", several)
	}
	if r := s.pawl(t, "events", "show", "in_1"); r.code != 0 || !strings.Contains(r.out, "evt_1") || !strings.Contains(r.out, "evt_2") {
		t.Errorf("of in_1: exit %d, %s%s", r.code, r.out, r.err)
	}
	for id, event := range map[string]string{"in_3": "evt_3", "receipt-email:stripe:live:in_1": "evt_1"} {
		if got := decode[timeline.Event](t, s.pawl(t, "events", "show", id, "--json")); got.Receipt.EventID != event {
			t.Errorf("show %s is of %q, want %s", id, got.Receipt.EventID, event)
		}
	}
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"--object", "in_1"}, 2},
		{[]string{"--object", "in_none"}, 0},
		{[]string{"--account", "acme"}, 1},
		{[]string{"--account", "acme", "--object", "in_1"}, 0},
		{[]string{"--account", "acme", "--type", "invoice.paid", "--since", "1970-01-01"}, 1},
		{[]string{"--older-than", "00000000-0000-0000-0000-000000000002"}, 1},
	} {
		if got := decode[[]timeline.Receipt](t, s.pawl(t, append([]string{"events", "list", "--json"}, tt.args...)...)); len(got) != tt.want {
			t.Errorf("%v: %d events, want %d", tt.args, len(got), tt.want)
		}
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--account", "nobody"}, exitFailed, `no account "nobody"`},
		{[]string{"--since", "yesterday"}, exitUsage, "as 90m or 7d"},
		{[]string{"--older-than", "evt_1"}, exitUsage, "the ID of a receipt"},
		{[]string{"--limit", "1"}, 0, "--older-than 00000000-0000-0000-0000-000000000003"},
	} {
		r := s.pawl(t, append([]string{"events", "list"}, tt.args...)...)
		if r.code != tt.code || !strings.Contains(r.err, tt.says) {
			t.Errorf("%v: exit %d, %q; want %d and %q", tt.args, r.code, r.err, tt.code, tt.says)
		}
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"90m": now.Add(-90 * time.Minute), "7d": now.AddDate(0, 0, -7), "2026-11-20": time.Date(2026, 11, 20, 0, 0, 0, 0, time.Local),
		"2026-11-20T08:00:00Z": time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC),
	} {
		if got, err := moment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("moment(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1h", "-3d", "d", "1 d", "22.11.2026"} {
		if got, err := moment(text, now); err == nil {
			t.Errorf("moment(%q) = %v, want an error", text, got)
		}
	}
}
