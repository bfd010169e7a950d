package main

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

func TestEventsRun(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id)
		select gen_random_uuid(), 's', 'stripe', 'live', id, 'id', 'x', now(), '\x01', status, reason, workflow
		  from (values ('evt_mode~s', 'ignored', 'mode_not_wanted: a live event on a test source', ''), ('evt_account~s', 'ignored', 'account_not_wanted: "acct_2"', ''),
		               ('evt_ignored', 'ignored', 'type_not_wanted: "x"', ''), ('evt_replay', 'needs_review', 'suspected_replay: same bytes as d-1', ''),
		               ('evt_restored', 'needs_review', 'another_run: of a receipt that is gone', 'stripe:evt_restored'),
		               ('evt_ended', 'needs_review', 'run_ended: the run was ended from outside (Terminated)', 'stripe:evt_ended'),
		               ('evt_parked', 'needs_review', 'unreadable_payload', 'stripe:evt_parked'), ('evt_done', 'processed', '', '')) as v(id, status, reason, workflow)`); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"evt_ignored", "evt_replay", "evt_ended"} {
		if r := s.pawl(t, "events", "run", id); r.code != 2 || !strings.Contains(r.err, "why") {
			t.Errorf("%s without a reason: exit %d, %s", id, r.code, r.err)
		}
		got := decode[timeline.Receipt](t, s.pawl(t, "events", "run", id, "--reason", "wanted after all", "--who", "ada", "--json"))
		if got.Status != "received" || got.Reason != "" {
			t.Errorf("%s: %+v", id, got)
		}
		var due bool
		var status string
		if err := conn.QueryRow(t.Context(), `select status, dispatch_at <= now() from receipts where event_id = $1`, id).Scan(&status, &due); err != nil || status != "received" || !due {
			t.Errorf("%s is %s, due %t, %v; want received and due at once", id, status, due, err)
		}
	}
	restored := decode[timeline.Receipt](t, s.pawl(t, "events", "run", "evt_restored", "--why", "the mail was not sent", "--who", "ada", "--json"))
	var anew string
	if err := conn.QueryRow(t.Context(), `select workflow_id from receipts where event_id = 'evt_restored' and status = 'received'`).Scan(&anew); err != nil || anew != "stripe:evt_restored:"+restored.ID {
		t.Errorf("evt_restored is to run as %q (%v), want an ID of its own", anew, err)
	}
	for id, says := range map[string]string{"evt_mode~s": "may not speak for it", "evt_account": "may not speak for it", "evt_parked": "has a run", "evt_done": "only an event that is ignored", "evt_ignored": "only an event that is ignored", "evt_none": "no event"} {
		if r := s.pawl(t, "events", "run", id, "--why", "x"); r.code != 1 || !strings.Contains(r.err, says) {
			t.Errorf("%s: exit %d, %s; want it to say %q", id, r.code, r.err, says)
		}
	}
	var actions int
	if err := conn.QueryRow(t.Context(), `select count(*) from operator_actions where action = 'run' and actor = 'ada' and before->>'status' in ('ignored', 'needs_review')`).Scan(&actions); err != nil || actions != 4 {
		t.Errorf("%d audited actions, %v; want 4", actions, err)
	}
	if got := decode[[]timeline.Receipt](t, s.pawl(t, "events", "list", "--status", "ignored", "--json")); len(got) != 2 {
		t.Errorf("still ignored: %+v, want what may not run", got)
	}
}
