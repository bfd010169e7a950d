package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/schematest"
)

func TestEventsBody(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	conn := connect(t, dsn)
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
	masked := s.pawl(t, "events", "body", "evt_1")
	for _, want := range []string{`"amount_paid": 49900`, `"id": "in_1"`, `"customer_email": "(15 characters)"`, "masked", "application/json"} {
		if masked.code != 0 || !strings.Contains(masked.out, want) {
			t.Errorf("exit %d, the masked body does not have %s:\n%s%s", masked.code, want, masked.out, masked.err)
		}
	}
	for _, not := range []string{"ada@example.com", "hush", "192.0.2.1"} {
		if strings.Contains(masked.out, not) {
			t.Errorf("the masked body has %s:\n%s", not, masked.out)
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
	if r := s.pawl(t, "events", "body", "evt_1", "--reveal"); r.code != exitUsage || count() != 0 {
		t.Errorf("revealed without a reason: exit %d, %s%s", r.code, r.out, r.err)
	}
	whole := s.pawl(t, "events", "body", "evt_1", "--reveal", "--why", "the customer asks", "--who", "ada")
	if whole.code != 0 || !strings.Contains(whole.out, "ada@example.com") || !strings.Contains(whole.out, "192.0.2.1") || strings.Contains(whole.out, "hush") || count() != 1 {
		t.Errorf("revealed: exit %d, %d times in the audit trail\n%s%s", whole.code, recorded, whole.out, whole.err)
	}
	if got := decode[struct {
		Revealed bool
		Body     struct{ ID string }
	}](t, s.pawl(t, "events", "body", "evt_1", "--json")); got.Revealed || got.Body.ID != "evt_1" {
		t.Errorf("as JSON: %+v", got)
	}
	for id, want := range map[string]string{"evt_erased": "the body of evt_erased is erased", "evt_xml": "cannot be masked: --reveal", "evt_none": `no event "evt_none"`} {
		if r := s.pawl(t, "events", "body", id); r.code != exitFailed || !strings.Contains(r.err, want) || strings.Contains(r.out, "Ada") {
			t.Errorf("%s: exit %d, %s%s; want %q", id, r.code, r.out, r.err, want)
		}
	}
	if r := s.pawl(t, "events", "body", "evt_bytes", "--reveal", "--why", "x"); !strings.Contains(r.out, "not text") || strings.Contains(r.out, "\x9b") {
		t.Errorf("bytes:\n%q%s", r.out, r.err)
	}

	// A long one is cut on the screen, and whole in a file that only its owner reads and that nothing overwrites.
	if r := s.pawl(t, "events", "body", "evt_big"); len(r.out) > shownPayload+2000 || !strings.Contains(r.err, "--out FILE has all") {
		t.Errorf("a screen of %d bytes, %s", len(r.out), r.err)
	}
	file := filepath.Join(t.TempDir(), "body.json")
	if r := s.pawl(t, "events", "body", "evt_big", "--out", file); r.code != 0 || !strings.Contains(r.out, "masked body of evt_big") {
		t.Errorf("to a file: exit %d, %s%s", r.code, r.out, r.err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v, %v", info, err)
	}
	if content := read(t, file); !json.Valid([]byte(content)) || len(content) < len(big) || !strings.Contains(content, `"in_9"`) {
		t.Errorf("the file has %d bytes", len(content))
	}
	if r := s.pawl(t, "events", "body", "evt_1", "--out", file); r.code != exitFailed || !strings.Contains(r.err, "is there already") {
		t.Errorf("to a file that is there: exit %d, %s", r.code, r.err)
	}
}
