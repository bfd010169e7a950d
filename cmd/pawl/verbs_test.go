package main

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

// answerOf is an answer with its result.
type answerOf[T any] struct {
	operator.Answer
	Result T `json:"result"`
}

func TestEvents_RunApproveReject(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id)
		select gen_random_uuid(), 's', 'stripe', 'live', id, 'id', case when id = 'evt_price' then 'price.created' else 'invoice.paid' end, now(), '\x01', status, reason, workflow
		  from (values ('evt_mode~s', 'ignored', 'mode_not_wanted: a live event on a test source', ''), ('evt_account~s', 'ignored', 'account_not_wanted: "acct_2"', ''),
		               ('evt_ignored', 'ignored', 'type_not_wanted: "x"', ''), ('evt_price', 'ignored', 'type_not_wanted: "price.created"', ''), ('evt_collides', 'needs_review', 'id_collision: x', ''), ('evt_replay', 'needs_review', 'suspected_replay: same bytes as d-1', ''),
		               ('evt_restored', 'needs_review', 'another_run: of a receipt that is gone', 'stripe:evt_restored'),
		               ('evt_ended', 'needs_review', 'run_ended: the run was ended from outside (Terminated)', 'stripe:evt_ended'),
		               ('evt_parked', 'needs_review', 'unreadable_payload', 'stripe:evt_parked'), ('evt_done', 'processed', '', '')) as v(id, status, reason, workflow)`); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"evt_ignored", "evt_replay"} {
		if r := s.pawl(t, "events", "run", id); r.code != 2 || !strings.Contains(r.err, "why") {
			t.Errorf("%s without a reason: exit %d, %s", id, r.code, r.err)
		}
		got := decode[answerOf[operator.EventResult]](t, s.pawl(t, "events", "run", id, "--why", "wanted after all", "--who", "ada", "--json"))
		if got.Result.EventID != id || got.Repeated || !strings.Contains(got.Says, "will be run") {
			t.Errorf("%s: %+v", id, got)
		}
		var due bool
		var status string
		if err := conn.QueryRow(t.Context(), `select status, dispatch_at <= now() from receipts where event_id = $1`, id).Scan(&status, &due); err != nil || status != "received" || !due {
			t.Errorf("%s is %s, due %t, %v; want received and due at once", id, status, due, err)
		}
		// The answer was lost, and the command comes again.
		again := decode[answerOf[operator.EventResult]](t, s.pawl(t, "events", "run", id, "--why", "wanted after all", "--request-id", got.Request, "--json"))
		if !again.Repeated || again.Result.Receipt != got.Result.Receipt || !strings.Contains(again.Says, "is received now") {
			t.Errorf("%s once more: %+v", id, again)
		}
	}
	restored := decode[answerOf[operator.EventResult]](t, s.pawl(t, "events", "approve", "evt_restored", "--why", "the mail was not sent", "--who", "ada", "--json"))
	var anew string
	if err := conn.QueryRow(t.Context(), `select workflow_id from receipts where event_id = 'evt_restored' and status = 'received'`).Scan(&anew); err != nil || anew != "stripe:evt_restored:"+restored.Result.Receipt {
		t.Errorf("evt_restored is to run as %q (%v), want an ID of its own", anew, err)
	}
	r := s.pawl(t, "events", "reject", "evt_collides", "--why", "a test of theirs", "--who", "ada")
	var reason string
	if err := conn.QueryRow(t.Context(), `select reason from receipts where event_id = 'evt_collides' and status = 'ignored'`).Scan(&reason); err != nil || !strings.HasPrefix(reason, "dismissed: rejected by uid:") ||
		!strings.Contains(r.err, "its ID is held by an event of another type") || !strings.Contains(r.err, "reject: it leaves it") {
		t.Errorf("rejected as %q (%v), and said %q first", reason, err, r.err)
	}
	for id, says := range map[string]string{
		"evt_mode~s": "may not speak for it", "evt_account": "may not speak for it", "evt_parked": "events retry evt_parked", "evt_done": "events replay evt_done",
		"evt_ended": "events replay evt_ended", "evt_ignored": " doctor  # it waits for its start", "evt_none": "no event", "evt_price": "what a price means is said by plans.prices), and source s relays to nobody",
	} {
		if r := s.pawl(t, "events", "run", id, "--why", "x"); r.code != 1 || !strings.Contains(r.err, says) {
			t.Errorf("%s: exit %d, %s; want it to say %q", id, r.code, r.err, says)
		}
	}
	var actions int
	if err := conn.QueryRow(t.Context(), `select count(*) from operator_actions where action in ('run', 'approve', 'reject') and actor like 'uid:% ada'
		and before->>'status' in ('ignored', 'needs_review')`).Scan(&actions); err != nil || actions != 4 {
		t.Errorf("%d audited actions, %v; want 4", actions, err)
	}
	if got := decode[[]timeline.Receipt](t, s.pawl(t, "events", "list", "--status", "ignored", "--json")); len(got) != 4 {
		t.Errorf("still ignored: %+v, want what may not run, and what was rejected", got)
	}
}

// To send again asks, and what is typed has to be the effect's key.
func TestEventsResend_Asks(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe"})
	if _, err := connect(t, dsn).Exec(t.Context(), `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id, waits)
		values (gen_random_uuid(), 's', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'needs_review', 'effect_uncertain: x', 'stripe:evt_1',
		'{"decisions":["resend"],"effects":[{"key":"receipt-email:x","kind":"receipt-email","state":"uncertain","uncertain":true}]}')`); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]struct {
		code int
		says string
	}{
		"":    {2, "give --confirm receipt-email:x"},
		"yes": {1, `"yes" is not the effect's key: nothing was done`},
	} {
		r := typed(t, in+"\n", s.env, "--config", s.file, "events", "resend", "evt_1", "--why", "the customer has none")
		if r.code != want.code || !strings.Contains(r.err, want.says) || !strings.Contains(r.err, "receipt-email:x may have happened") {
			t.Errorf("typed %q: exit %d, %s; want %d and %q", in, r.code, r.err, want.code, want.says)
		}
	}
}
