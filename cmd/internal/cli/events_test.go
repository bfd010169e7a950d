package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

func TestEvents_ListAndShow(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := commandtest.Connect(t, dsn)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, workflow_id, last_error, waits) values
			('00000000-0000-0000-0000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'dead', 'stripe:evt_1', E'451 \x1b[31mred',
			'{"decisions":["skip","retry","done","compensate"],"effects":[{"key":"receipt-email:stripe:live:in_1","kind":"receipt-email","state":"failed","by_hand":true}]}')`,
		`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until, error)
			values ('receipt-email:stripe:live:in_1', 'receipt-email', 'failed', '00000000-0000-0000-0000-000000000001', 'evt_1', 'run', now(), '451 later')`,
		`insert into event_subjects (receipt_id, object, main, account, customer, amount, currency) values
			('00000000-0000-0000-0000-000000000001', 'cus_1', false, 'other', 'cus_1', null, null),
			('00000000-0000-0000-0000-000000000001', 'in_1', true, 'acme', 'cus_1', 49900, 'usd')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}

	r := s.Pawl(t, "events", "list", "--status", "dead", "--json")
	if got := commandtest.Decode[[]timeline.Receipt](t, r); len(got) != 1 || got[0].EventID != "evt_1" {
		t.Errorf("list = %+v, want evt_1", got)
	}
	if r := s.Pawl(t, "events", "list", "--status", "processed", "--json"); strings.TrimSpace(r.Out) != "[]" {
		t.Errorf("empty list = %q, want []", r.Out)
	}
	if r := s.Pawl(t, "events", "list"); !strings.Contains(r.Out, "acme  ") || !strings.Contains(r.Out, "499.00 USD  evt_1") || !strings.HasPrefix(r.Out, "RECEIVED") {
		t.Errorf("table = %q", r.Out)
	}
	event := commandtest.Decode[timeline.Event](t, s.Pawl(t, "events", "show", "stripe:evt_1", "--json"))
	if len(event.Effects) != 1 || event.Effects[0].LastError != "451 later" || event.Receipt.Status != "dead" {
		t.Errorf("event = %+v", event)
	}
	r = s.Pawl(t, "events", "show", "evt_1")
	for _, want := range []string{"evt_1  invoice.paid", "receipt-email", "451 later", "TIME", "received"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("screen does not show %q:\n%s", want, r.Out)
		}
	}
	if !strings.Contains(r.Out, "acme, 499.00 USD") {
		t.Errorf("screen does not show the account and the amount:\n%s", r.Out)
	}
	// The output ends with the possible actions, as valid commands.
	_, decisions, _ := strings.Cut(r.Out, "You can run one of these")
	var offered []string
	for _, line := range strings.Split(decisions, "\n") {
		args, ours := commandtest.Arguments(line)
		if !ours {
			continue
		}
		if err := commandtest.Understood(program(), args); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if !slices.Contains(args, s.File) {
			t.Errorf("%s: it does not name the configuration", line)
		}
		offered = append(offered, args[slices.Index(args, "events")+1])
	}
	if !slices.Equal(offered, []string{"retry", "mark-done", "skip", "compensate"}) || !strings.HasSuffix(r.Out, "# takes back the steps that are done\n") {
		t.Errorf("offered %q:\n%s", offered, decisions)
	}
	if strings.Contains(r.Out, "\x1b") {
		t.Error("an escape sequence of the stored error reaches the terminal")
	}
	r = s.Pawl(t, "events", "show", "evt_none", "--json")
	if r.Code != 1 || r.Out != "" || !strings.Contains(r.Err, `no event "evt_none"`) {
		t.Errorf("unknown: exit %d, stdout %q, stderr %q", r.Code, r.Out, r.Err)
	}
}

// If a list was cut at its limit, the output reports that; a complete list is printed without such a note.
func TestLists_MoreThanTheLimit_IsSaid(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := commandtest.Connect(t, dsn)
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
			r := s.Pawl(t, what, "list", "--json", "--limit", limit)
			if got := len(commandtest.Decode[[]json.RawMessage](t, r)); got != want || strings.Contains(r.Err, "there are more than these 2") != (limit == "2") {
				t.Errorf("%s list --limit %s: %d and %q, want %d", what, limit, got, r.Err, want)
			}
		}
	}
}

func TestEffectNote_SaysWhatTheStateLeavesOpen(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]timeline.Effect{
		"already done by evt_1":        {State: "done", SatisfiedBy: "evt_1"},
		"451 later; by evt_1":          {State: "failed", LastError: "451 later", SatisfiedBy: "evt_1"},
		"Reversed by ada":              {State: "skipped", LastError: "reversed by ada"},
		"by evt_1":                     {State: "compensated", SatisfiedBy: "evt_1"},
		"No answer: may have happened": {State: "uncertain", LastError: "no answer: may have happened", MayHaveHappened: true},
		"Skipped by ada; it may have happened: an attempt was not answered": {State: "skipped", LastError: "skipped by ada", MayHaveHappened: true},
	} {
		if got := tables.EffectNote(f); got != want {
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
	got := tables.Timeline(entries)
	if len(got) != 4 || got[1][2] != "to stripe" || got[2][2] != "to stripe (200 times, until "+output.Time(at.Add(199*time.Millisecond))+")" || got[3][2] != "to stripe, other bytes" {
		t.Errorf("rows %q", got)
	}
}

func TestTimelineRows_ARelayNamesItsDestination(t *testing.T) {
	t.Parallel()
	got := tables.Timeline([]timeline.Entry{
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
	r := s.Pawl(t, "events", "list")
	if r.Code != 1 || strings.Contains(r.Err, "hush") || strings.Contains(r.Err, "Usage") {
		t.Errorf("exit %d, stderr %q; want exit 1 without password or usage", r.Code, r.Err)
	}
}

func TestEvents_OfAnObjectOrAnAccount(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := commandtest.Connect(t, dsn)
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status) values
			('00000000-0000-0000-0000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'processed'),
			('00000000-0000-0000-0000-000000000002', 'stripe', 'stripe', 'live', 'evt_2', 'id', 'invoice.payment_succeeded', now(), '\x01', 'processed'),
			('00000000-0000-0000-0000-000000000003', 'stripe', 'stripe', 'live', 'evt_3', 'id', 'invoice.paid', now(), '\x01', 'processed')`,
		`insert into event_subjects (receipt_id, object, main, account) values
			('00000000-0000-0000-0000-000000000001', 'in_1', true, ''), ('00000000-0000-0000-0000-000000000002', 'in_1', true, ''),
			('00000000-0000-0000-0000-000000000003', 'in_3', true, 'acme')`,
		`insert into accounts (mode, id, provider) values ('live', 'acme', 'stripe')`,
		`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until)
			values ('receipt-email:stripe:live:in_1', 'receipt-email', 'done', '00000000-0000-0000-0000-000000000001', 'evt_1', 'r', now())`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	several := commandtest.Decode[struct {
		Object string
		Events []timeline.Receipt
	}](t, s.Pawl(t, "events", "show", "in_1", "--json"))
	if several.Object != "in_1" || len(several.Events) != 2 {
		t.Errorf("of in_1: %+v, want its two events", several)
	}
	if r := s.Pawl(t, "events", "show", "in_1"); r.Code != 0 || !strings.Contains(r.Out, "evt_1") || !strings.Contains(r.Out, "evt_2") {
		t.Errorf("of in_1: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	for id, event := range map[string]string{"in_3": "evt_3", "receipt-email:stripe:live:in_1": "evt_1"} {
		if got := commandtest.Decode[timeline.Event](t, s.Pawl(t, "events", "show", id, "--json")); got.Receipt.EventID != event {
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
		{[]string{"--cursor", "00000000-0000-0000-0000-000000000002"}, 1},
	} {
		if got := commandtest.Decode[[]timeline.Receipt](t, s.Pawl(t, append([]string{"events", "list", "--json"}, tt.args...)...)); len(got) != tt.want {
			t.Errorf("%v: %d events, want %d", tt.args, len(got), tt.want)
		}
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--account", "nobody"}, command.ExitFailed, `no account "nobody"`},
		{[]string{"--since", "yesterday"}, command.ExitUsage, "as 90m or 7d"},
		{[]string{"--cursor", "evt_1"}, command.ExitUsage, "cursor: use the next of a page"},
		{[]string{"--limit", "1"}, 0, "--cursor 00000000-0000-0000-0000-000000000003"},
	} {
		r := s.Pawl(t, append([]string{"events", "list"}, tt.args...)...)
		if r.Code != tt.code || !strings.Contains(r.Err, tt.says) {
			t.Errorf("%v: exit %d, %q; want %d and %q", tt.args, r.Code, r.Err, tt.code, tt.says)
		}
	}
}

// The next automatic step is printed once, whether it is a retry in Temporal or a scheduled action.
func TestReceivedRows_Next_SaidOnce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	key := "finance-export:stripe:test:in_1"
	due := timeline.Due{At: at, Kind: "settle", Object: "sub_1"}
	for name, next := range map[string]event.Next{
		"a try":     {At: &at, Message: key + " is tried again, attempt 4", Tries: []event.Try{{Key: key, Attempt: 4, At: &at}}},
		"the clock": {At: &at, Message: due.String(), Due: []timeline.Due{due}},
	} {
		rows := fmt.Sprint(tables.Received(evidenceOf(next)))
		if n := strings.Count(rows, output.Time(at)); n != 1 {
			t.Errorf("%s: its time is printed %d times: %s", name, n, rows)
		}
	}
}

// A failed effect that will be retried is not printed as permanently failed.
func TestUndoneRows_TriedAgain_NotFailed(t *testing.T) {
	t.Parallel()
	e := evidenceOf(event.Next{Tries: []event.Try{{Key: "finance-export:1"}}})
	e.Effects = []timeline.Effect{{Key: "finance-export:1", Kind: "finance-export", State: "failed"}, {Key: "receipt-email:1", Kind: "receipt-email", State: "failed"}}
	rows := tables.Undone(e)
	if output.Text(rows[1][1]) != "tried again" || output.Text(rows[2][1]) != "failed" {
		t.Errorf("rows %v", rows)
	}
}

func TestHeadOf_Reason_SaidOnce(t *testing.T) {
	t.Parallel()
	e := evidenceOf(event.Next{})
	e.Receipt.Status, e.Receipt.Reason = "compensated", "compensated: provision-workspace was refused"
	if got := tables.EventHead(e, "")[1][1]; got != "compensated: provision-workspace was refused" {
		t.Errorf("status %q", got)
	}
	// An error that is part of the reason is not printed twice.
	e.Receipt.LastError = "start stripe:evt_1: " + e.Receipt.Reason
	if rows := fmt.Sprint(tables.EventHead(e, "")); strings.Contains(rows, "last error") {
		t.Errorf("%s", rows)
	}
	e.Receipt.LastError = "the database is away"
	if rows := fmt.Sprint(tables.EventHead(e, "")); !strings.Contains(rows, "the database is away") {
		t.Errorf("%s", rows)
	}
}

func evidenceOf(next event.Next) *event.Evidence {
	e := &event.Evidence{Next: next}
	e.Receipt.ReceivedAt = time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC)
	e.Deliveries = []timeline.Delivery{{ReceivedAt: e.Receipt.ReceivedAt, Source: "billing"}}
	return e
}

func TestEventsBody(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	conn := commandtest.Connect(t, dsn)
	big := `{"id":"evt_big","type":"invoice.paid","list":["` + strings.Repeat(`in_123","`, 20_000) + `in_9"]}`
	for event, body := range map[string]any{
		"evt_1":   `{"id":"evt_1","type":"invoice.paid","data":{"object":{"id":"in_1","amount_paid":49900,"customer_email":"ada@example.com"}}}`,
		"evt_big": big, "evt_xml": "<name>Ada</name>", "evt_bytes": "\xff\x00\x9b31m", "evt_erased": nil,
	} {
		if _, err := conn.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
			values (md5($1)::uuid, 'billing', 'stripe', 'live', $1, 'id', 'invoice.paid', now(), '\x01', 'processed')`, event); err != nil {
			t.Fatal(err)
		}
		text, kept := body.(string)
		if !kept {
			continue
		}
		if _, err := conn.Exec(t.Context(), `insert into receipt_bodies (receipt_id, headers, body) values (md5($1)::uuid, $2, $3)`, event,
			`{"Content-Type":["application/json"],"Stripe-Signature":["t=1,v1=hush"],"X-Forwarded-For":["192.0.2.1"]}`, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	masked := s.Pawl(t, "events", "payload", "evt_1")
	for _, want := range []string{`"amount_paid": 49900`, `"id": "in_1"`, `"customer_email": "(15 characters)"`, "masked", "application/json"} {
		if masked.Code != 0 || !strings.Contains(masked.Out, want) {
			t.Errorf("exit %d, the masked body does not have %s:\n%s%s", masked.Code, want, masked.Out, masked.Err)
		}
	}
	for _, not := range []string{"ada@example.com", "hush", "192.0.2.1"} {
		if strings.Contains(masked.Out, not) {
			t.Errorf("the masked body has %s:\n%s", not, masked.Out)
		}
	}
	var recorded int
	count := func() int {
		t.Helper()
		if err := conn.QueryRow(t.Context(), `select count(*) from operator_actions where action = 'reveal' and actor like '% ada' and target = 'evt_1' and reason = 'the customer asks'`).Scan(&recorded); err != nil {
			t.Fatal(err)
		}
		return recorded
	}
	if r := s.Pawl(t, "events", "payload", "evt_1", "--reveal"); r.Code != command.ExitUsage || count() != 0 {
		t.Errorf("revealed without a reason: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	whole := s.Pawl(t, "events", "payload", "evt_1", "--reveal", "--reason", "the customer asks", "--as", "ada")
	if whole.Code != 0 || !strings.Contains(whole.Out, "ada@example.com") || !strings.Contains(whole.Out, "192.0.2.1") || strings.Contains(whole.Out, "hush") || count() != 1 {
		t.Errorf("revealed: exit %d, %d times in the audit trail\n%s%s", whole.Code, recorded, whole.Out, whole.Err)
	}
	if got := commandtest.Decode[struct {
		Revealed bool
		Body     struct{ ID string }
	}](t, s.Pawl(t, "events", "payload", "evt_1", "--json")); got.Revealed || got.Body.ID != "evt_1" {
		t.Errorf("as JSON: %+v", got)
	}
	for id, want := range map[string]string{"evt_erased": "the payload of evt_erased was deleted", "evt_xml": "cannot be masked: --reveal", "evt_none": `no event "evt_none"`} {
		if r := s.Pawl(t, "events", "payload", id); r.Code != command.ExitFailed || !strings.Contains(r.Err, want) || strings.Contains(r.Out, "Ada") {
			t.Errorf("%s: exit %d, %s%s; want %q", id, r.Code, r.Out, r.Err, want)
		}
	}
	if r := s.Pawl(t, "events", "payload", "evt_bytes", "--reveal", "--reason", "x"); !strings.Contains(r.Out, "not text") || strings.Contains(r.Out, "\x9b") {
		t.Errorf("bytes:\n%q%s", r.Out, r.Err)
	}

	// A long payload is truncated on the screen. A file contains all of it, only its owner can read it, and it is
	// never overwritten.
	if r := s.Pawl(t, "events", "payload", "evt_big"); len(r.Out) > shownPayload+2000 || !strings.Contains(r.Err, "use --out FILE") {
		t.Errorf("a screen of %d bytes, %s", len(r.Out), r.Err)
	}
	file := filepath.Join(t.TempDir(), "body.json")
	if r := s.Pawl(t, "events", "payload", "evt_big", "--out", file); r.Code != 0 || !strings.Contains(r.Out, "masked body of evt_big") {
		t.Errorf("to a file: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v, %v", info, err)
	}
	if content := commandtest.Read(t, file); !json.Valid([]byte(content)) || len(content) < len(big) || !strings.Contains(content, `"in_9"`) {
		t.Errorf("the file has %d bytes", len(content))
	}
	if r := s.Pawl(t, "events", "payload", "evt_1", "--out", file); r.Code != command.ExitFailed || !strings.Contains(r.Err, "exists: choose another file") {
		t.Errorf("to a file that is there: exit %d, %s", r.Code, r.Err)
	}
}
