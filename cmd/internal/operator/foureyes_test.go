package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/role"
	ingress "github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	jobruns "github.com/pawlhq/pawl/workflows/jobs"
)

// office is an environment in which two people decide about live money.
type office struct {
	*testing.T
	*decide.Operator
	receipts *receipt.Store
}

var (
	ada  = person("ada", role.Finance)
	bob  = person("bob", role.Admin)
	eve  = person("eve", role.Viewer)
	shop = &decide.Person{Identity: decide.Identity{Issuer: decide.IssuerToken, Subject: "shop"}, Name: "token:shop", Roles: []role.Role{role.Admin}}
)

// person returns a person who has signed in with a password.
func person(name string, roles ...role.Role) *decide.Person {
	return &decide.Person{Identity: decide.Identity{Issuer: decide.IssuerLocal, Subject: name}, Name: name, Roles: roles}
}

func newOffice(t *testing.T) *office {
	t.Helper()
	t.Parallel()
	db := schematest.New(t)
	cfg := &config.Config{Plans: config.Plans{Prices: map[string]config.Price{"price_pro": {Plan: "pro"}}}}
	receipts := receipt.NewStore(db, receipt.Options{})
	t.Cleanup(receipts.Close)
	return &office{t, &decide.Operator{Verbs: operator.Verbs, DB: db, Audit: audit.New(db, slog.New(slog.DiscardHandler)), Temporal: starting{},
		Outlook: process.Outlook(cfg, db, receipts), FourEyes: true}, receipts}
}

// starting is a simulated Temporal that accepts the runs of jobs.
type starting struct{ decide.Temporal }

// UpdateWorkflow accepts every decision.
func (starting) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return taken{}, nil
}

type taken struct{ client.WorkflowUpdateHandle }

func (taken) Get(context.Context, any) error { return nil }

func (starting) SignalWithStartWorkflow(context.Context, string, string, any, client.StartWorkflowOptions, any,
	...any) (client.WorkflowRun, error) {
	return nil, nil
}

// paid inserts a paid invoice that needs a decision before its run. Another event has the same ID.
func (o *office) paid(id string, amount int64, currency string) (receiptID string) {
	o.Helper()
	o.receive(id, amount, currency)
	if err := o.DB.QueryRow(o.Context(), `update receipts set status = 'needs_review', reason = 'id_collision: x' where event_id = $1 returning id`, id).Scan(&receiptID); err != nil {
		o.Fatal(err)
	}
	return receiptID
}

func (o *office) receive(id string, amount int64, currency string) {
	o.Helper()
	if _, err := o.receipts.Insert(o.Context(), receipt.Delivery{Source: "billing", Provider: "stripe", ReceivedAt: time.Now(), Header: http.Header{},
		Events: []receipt.New{{Mode: "live", EventID: id, Identity: receipt.ByID, Type: "invoice.paid", Status: receipt.Received, Body: o.body(id, amount, currency)}}}); err != nil {
		o.Fatal(err)
	}
}

func (o *office) body(id string, amount int64, currency string) []byte {
	o.Helper()
	e, err := forge.New(forge.Params{Provider: ingress.Provider, EventID: id, Type: "invoice.paid", Account: "acct-" + id, Live: true, Amount: amount, Currency: currency, At: time.Now().Add(-time.Hour)}, "")
	if err != nil {
		o.Fatal(err)
	}
	return e.Body
}

// by makes a decision in the name of a person; nil is the command line.
func (o *office) by(p *decide.Person, verb, target string, change ...func(*decide.Decision)) (*decide.Answer, error) {
	d := decide.Decision{Verb: verb, Target: target, By: p, Actor: "uid:1(ada)", Reason: "looked at it"}
	for _, c := range change {
		c(&d)
	}
	return o.Decide(context.WithoutCancel(o.Context()), d)
}

// asks makes a decision in the name of a person and checks that it waits for a second person.
func (o *office) asks(p *decide.Person, verb, target string, change ...func(*decide.Decision)) *pending.Decision {
	o.Helper()
	a, err := o.by(p, verb, target, change...)
	if err != nil || a.Pending == nil || a.Result != nil {
		o.Fatalf("%s of %s by %s: %+v, %v; want it to wait for a second person", verb, target, p.Name, a, err)
	}
	return a.Pending
}

// decides makes a decision in the name of a person and checks that it is done.
func (o *office) decides(p *decide.Person, verb, target string, change ...func(*decide.Decision)) *decide.Answer {
	o.Helper()
	a, err := o.by(p, verb, target, change...)
	if err != nil || a.Pending != nil {
		o.Fatalf("%s of %s by %s: %+v, %v; want it done", verb, target, p.Name, a, err)
	}
	return a
}

// refuses makes a decision in the name of a person and checks that it is refused.
func (o *office) refuses(p *decide.Person, verb, target, says string, change ...func(*decide.Decision)) {
	o.Helper()
	a, err := o.by(p, verb, target, change...)
	if refused := new(decide.RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), says) {
		o.Errorf("%s of %s by %v: %+v, %v; want it refused with %q", verb, target, p, a, err, says)
	}
}

func (o *office) exec(sql string, args ...any) {
	o.Helper()
	if tag, err := o.DB.Exec(o.Context(), sql, args...); err != nil || tag.RowsAffected() == 0 && strings.HasPrefix(sql, "update") {
		o.Fatalf("%s: %s, %v", sql, tag, err)
	}
}

// stands returns the status of a receipt, and the number of pending decisions.
func (o *office) stands(id, status string, waiting int) {
	o.Helper()
	var is string
	var waits int
	if err := o.DB.QueryRow(o.Context(), `select status, (select count(*) from pending_decisions) from receipts where id = $1`, id).Scan(&is, &waits); err != nil || is != status || waits != waiting {
		o.Errorf("it is %s with %d decisions that wait (%v), want %s with %d", is, waits, err, status, waiting)
	}
}

func (o *office) trail(want ...string) {
	o.Helper()
	if got := trail(o.T, o.DB); !slices.Equal(got, want) {
		o.Errorf("the trail has %q, want %q", got, want)
	}
}

func request(id string) func(*decide.Decision) {
	return func(d *decide.Decision) { d.Request = id }
}

// confirms returns the decision as the confirmation of a second person.
func confirms(p *pending.Decision) func(*decide.Decision) {
	return func(d *decide.Decision) { d.Confirms = p.ID }
}

func TestFourEyes_TwoPeople_OneDecision(t *testing.T) {
	o := newOffice(t)
	id := o.paid("evt_1", 100, "usd") // the rule applies to any amount
	p := o.asks(ada, "approve", "evt_1", request("r-1"))
	if p.AskedBy != "ada" || p.AskedIssuer != "local" || p.AskedSubject != "ada" || p.Target != "evt_1" || time.Until(p.Until) < time.Hour {
		t.Errorf("waits: %+v", p)
	}
	o.stands(id, "needs_review", 1)
	renamed := &decide.Person{Identity: ada.Identity, Name: "bob", Roles: ada.Roles}
	for _, self := range []*decide.Person{ada, renamed} {
		o.refuses(self, "approve", "evt_1", "you requested this decision")
		o.refuses(self, "approve", "evt_1", "you requested this decision", confirms(p))
	}
	if _, err := o.by(eve, "approve", "evt_1"); err == nil || !strings.Contains(err.Error(), `needs the right "money"`) {
		t.Errorf("a viewer as the second: %v", err)
	}
	e, err := event.Examine(t.Context(), o.Operator, "evt_1")
	if err != nil || len(e.PendingDecisions) != 1 || !strings.Contains(e.Verdict, "Requested by ada: Approve. A second person must confirm it") {
		t.Errorf("%+v, %v", e, err)
	}
	seen, err := o.Preview(t.Context(), decide.Decision{Verb: "approve", Target: "evt_1", By: bob})
	if err != nil || !strings.Contains(seen.FourEyes, "ada requested it (looked at it). If you confirm, it is done") || seen.Pending == nil || seen.Pending.ID != p.ID {
		t.Errorf("bob sees %+v, %v", seen, err)
	}
	o.refuses(bob, "approve", "evt_1", "confirm it (pending "+p.ID+")")
	// The second person has the same name and the same request ID as the first person: only the identity counts.
	namesake := &decide.Person{Identity: bob.Identity, Name: "ada", Roles: bob.Roles}
	if a := o.decides(namesake, "approve", "evt_1", request("r-1"), confirms(p)); a.Actor != "ada" || a.Result.(*event.Result).EventID != "evt_1" {
		t.Errorf("answered %+v", a)
	}
	o.stands(id, "received", 0)
	o.trail("ask-approve", "approve")
	var asked, decided string
	if err := o.DB.QueryRow(t.Context(), `select before ->> 'requested_issuer' || ' ' || (before ->> 'requested_subject'), issuer || ' ' || subject
		from operator_actions where action = 'approve'`).Scan(&asked, &decided); err != nil || asked != "local ada" || decided != "local bob" {
		t.Errorf("the trail has %q and %q, %v", asked, decided, err)
	}
	shown, err := event.Show(t.Context(), o.DB, "evt_1")
	if err != nil || !strings.Contains(fmt.Sprint(shown.Timeline), "ada (asked by ada): looked at it") {
		t.Errorf("the story does not name both: %v, %v", shown, err)
	}

	// Each repeated request returns its first result and changes nothing.
	if a, err := o.by(ada, "approve", "evt_1", request("r-1")); err != nil || !a.Repeated || a.Pending != nil || !strings.Contains(a.Message, "no longer waits") {
		t.Errorf("ada's again: %+v, %v", a, err)
	}
	if a, err := o.by(bob, "approve", "evt_1", request("r-1"), confirms(p)); err != nil || !a.Repeated {
		t.Errorf("bob's again: %+v, %v", a, err)
	}
	o.trail("ask-approve", "approve")
}

// parked inserts a live event for each ID with a run that waits for a decision.
func (o *office) parked(status, waits string, ids ...string) {
	o.Helper()
	o.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason, workflow_id, waits)
		select gen_random_uuid(), 's', 'stripe', 'live', id, 'id', 'invoice.paid', now(), '\x01', $2, 'effect_failed: x', 'stripe:' || id, $3::jsonb
		  from unnest($1::text[]) as id`, ids, status, waits)
}

const (
	failedEntry = `{"decisions":["retry","skip","done","compensate"],"effects":[{"key":"finance-export:x","kind":"finance-export","state":"failed","by_hand":true}]}`
	doubtful    = `{"decisions":["retry","skip","resend","compensate"],"effects":[{"key":"receipt-email:x","kind":"receipt-email","state":"uncertain","uncertain":true}]}`
	asksAtLoad  = `{"decisions":["approve","reject","retry","skip"],"effects":[]}`
)

// The test covers each verb that decides about live money, on each surface: pawl refuses the command line and a
// token, the first person's decision waits, the same person cannot confirm it, and a second person's confirmation
// makes it. In test mode, and for other verbs, one person is sufficient.
func TestFourEyes_VerbBySurface(t *testing.T) {
	for _, tt := range []struct {
		verb, target string
		change       func(*decide.Decision)
		second       *decide.Person // for a decision about an entry, the second person may have the finance role
	}{
		{verb: "approve", target: "evt_before"}, {verb: "reject", target: "evt_before"}, {verb: "run", target: "evt_before", second: ada},
		{verb: "approve", target: "evt_review"}, {verb: "reject", target: "evt_review"}, {verb: "retry", target: "evt_review", second: person("carol", role.Operator)},
		{verb: "skip", target: "evt_review", second: ada}, {verb: "skip", target: "evt_failed", second: ada}, {verb: "compensate", target: "evt_failed"},
		{verb: "done", target: "evt_failed", change: func(d *decide.Decision) { d.Reference = "entry 7" }, second: ada},
		{verb: "resend", target: "evt_doubt", change: func(d *decide.Decision) { d.Confirm = "receipt-email:x" }, second: ada},
		{verb: "run", target: "evt_rejected", second: ada},
		{verb: "close-task", target: "in_1", change: func(d *decide.Decision) { d.Kind = "entry_differs" }, second: ada},
		{verb: "apply-rules", target: "HASH", second: person("carol", role.Admin)},
	} {
		t.Run(tt.verb+" "+tt.target, func(t *testing.T) {
			o := newOffice(t)
			o.paid("evt_before", 1, "usd")
			o.parked("needs_review", asksAtLoad, "evt_review")
			o.parked("dead", failedEntry, "evt_failed")
			o.parked("needs_review", doubtful, "evt_doubt")
			o.paid("evt_rejected", 1, "usd")
			o.exec(`update receipts set status = 'ignored', reason = 'dismissed: rejected by ada' where event_id = 'evt_rejected'`)
			o.exec(`insert into tasks (mode, kind, object, account, state, title, effect_key) values ('live', 'entry_differs', 'in_1', 'acme', 'open', 'x', 'k')`)
			if tt.target == "HASH" {
				tt.target = o.proposed()
			}
			with := func(more ...func(*decide.Decision)) []func(*decide.Decision) {
				if tt.change == nil {
					return more
				}
				return append(more, tt.change)
			}
			for _, p := range []*decide.Person{nil, shop} {
				o.refuses(p, tt.verb, tt.target, "sign in to the console, because this decision needs two people", with()...)
				seen, err := o.Preview(t.Context(), decide.Decision{Verb: tt.verb, Target: tt.target, By: p})
				if err != nil || !strings.Contains(seen.Refused, "sign in to the console") {
					t.Errorf("preview by %v: %+v, %v", p, seen, err)
				}
			}
			p := o.asks(bob, tt.verb, tt.target, with()...)
			o.refuses(bob, tt.verb, tt.target, "you requested this decision", with(confirms(p))...)
			for _, program := range []*decide.Person{nil, shop} {
				o.refuses(program, tt.verb, tt.target, "sign in to the console", with(confirms(p))...)
			}
			second := tt.second
			if second == nil {
				second = ada
			}
			o.decides(second, tt.verb, tt.target, with(confirms(p))...)
			o.trail("ask-"+tt.verb, tt.verb)
		})
	}
}

// proposed stores proposed rules that differ from the active rules, and returns their hash.
func (o *office) proposed() string {
	o.Helper()
	for _, plan := range []string{"starter", "pro"} {
		p := fact.Policy{Prices: map[string]fact.Price{"price_1": {Plan: plan}}}
		if hash, active, err := billing.Propose(o.Context(), o.DB, p, "worker"); err != nil {
			o.Fatal(err)
		} else if hash != active {
			return hash
		}
	}
	o.Fatal("nothing is proposed")
	return ""
}

func TestFourEyes_OnePersonIsEnough(t *testing.T) {
	o := newOffice(t)
	o.parked("dead", failedEntry, "evt_retry", "evt_skip", "evt_relay", "evt_off")
	o.exec(`update receipts set mode = 'test' where event_id = 'evt_skip'`)
	o.exec(`update receipts set provider = 'github', type = 'push' where event_id = 'evt_relay'`)
	o.exec(`insert into tasks (mode, kind, object, account, state, title, effect_key) values
		('test', 'entry_differs', 'in_1', 'acme', 'open', 'x', 'k'), ('live', 'onboarding', 'sub_1', 'acme', 'open', 'x', 'k'), ('live', 'dispute', 'sub_2', 'acme', 'open', 'x', 'k')`)
	for verb, target := range map[string]string{"retry": "evt_retry", "skip": "evt_skip", "compensate": "evt_relay"} {
		o.decides(bob, verb, target)
	}
	o.decides(bob, "close-task", "in_1")
	o.decides(bob, "close-task", "sub_1")
	o.decides(bob, "take-task", "sub_2")
	o.FourEyes = false
	o.decides(nil, "skip", "evt_off")
}

// If the state has changed since the first person's request, the second person cannot confirm it. A new request waits
// again.
func TestFourEyes_Changed_NotConfirmed(t *testing.T) {
	for name, change := range map[string]func(o *office, id string){
		"state": func(o *office, id string) {
			o.exec(`update receipts set reason = 'suspected_forgery: x' where id = $1`, id)
		},
		"state and back": func(o *office, id string) {
			o.exec(`update receipts set updated_at = clock_timestamp() where id = $1`, id)
		},
		"time": func(o *office, _ string) {
			o.exec(`update pending_decisions set until = now()`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			id := o.paid("evt_1", 240000, "usd")
			first := o.asks(ada, "approve", "evt_1")
			change(o, id)
			if _, err := o.by(bob, "approve", "evt_1", confirms(first)); err == nil {
				t.Fatal("bob has confirmed what ada has not seen")
			}
			second := o.asks(bob, "approve", "evt_1")
			o.stands(id, "needs_review", 1)
			o.refuses(bob, "approve", "evt_1", "you requested this decision")
			o.decides(ada, "approve", "evt_1", confirms(second))
			o.stands(id, "received", 0)
		})
	}
}

// If several people confirm at the same time, one confirmation is accepted, and the audit trail contains one
// decision. If the confirmed decision fails, it stays pending.
func TestFourEyes_SecondsAtOnce_OneDecision(t *testing.T) {
	o := newOffice(t)
	o.parked("dead", failedEntry, "evt_1")
	p := o.asks(bob, "skip", "evt_1")
	o.exec(`create function stop() returns trigger language plpgsql as $$ begin raise 'stopped'; end $$`)
	o.exec(`create trigger stop before delete on pending_decisions for each row execute function stop()`)
	if _, err := o.by(ada, "skip", "evt_1", confirms(p)); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("%v, want it to fail", err)
	}
	o.trail("ask-skip")
	o.exec(`drop trigger stop on pending_decisions`)
	var all sync.WaitGroup
	errs := make([]error, 5)
	for i := range errs {
		all.Go(func() {
			_, errs[i] = o.by(person(fmt.Sprint("carol ", i), ada.Roles...), "skip", "evt_1", confirms(p), request("same"))
		})
	}
	all.Wait()
	done := 0
	for _, err := range errs {
		switch refused := new(decide.RefusedError); {
		case err == nil:
			done++
		case !errors.As(err, &refused) || !strings.Contains(err.Error(), "no longer waits for a second person"):
			t.Errorf("got %v", err)
		}
	}
	if done != 1 {
		t.Errorf("%d have decided: %v", done, errs)
	}
	o.trail("ask-skip", "skip")
}

// If several people request the same decision at the same time, one of them is the first person.
func TestFourEyes_FirstsAtOnce_OneWaits(t *testing.T) {
	o := newOffice(t)
	id := o.paid("evt_1", 240000, "usd")
	var all sync.WaitGroup
	asked := make([]bool, 5)
	for i := range asked {
		all.Go(func() {
			a, err := o.by(person(fmt.Sprint("carol ", i), ada.Roles...), "approve", "evt_1")
			if asked[i] = err == nil && a.Pending != nil; err != nil && !strings.Contains(err.Error(), "waits for a second person") {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	if n := slices.Index(asked, true); n < 0 || slices.Contains(asked[n+1:], true) {
		t.Errorf("asked: %v, want one", asked)
	}
	o.trail("ask-approve")
	o.stands(id, "needs_review", 1)
}

// The first person, and any other person with the right, can withdraw a pending decision.
func TestFourEyes_Withdrawn(t *testing.T) {
	o := newOffice(t)
	id := o.paid("evt_1", 240000, "usd")
	p := o.asks(ada, "approve", "evt_1")
	support := person("sue", role.Support)
	if _, err := o.by(support, "withdraw", p.ID); err == nil || !strings.Contains(err.Error(), `needs the right "money"`) {
		t.Errorf("support: %v", err)
	}
	o.decides(ada, "withdraw", p.ID)
	o.stands(id, "needs_review", 0)
	o.trail("ask-approve", "withdraw")
	p = o.asks(bob, "approve", "evt_1")
	o.decides(ada, "withdraw", p.ID)
	if _, err := o.by(ada, "withdraw", p.ID); err == nil || !strings.Contains(err.Error(), "no decision") {
		t.Errorf("twice: %v", err)
	}
	o.refuses(ada, "approve", "evt_1", "no longer waits for a second person", confirms(p))
}

func jobOf(t *testing.T, db *pgxpool.Pool, action string) func(*decide.Decision) {
	t.Helper()
	f := event.Filter{}
	f.Status = string(receipt.NeedsReview)
	chosen, err := event.Choose(t.Context(), db, f)
	if err != nil {
		t.Fatal(err)
	}
	return func(d *decide.Decision) {
		d.Request = "job-of-" + d.Actor
		if d.By != nil {
			d.Request = "job-of-" + d.By.Name
		}
		d.Found = &decide.NewJob{Job: job.Job{Action: action, Rate: 100, Filter: map[string]string{"status": f.Status}}, Chosen: chosen}
	}
}

// confirmsJob returns the decision about a job as the confirmation of a second person.
func (o *office) confirmsJob(p *pending.Decision) func(*decide.Decision) {
	o.Helper()
	j, err := jobs.Confirmed(o.Context(), o.DB, p.ID)
	if err != nil {
		o.Fatal(err)
	}
	return func(d *decide.Decision) { d.Request, d.Found = "made-by-"+d.By.Name, j }
}

// works processes all items of a job as a worker does, and returns the job.
func (o *office) works(id string) *job.Job {
	o.Helper()
	var env testsuite.WorkflowTestSuite
	at := env.NewTestActivityEnvironment()
	w := &jobs.Worker{Jobs: job.New(o.DB), Operator: o.Operator, Log: slog.New(slog.DiscardHandler)}
	at.RegisterActivity(w)
	if _, err := at.ExecuteActivity(w.WorkOnJob, jobruns.Input{ID: id}); err != nil {
		o.Fatal(err)
	}
	j, err := job.New(o.DB).Get(o.Context(), id)
	if err != nil {
		o.Fatal(err)
	}
	return j
}

// A job is one decision about a fixed list of items. The second person approves the first person's list, even if
// other events match the filter by then. The job omits and reports an item that has changed since.
func TestFourEyes_Job_FixedList(t *testing.T) {
	o := newOffice(t)
	var ids []string
	for i := range 4 {
		ids = append(ids, o.paid(fmt.Sprint("evt_", i), 40000, "usd"))
	}
	for _, p := range []*decide.Person{nil, shop} {
		o.refuses(p, "start-job", "x", "sign in to the console", jobOf(t, o.DB, "approve"))
	}
	p := o.asks(ada, "start-job", "x", jobOf(t, o.DB, "approve"))
	if p.Target != "4 events" || p.Action() != "approve" || p.Args["status"] != "needs_review" || p.Args["rate"] != "100" {
		t.Errorf("waits: %+v", p)
	}
	o.refuses(ada, "start-job", "x", "you requested this decision", o.confirmsJob(p))
	o.refuses(bob, "start-job", "x", "confirm it (pending ", jobOf(t, o.DB, "approve"))
	o.paid("evt_more", 1, "usd")
	j, err := jobs.Confirmed(t.Context(), o.DB, p.ID)
	if err != nil {
		t.Fatal(err)
	}
	made, err := jobs.PreviewAll(t.Context(), o.Operator, bob, j)
	if err != nil || made.Count != 4 || !strings.Contains(made.FourEyes, "If you confirm, it is done") || made.Pending == nil {
		t.Errorf("bob sees %+v, %v", made, err)
	}
	a := o.decides(bob, "start-job", "x", o.confirmsJob(p))
	if j := a.Result.(*job.Job); j.Actor != "bob" || j.AskedBy != "ada" || j.Items != 4 || j.Subject != "bob" {
		t.Errorf("made %+v", j)
	}
	o.exec(`update receipts set updated_at = clock_timestamp() where id = $1`, ids[1])
	if j := o.works("made-by-bob"); j.Done != 3 || j.Refused != 1 {
		t.Errorf("it has come to %+v", j)
	}
	items, err := job.New(o.DB).Items(t.Context(), "made-by-bob", "refused", 9)
	if err != nil || len(items) != 1 || items[0].Target != ids[1] || !strings.Contains(items[0].Note, "after the start of the job: the job omits it") {
		t.Errorf("%+v, %v", items, err)
	}
	o.stands(ids[1], "needs_review", 0)
	var by string
	if err := o.DB.QueryRow(t.Context(), `select string_agg(distinct actor || ' ' || issuer || ' ' || subject, ', ') from operator_actions where action = 'approve'`).Scan(&by); err != nil || by != "bob local bob" {
		t.Errorf("the items were decided by %q, %v", by, err)
	}
}

// A job that only one person approved does not decide about live money, even if the rule of two people was activated
// after its creation.
func TestFourEyes_JobOfOne_Refused(t *testing.T) {
	o := newOffice(t)
	o.paid("evt_1", 30000, "usd")
	o.FourEyes = false
	o.decides(ada, "start-job", "x", jobOf(t, o.DB, "approve"))
	o.FourEyes = true
	if j := o.works("job-of-ada"); j.Done != 0 || j.Refused != 1 {
		t.Errorf("it has come to %+v", j)
	}
	items, err := job.New(o.DB).Items(t.Context(), "job-of-ada", "refused", 9)
	if err != nil || len(items) != 1 || !strings.Contains(items[0].Note, "it needs two people") {
		t.Errorf("%+v, %v", items, err)
	}
}

// The approval of a job is valid only until the job ends.
func TestFourEyes_JobEnded_ApprovalEnds(t *testing.T) {
	o := newOffice(t)
	id := o.paid("evt_1", 30000, "usd")
	o.decides(bob, "start-job", "x", o.confirmsJob(o.asks(ada, "start-job", "x", jobOf(t, o.DB, "approve"))))
	made, err := job.New(o.DB).Get(t.Context(), "made-by-bob")
	if err != nil {
		t.Fatal(err)
	}
	o.decides(bob, "cancel-job", made.ID)
	w := &jobs.Worker{Jobs: job.New(o.DB), Operator: o.Operator}
	if _, err := w.DecideItem(t.Context(), made, job.Item{Target: id}); err == nil || !strings.Contains(err.Error(), "the job has ended") {
		t.Errorf("an item of a job that was cancelled: %v", err)
	}
	o.stands(id, "needs_review", 0)
}

// If two people apply rules in the console, a worker's job activates them.
func TestFourEyes_Rules_AppliedByJob(t *testing.T) {
	o := newOffice(t)
	hash := o.proposed()
	p := o.asks(bob, "apply-rules", hash)
	a := o.decides(person("carol", role.Admin), "apply-rules", hash, confirms(p), request("rules-1"))
	if active, err := billing.ActiveRulesHash(t.Context(), o.DB); err != nil || active == hash {
		t.Errorf("%s is active before the job, %v", active, err)
	}
	if j, is := a.Result.(*job.Job); !is || j.AskedBy != "bob" || j.Actor != "carol" {
		t.Errorf("answered %+v", a)
	}
	if j := o.works("rules-1"); j.Done != 1 {
		items, err := job.New(o.DB).Items(t.Context(), "rules-1", "", 9)
		t.Fatalf("it has come to %+v: %+v, %v", j, items, err)
	}
	if active, err := billing.ActiveRulesHash(t.Context(), o.DB); err != nil || active != hash {
		t.Errorf("%s is active, want %s, %v", active, hash, err)
	}
}
