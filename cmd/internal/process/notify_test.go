package process

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// people is a receiver of notifications.
type people struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	keys   []string
	// answer is called before a message is accepted; if it is nil, every message is accepted.
	answer func(w http.ResponseWriter, r *http.Request) (taken bool)
}

func newPeople(t *testing.T) *people {
	p := &people{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if p.answer != nil && !p.answer(w, r) {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.bodies, p.keys = append(p.bodies, string(body)), append(p.keys, r.Header.Get("Idempotency-Key"))
	}))
	t.Cleanup(p.Close)
	return p
}

// telling is a worker with the configured notification sinks.
type telling struct {
	*Node
	sinks []NotifySink
	to    *activities.NotifySinks
	o     *decide.Operator
}

// tells starts such a worker; notify is a section of its file, in which env:URL is the receiver's URL.
func tells(t *testing.T, dsn, url, notify string) *telling {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	write(t, file, "database: env:DSN\nsources:\n  stripe: {provider: stripe, mode: live, api_key: env:KEY, secrets: [{value: env:SECRET}]}\n"+
		"sinks: {finance: {url: \"http://127.0.0.1:1\"}}\nnotify:\n"+notify)
	env := map[string]string{"DSN": dsn, "SECRET": "whsec_0123456789abcdef0123456789abcdef", "URL": url, "KEY": "rk_live_1"}
	cfg, err := config.Load(file, func(key string) (string, bool) { v, ok := env[key]; return v, ok }, providers)
	if err != nil {
		t.Fatal(err)
	}
	noTemporal(t, cfg)
	n, err := New(t.Context(), cfg, providers, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	book, _, _, err := n.Equip()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(book.Close)
	w := &telling{Node: n, sinks: NotifySinks(cfg), o: &decide.Operator{Verbs: operator.Verbs, DB: n.Pool, Temporal: n.Temporal}}
	w.to = &activities.NotifySinks{Effects: n.effects, Notices: notice.New(n.Pool)}
	for i := range w.sinks {
		w.sinks[i].Policy = n.gates.policy(w.sinks[i].of, "")
	}
	return w
}

// tell runs one pass and sends the due messages.
func (w *telling) tell(t *testing.T) {
	t.Helper()
	if err := w.pass(t.Context(), w.o, w.sinks, time.Minute); err != nil {
		t.Error(err)
	}
	w.send(t)
}

func (w *telling) send(t *testing.T) {
	t.Helper()
	for _, s := range w.sinks {
		for {
			found, err := w.to.SendNext(t.Context(), s.NotifySink)
			if err != nil {
				t.Error(err)
			}
			if !found || err != nil {
				break
			}
		}
	}
}

func (w *telling) exec(t *testing.T, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := w.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

const receiptRow = `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, updated_at, dispatch_at) values `

// planted creates one condition of each kind that a worker reports.
var planted = []string{
	receiptRow + `('00000000-0000-0000-0000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now() - interval '1 hour', '\x01', 'dead', 'effect_failed: ada@example.com', now(), now()),
		('00000000-0000-0000-0000-000000000002', 'stripe', 'stripe', 'live', 'evt_2', 'id', 'customer.updated', now() - interval '1 hour', '\x01', 'dead', 'effect_failed: x', now(), now()),
		('00000000-0000-0000-0000-000000000003', 'stripe', 'stripe', 'test', 'evt_3', 'id', 'invoice.paid', now() - interval '1 hour', '\x01', 'dead', 'effect_failed: x', now(), now()),
		('00000000-0000-0000-0000-000000000004', 'stripe', 'stripe', 'live', 'evt_4', 'id', 'invoice.paid', now() - interval '1 hour', '\x01', 'needs_review', 'similar_account: x', now(), now()),
		('00000000-0000-0000-0000-000000000005', 'stripe', 'stripe', 'live', 'evt_5', 'id', 'invoice.paid', now() - interval '1 hour', '\x01', 'received', '', now(), now()),
		('00000000-0000-0000-0000-000000000006', 'stripe', 'stripe', 'live', 'evt_6', 'id', 'invoice.paid', now() - interval '1 hour', '\x01', 'processed', '', now(), now())`,
	`insert into event_subjects (receipt_id, object, main, amount, currency) values ('00000000-0000-0000-0000-000000000001', 'in_1', true, 49900, 'usd')`,
	`insert into tasks (mode, kind, object, account, state, title, effect_key, created_at, due_by) values
		('live', 'dispute', 'dp_1', 'acme', 'open', 'answer ada', '', now(), now() + interval '12 hours'), ('live', 'unknown_price', 'acme:price_1', 'acme', 'open', 'say', '', now(), null),
		('live', 'unknown_price', 'ada:price_1', 'ada', 'open', 'say', '', now(), null), ('live', 'unknown_price', 'acme:price_2', 'acme', 'open', 'say', '', now(), null),
		('live', 'onboarding', 'sub_2', 'acme', 'open', 'welcome', '', now(), null), ('test', 'dispute', 'dp_2', 'acme', 'open', 'answer', '', now(), null),
		('live', 'correction', 'in_2', 'acme', 'open', 'decide', '', now(), null)`,
	`insert into breakers (sink, open, since, reason, said, probe_at) values ('finance', true, now() - interval '10 minutes', 'f.test answered 503', 'no ada', now()),
		('gone', true, now() - interval '10 minutes', 'x', '', now())`,
	`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until)
		select 'receipt-email:stripe:live:in_' || n, 'receipt-email', 'uncertain', '00000000-0000-0000-0000-000000000006', 'evt_6', 'r', now() - interval '2 hours' from generate_series(1, 2) n`,
	`insert into jobs (id, action, filter, who, why, rate, state, items, done, failed, finished_at) values ('job 1', 'retry', '{}', 'ada', 'ada asked', 1, 'finished', 3, 2, 1, now()),
		('job 2', 'retry', '{}', 'ada', 'x', 1, 'finished', 3, 3, 0, now())`,
	`insert into billing_rules (hash, body, proposed_by) values ('aa', '{}', 'w'), ('bb', '{}', 'w'), ('cc', '{}', 'w')`,
	`update billing_rules set proposed_at = now() - interval '1 hour' where hash = 'aa'`,
	`insert into billing_rules_changes (hash, who, why, at) values ('aa', 'ada', 'x', now() - interval '3 days'), ('bb', 'ada', 'x', now() - interval '1 minute')`,
	`insert into source_counts (source, what, name, day, count, last)
		select s, 'admitted', 'secret-1', ((now() - n * interval '24 hours' - interval '1 minute') at time zone 'utc')::date, case s when 'stripe' then 10 else 9 end, now() - n * interval '24 hours' - interval '1 minute'
		  from unnest('{stripe,removed}'::text[]) s, generate_series(1, 16) n`,
	`insert into source_hours (source, hour, count)
		select s, date_trunc('hour', now()) - n * interval '1 hour', case s when 'stripe' then 10 else 0 end
		  from unnest('{stripe,removed}'::text[]) s, generate_series(4, 28 * 24) n where n > 23 or n = 4`,
	`insert into source_failures (source, failures, since, last) values ('stripe', 9, '2026-11-20T08:00:00Z', '2026-11-27T08:00:00Z'), ('removed', 9, '2026-11-01T08:00:00Z', now())`,
	`insert into endpoints (source, looked_at, off_since, findings) values ('removed', now(), now(), '[{"kind":"off","message":"x","found_at":"2026-11-20T08:00:00Z"}]'),
		('stripe', now(), '2026-11-20T08:00:00Z', '[{"kind":"off","message":"it is off","found_at":"2026-11-20T08:10:00Z"},{"kind":"version","message":"it is old","found_at":"2026-11-20T08:10:00Z"},{"kind":"ignored","message":"x","found_at":"2026-11-20T08:10:00Z"}]')`,
	`insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, attempts, last_error, created_at)
		values (gen_random_uuid(), 'live', 'acme', 'invoice.paid', gen_random_uuid(), 'k', '{}', 7, 'destination crm: answered 503', now() - interval '20 minutes')`,
	receiptRow + `('00000000-0000-0000-0000-000000000007', 'stripe', 'stripe', 'live', 'evt_7', 'id', 'invoice.paid', now() - interval '1 hour', '\x01', 'needs_review', 'effect_uncertain: x', now(), now())`,
	`insert into receipts (source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, updated_at, dispatch_at, id)
		select 'stripe', 'stripe', 'live', 'evt_' || n, 'id', 'customer.updated', now() - interval '1 hour', '\x01', 'dead', 'undo_failed: x', now(), now(), gen_random_uuid() from generate_series(10, 19) n`,
}

// told lists the messages about the planted conditions.
var told = []string{
	"page 1 financial event in live mode failed: a step failed", "ticket 1 event in live mode failed: a step failed", "ticket 1 financial event in test mode failed: a step failed",
	"ticket 1 financial event in live mode needs a decision: similar_account", "page no workflow starts: 1 event received",
	"page 10 events in live mode failed: a step could not be taken back", "page the audit trail was modified",
	"page price price_1 is not mapped to a plan: 2 accounts paid for it", "page price price_2 is not mapped to a plan: 1 account paid for it", "ticket 1 open task in live mode: refund, or grant the order again", "page 1 open task in live mode: answer a dispute",
	"page sink finance is down: f.test answered 503", "ticket 2 steps (Receipt) in live mode: it is not known whether they happened",
	"ticket a job ended: retry of 3 events, and 1 of them failed",
	"ticket the active billing rules were changed to bb", "ticket nothing has changed yet: a deployed file contains other billing rules than the active ones: cc",
	"page source stripe is silent: 30 deliveries were expected since its last one", "page source stripe: pawl answered 5xx to at least 9 deliveries in a row since 2026-11-20 08:00 UTC; when stripe disables an endpoint: not published; Stripe's e-mails mention nine days of failures in a row",
	"page source stripe: it is off", "ticket source stripe: it is old", "ticket destination crm does not accept events",
}

// ada matches the name of a person, but no part of a hash.
var ada = regexp.MustCompile(`\bada\b`)

// Two workers check and send concurrently. Each condition is reported once to each of three sinks, and a sink for
// pages gets only pages. When a condition has ended, its end is reported. No message contains personal data.
func TestNotify_PlantedConditions_EachToldOnce(t *testing.T) {
	t.Parallel()
	dsn, hook, box := schematest.NewDSN(t), newPeople(t), activitiestest.NewMailbox(t, false)
	section := "  sinks:\n    team: {kind: webhook, url: env:URL}\n    pager: {kind: slack, only: pages, url: env:URL}\n" +
		"    mail: {kind: email, address: \"" + box.Address + "\", tls: none, from: pawl@example.com, to: oncall@example.com}\n"
	one, other := tells(t, dsn, hook.URL, section), tells(t, dsn, hook.URL, section)
	one.tell(t)
	if len(hook.bodies) != 0 {
		t.Fatalf("notified without a cause: %q", hook.bodies)
	}
	one.exec(t, planted...)
	one.auditBroken.Store(true) // only this worker has verified the audit trail
	together := func() {
		t.Helper()
		var both sync.WaitGroup
		for _, w := range []*telling{one, other} {
			both.Go(func() {
				for range 3 {
					w.tell(t)
				}
			})
		}
		both.Wait()
		one.send(t)
	}
	together()
	var got []string
	pages := 0
	for _, body := range hook.bodies {
		if ada.MatchString(body) || strings.Contains(body, "acme") {
			t.Errorf("personal: %s", body)
		}
		if strings.HasPrefix(body, `{"text"`) {
			pages++
			continue
		}
		var m struct {
			Severity, Message, Command, Runbook string
			Money                               map[string]int64
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		message, _, _ := strings.Cut(m.Message, ", due by ")
		got = append(got, m.Severity+" "+message)
		if strings.HasPrefix(m.Message, "1 financial event in live mode failed: a step failed") && (m.Money["usd"] != 49900 ||
			m.Command != "pawl events list --status dead --reason-code effect_failed --mode live" || !strings.HasSuffix(m.Runbook, "operations/parked-event.md")) {
			t.Errorf("told %+v", m)
		}
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(told))
	if !slices.Equal(got, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	mails := box.Mails()
	if wantPages := 11; pages != wantPages || len(mails) != len(want) {
		t.Errorf("%d pages and %d mails, want %d and %d", pages, len(mails), wantPages, len(want))
	}
	for _, m := range mails {
		if !strings.Contains(m.Data, "Subject: [pawl ") || !strings.Contains(m.Data, "pawl ") || ada.MatchString(m.Data) {
			t.Errorf("mail %s", m.Data)
		}
	}
	one.auditBroken.Store(false)
	one.exec(t, `delete from receipts`, `delete from tasks`, `delete from breakers`, `delete from effects`, `delete from jobs`, `delete from billing_rules_changes`, `delete from billing_rules`, `delete from outbox`, `delete from source_counts`, `delete from source_hours`, `delete from endpoints`, `delete from source_failures`)
	hook.bodies = nil
	together()
	if len(hook.bodies) != 0 {
		t.Errorf("reported the end too early: %q", hook.bodies)
	}
	one.exec(t, `update notices set seen_at = now() - interval '2 minutes'`)
	together()
	over, once := 0, 3
	for _, body := range hook.bodies {
		if strings.Contains(body, `"ended_at":`) {
			over++
		}
	}
	if over != len(want)-once || len(box.Mails()) != len(want)+over || len(hook.bodies) != over+pages {
		t.Errorf("%d reported as ended, %d messages and %d e-mails in all", over, len(hook.bodies), len(box.Mails()))
	}
}

// Decisions that wait for a second person are reported once a day per verb, with their amount. Their end is reported
// after each decision was confirmed or has expired, by its time or because its event has changed.
func TestNotify_SecondPerson_OnceADay_OverWhenNoneWaits(t *testing.T) {
	t.Parallel()
	hook := newPeople(t)
	w := tells(t, schematest.NewDSN(t), hook.URL, "  sinks: {team: {kind: webhook, url: env:URL}}\n")
	w.exec(t, receiptRow+`('00000000-0000-0000-0000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'processed', '', now(), now())`,
		`insert into pending_decisions (id, subject, receipt_id, event_at, verb, target, args, asked_by, asked_issuer, asked_subject, why, money, state, asked_at, until)
		select n, n, case n when '4' then '00000000-0000-0000-0000-000000000001'::uuid end, now() - interval '1 minute', verb, 'ada', '{"mode":"ada"}', 'ada', 'local', 'ada', 'ada asked', money, sha256(''),
			'2026-11-20T08:00:00Z'::timestamptz + n::int * interval '1 hour', until
		  from (values ('1', 'approve', '{"usd":240000,"eur":5}'::jsonb, '2036-11-20T08:00:00Z'::timestamptz), ('2', 'approve', '{"usd":1}', '2036-11-21T08:00:00Z'),
			('3', 'skip', '{}', '2036-11-20T08:00:00Z'), ('4', 'assign', '{}', '2036-11-20T08:00:00Z'), ('5', 'assign', '{}', now())) p (n, verb, money, until)`)
	told := func(want ...string) {
		t.Helper()
		hook.bodies = nil
		w.tell(t)
		w.tell(t)
		var got []string
		for _, body := range hook.bodies {
			var m notice.Message
			if err := json.Unmarshal([]byte(body), &m); err != nil || ada.MatchString(body) {
				t.Errorf("notified %s, %v", body, err)
			}
			word := string(m.Severity)
			if m.Over != nil {
				word = "over"
			}
			got = append(got, strings.TrimSpace(word+" "+m.Message+" "+decide.Sums(m.Money)))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("notified %q, want %q", got, want)
		}
	}
	two := "a second person has to decide: approve of 2 targets, the first until 2036-11-20 08:00 UTC 0.05 EUR + 2400.01 USD"
	one := "a second person has to decide: approve of 1 target, the first until 2036-11-21 08:00 UTC 0.01 USD"
	skip := "a second person has to decide: skip of 1 target, the first until 2036-11-20 08:00 UTC"
	told("ticket "+two, "ticket "+skip)
	w.exec(t, `delete from pending_decisions where id = '1'`)
	told()
	w.exec(t, `update notices set told_at = told_at - interval '1 day'`)
	told("ticket "+one, "ticket "+skip)
	w.exec(t, `delete from pending_decisions where id = '2'`, `update pending_decisions set until = now() where id = '3'`)
	told()
	w.exec(t, `update notices set seen_at = seen_at - interval '2 minutes'`)
	told("over "+one, "over "+skip)
}

// A provider delivers a parked event again and again. Operators get one message with the command that shows the
// event, and one message when the event is no longer parked. Duplicates of a processed event, and a provider's normal
// retries, cause no message.
func TestNotify_ParkedEventDeliveredAgain_ToldOnceAndOver(t *testing.T) {
	t.Parallel()
	hook := newPeople(t)
	w := tells(t, schematest.NewDSN(t), hook.URL, "  sinks: {team: {kind: webhook, url: env:URL}}\n")
	receipts := receipt.NewStore(w.Pool, receipt.Options{Timeout: 20 * time.Second})
	t.Cleanup(receipts.Close)
	deliver := func(id string) {
		t.Helper()
		_, err := receipts.Insert(t.Context(), receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Events: []receipt.New{
			{Mode: "live", EventID: id, Identity: "id", Type: "invoice.paid", Status: receipt.Received, Body: []byte("{}")}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	// repeated returns the messages about repeated deliveries since its last call.
	repeated := func() (found []notice.Message) {
		t.Helper()
		w.tell(t)
		w.tell(t)
		for _, body := range hook.bodies {
			var m notice.Message
			if err := json.Unmarshal([]byte(body), &m); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(m.Message, "keeps delivering") {
				found = append(found, m)
			}
		}
		hook.bodies = nil
		return found
	}
	for range 4 {
		deliver("evt_done")
	}
	deliver("evt_1")
	w.exec(t, `update receipts set status = 'processed' where event_id = 'evt_done'`, `update receipts set status = 'dead', reason = 'effect_failed: x' where event_id = 'evt_1'`)
	deliver("evt_1")
	deliver("evt_1")
	if got := repeated(); len(got) != 0 {
		t.Errorf("notified of two later deliveries: %+v", got)
	}
	deliver("evt_1")
	got := repeated()
	if len(got) != 1 || got[0].Message != "source stripe keeps delivering 1 parked event in live mode: 3 deliveries within an hour" || got[0].Severity != notice.Ticket ||
		got[0].Command != "pawl events show evt_1" || !strings.HasSuffix(got[0].Runbook, "parked-event.md") {
		t.Errorf("told %+v", got)
	}
	deliver("evt_1")
	if got := repeated(); len(got) != 0 {
		t.Errorf("notified again: %+v", got)
	}
	w.exec(t, `update receipts set status = 'processed', reason = '' where event_id = 'evt_1'`)
	repeated()
	w.exec(t, `update notices set seen_at = seen_at - interval '2 minutes'`)
	if got := repeated(); len(got) != 1 || got[0].Over == nil {
		t.Errorf("notified %+v, want the end", got)
	}
}

// A worker dies after a sink has accepted a message and before the worker has recorded it: the message is sent again
// with the same key.
func TestNotify_DiesBeforeTheRecord_SameKeyAgain(t *testing.T) {
	t.Parallel()
	dsn, hook := schematest.NewDSN(t), newPeople(t)
	w := tells(t, dsn, hook.URL, "  sinks: {team: {kind: webhook, url: env:URL}}\n")
	w.exec(t, planted[3])
	lock, err := w.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hook.answer = func(http.ResponseWriter, *http.Request) bool {
		if _, err := lock.Exec(t.Context(), `select from notice_messages for update`); err != nil {
			t.Error(err)
		}
		return true
	}
	if err := w.pass(t.Context(), w.o, w.sinks, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := w.to.SendNext(t.Context(), w.sinks[0].NotifySink); err == nil {
		t.Error("it was recorded")
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	hook.answer = nil
	if found, err := w.to.SendNext(t.Context(), w.sinks[0].NotifySink); found || err != nil {
		t.Errorf("sent again within the lease: %v", err)
	}
	w.exec(t, `update notice_messages set next_at = now()`)
	w.tell(t)
	w.tell(t)
	if len(hook.keys) != 2 || hook.keys[0] != hook.keys[1] || !strings.HasPrefix(hook.keys[0], "notice:sink:finance:") {
		t.Errorf("keys %q", hook.keys)
	}
}

// A sink that hangs or rejects messages affects only itself: the other sinks are notified, its breaker opens, and
// after it has recovered it gets each message once.
func TestNotify_OneSinkFails_OthersAreTold(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"hangs":   func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return false },
		"refuses": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return false },
		"fails":   func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, hook, box := schematest.NewDSN(t), newPeople(t), activitiestest.NewMailbox(t, false)
			w := tells(t, dsn, hook.URL, "  sinks:\n    team: {kind: webhook, url: env:URL, timeout: 200ms}\n"+
				"    mail: {kind: email, address: \""+box.Address+"\", tls: none, from: pawl@example.com, to: oncall@example.com}\n")
			hook.answer = answer
			w.exec(t, planted...)
			w.auditBroken.Store(true)
			w.tell(t)
			if got := len(box.Mails()); got != len(told) {
				t.Errorf("%d mails while the other sink %s, want %d", got, name, len(told))
			}
			if _, _, out := w.gates["notify:team"].Out(); !out {
				t.Error("its breaker is closed")
			}
			unsent, err := w.to.Notices.Unsent(t.Context(), 0)
			if err != nil || len(unsent) != 1 || unsent[0].Messages != len(told) || unsent[0].Error == "" || strings.Contains(unsent[0].Error, hook.URL) {
				t.Errorf("unsent %+v, %v", unsent, err)
			}
			hook.answer = nil
			until(t, "the sink is told of everything", func() bool {
				w.exec(t, `update notice_messages set next_at = least(next_at, now())`, `update breakers set probe_at = now() where sink = 'notify:team'`)
				w.effects.Read(t.Context(), w.gates.all(), w.Runs.SinkWaiters)
				w.send(t)
				return len(hook.keys) >= len(told)
			})
			slices.Sort(hook.keys)
			if keys := slices.Compact(slices.Clone(hook.keys)); len(keys) != len(told) || len(hook.keys) != len(told) {
				t.Errorf("%d messages, %d keys, want %d", len(hook.keys), len(keys), len(told))
			}
		})
	}
}

// A process calls the heartbeat URL only while it can work.
func TestBeat_WhileItWorks(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	var calls []string
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { calls = append(calls, r.URL.Path) }))
	t.Cleanup(hook.Close)
	w := tells(t, dsn, hook.URL+"/ping/secret-{process}", "  heartbeat: env:URL\n")
	beat := func(kind Kind) error {
		to := strings.ReplaceAll(w.Config.Notify.Heartbeat.Value(), "{process}", string(kind))
		return w.beatOnce(t.Context(), httpcall.NewClient(), to, kind)
	}
	if err := beat(Ingress); err == nil {
		t.Error("it called before it had begun")
	}
	w.fits.Store(true)
	fine := func(context.Context) (string, error) { return "", nil }
	w.join(ops.Part{Name: webhooks, Probe: fine})
	w.join(ops.Part{Name: effects, Probe: fine})
	if err := beat(Ingress); err != nil {
		t.Error(err)
	}
	if err := beat(Worker); err == nil || !strings.Contains(err.Error(), "temporal") { // the server is down
		t.Errorf("a worker without Temporal called: %v", err)
	}
	w.stopping.Store(true)
	if err := beat(Ingress); err == nil {
		t.Error("it called while it was being stopped")
	}
	w.stopping.Store(false)
	hook.Close()
	if err := beat(Ingress); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(calls, []string{"/ping/secret-ingress"}) {
		t.Errorf("called %q", calls)
	}
}

// In each channel, text from other systems appears as plain text in one line of a message.
func TestNotify_WhatComesFromOutside_IsText(t *testing.T) {
	t.Parallel()
	hook, box := newPeople(t), activitiestest.NewMailbox(t, false)
	w := tells(t, schematest.NewDSN(t), hook.URL, "  sinks:\n    team: {kind: webhook, url: env:URL}\n    chat: {kind: slack, url: env:URL}\n"+
		"    mail: {kind: email, address: \""+box.Address+"\", tls: none, from: pawl@example.com, to: oncall@example.com}\n")
	for _, s := range w.sinks {
		m := notice.Message{Key: "k", At: time.Now(), Condition: notice.Condition{Severity: "page", Since: time.Now(),
			Message: schematest.Planted + "\nBcc: eve@example.com <!channel>", Command: "events show " + schematest.Planted + "\nrm -rf /"}}
		if err := s.Tell(t.Context(), m); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
	}
	said := hook.bodies
	for _, m := range box.Mails() {
		if m.Header("Bcc") != "" {
			t.Error("a word of others is a header of the mail")
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(m.Header("Subject"))
		_, body, _ := strings.Cut(m.Data, "\r\n\r\n")
		text, failed := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
		if err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		said = append(said, subject, strings.ReplaceAll(string(text), "\r\n", "\n"))
	}
	if len(said) != 4 {
		t.Fatalf("said %q", said)
	}
	for _, text := range said {
		if strings.ContainsAny(text, schematest.HiddenIn) || strings.Contains(text, "<!channel>") && strings.HasPrefix(text, `{"text"`) {
			t.Errorf("people read %q", text)
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(text, `\n`, "\n"), "\n") {
			if strings.HasPrefix(line, "Bcc:") || strings.HasPrefix(line, "rm ") {
				t.Errorf("a line of others': %q in %q", line, text)
			}
		}
	}
}
