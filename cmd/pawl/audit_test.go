package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/audit"
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
		values (gen_random_uuid(), 's', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'ignored', '', '')`); err != nil {
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

func TestAuditList(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	if r := s.pawl(t, "audit", "list", "--json"); strings.TrimSpace(r.out) != "[]" {
		t.Errorf("nothing done: %q%s", r.out, r.err)
	}
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
		select gen_random_uuid(), 's', 'stripe', 'live', 'evt_' || n, 'id', 'invoice.paid', now(), '\x01', 'ignored' from generate_series(1, 3) n`); err != nil {
		t.Fatal(err)
	}
	var last result
	for _, id := range []string{"evt_1", "evt_2", "evt_3"} {
		if last = s.pawl(t, "events", "run", id, "--why", "wanted", "--who", "ada"); last.code != 0 {
			t.Fatal(last.err)
		}
	}
	all := decode[[]audit.Row](t, s.pawl(t, "audit", "list", "--json"))
	if len(all) != 3 || all[0].Target != "evt_3" || !strings.HasSuffix(all[0].Actor, " ada") || all[0].Action != "run" || all[0].Reason != "wanted" {
		t.Errorf("all: %+v", all)
	}
	// Who does something is told the head after it, in the log.
	if !strings.Contains(last.err, "msg=audit") || !strings.Contains(last.err, all[0].Hash) || strings.Contains(last.err, "wanted") {
		t.Errorf("logged %q, want the head %s and no reason", last.err, all[0].Hash)
	}
	if one := decode[[]audit.Row](t, s.pawl(t, "audit", "list", "--target", "evt_2", "--action", "run", "--since", "1h", "--json")); len(one) != 1 || one[0].Target != "evt_2" {
		t.Errorf("of evt_2: %+v", one)
	}
	if r := s.pawl(t, "audit", "list", "--actor", "bob"); strings.Contains(r.out, "ada") || r.code != 0 {
		t.Errorf("of bob: exit %d, %s", r.code, r.out)
	}
	r := s.pawl(t, "audit", "list", "--limit", "2")
	if !strings.Contains(r.err, fmt.Sprintf("--older-than %d", all[1].ID)) || strings.Contains(r.out, "evt_1") {
		t.Errorf("two of three: %s%s", r.out, r.err)
	}
	if rest := decode[[]audit.Row](t, s.pawl(t, "audit", "list", "--json", "--older-than", fmt.Sprint(all[1].ID))); len(rest) != 1 || rest[0].Target != "evt_1" {
		t.Errorf("the rest: %+v", rest)
	}
}
