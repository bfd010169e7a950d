package main

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/schematest"
)

func TestAuditVerify(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	if r := s.pawl(t, "audit", "verify"); r.code != 0 || !strings.Contains(r.out, "nobody") {
		t.Errorf("nothing done: exit %d, %s%s", r.code, r.out, r.err)
	}
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id)
		values (gen_random_uuid(), 's', 'stripe', 'live', 'evt_1', 'id', 'x', now(), '\x01', 'ignored', '', '')`); err != nil {
		t.Fatal(err)
	}
	if r := s.pawl(t, "events", "run", "evt_1", "--why", "wanted"); r.code != 0 {
		t.Fatal(r.err)
	}
	good := decode[auditReport](t, s.pawl(t, "audit", "verify", "--json"))
	if !good.Intact || good.Actions != 1 || good.Head == "" {
		t.Errorf("report %+v", good)
	}
	if r := s.pawl(t, "audit", "verify", "--head", good.Head); r.code != 0 || !strings.Contains(r.out, good.Head) {
		t.Errorf("with its head: exit %d, %s%s", r.code, r.out, r.err)
	}
	if r := s.pawl(t, "audit", "verify", "--head", strings.Repeat("0", 64)); r.code != 1 || !strings.Contains(r.out, "none of its 1 rows") {
		t.Errorf("with another's head: exit %d, %s%s", r.code, r.out, r.err)
	}
	if _, err := conn.Exec(t.Context(), `update operator_actions set actor = 'eve'`); err != nil {
		t.Fatal(err)
	}
	r := s.pawl(t, "audit", "verify", "--json")
	if bad := decode[auditReport](t, r); r.code != 1 || bad.Intact || !strings.Contains(bad.Problem, "row 1 (run by eve)") {
		t.Errorf("tampered with: exit %d, %+v", r.code, bad)
	}
}
