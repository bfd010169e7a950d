package operator_test

import (
	"context"
	"crypto/sha256"
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
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/role"
	ingress "github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

// office is where two persons decide over 1,000.00 USD.
type office struct {
	*testing.T
	*operator.Operator
	receipts *receipt.Store
}

var (
	ada  = &operator.Person{Name: "ada", Roles: []role.Role{role.Finance}}
	bob  = &operator.Person{Name: "bob", Roles: []role.Role{role.Admin}}
	eve  = &operator.Person{Name: "eve", Roles: []role.Role{role.Viewer}}
	shop = &operator.Person{Name: "token:shop", Roles: []role.Role{role.Admin}}
)

func newOffice(t *testing.T) *office {
	t.Helper()
	t.Parallel()
	db := schematest.New(t)
	cfg := &config.Config{Plans: config.Plans{Prices: map[string]config.Price{"price_pro": {Plan: "pro"}}}}
	receipts := receipt.NewStore(db, receipt.Options{})
	t.Cleanup(receipts.Close)
	return &office{t, &operator.Operator{DB: db, Audit: audit.New(db, slog.New(slog.DiscardHandler)), Temporal: starting{},
		Outlook: process.Outlook(cfg, db, receipts), FourEyes: map[string]int64{"usd": 100000}}, receipts}
}

// starting is a Temporal that takes the runs of jobs.
type starting struct{ operator.Temporal }

func (starting) SignalWithStartWorkflow(context.Context, string, string, any, client.StartWorkflowOptions, any,
	...any) (client.WorkflowRun, error) {
	return nil, nil
}

// paid is a paid invoice that somebody is asked about before it runs: its ID is also another event's.
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

// by has somebody decide; nil is the command line.
func (o *office) by(p *operator.Person, verb, target string, change ...func(*operator.Decision)) (*operator.Answer, error) {
	d := operator.Decision{Verb: verb, Target: target, By: p, Who: "uid:1(ada)", Why: "looked at it"}
	for _, c := range change {
		c(&d)
	}
	return o.Decide(context.WithoutCancel(o.Context()), d)
}

// asks has somebody ask, who has to wait.
func (o *office) asks(p *operator.Person, verb, target string, change ...func(*operator.Decision)) *pending.Decision {
	o.Helper()
	a, err := o.by(p, verb, target, change...)
	if err != nil || a.Pending == nil || a.Result != nil {
		o.Fatalf("%s of %s by %s: %+v, %v; want it to wait for a second person", verb, target, p.Name, a, err)
	}
	return a.Pending
}

// decides has somebody decide, which is done.
func (o *office) decides(p *operator.Person, verb, target string, change ...func(*operator.Decision)) *operator.Answer {
	o.Helper()
	a, err := o.by(p, verb, target, change...)
	if err != nil || a.Pending != nil {
		o.Fatalf("%s of %s by %s: %+v, %v; want it done", verb, target, p.Name, a, err)
	}
	return a
}

// refuses has somebody decide, which is refused.
func (o *office) refuses(p *operator.Person, verb, target, says string, change ...func(*operator.Decision)) {
	o.Helper()
	a, err := o.by(p, verb, target, change...)
	if refused := new(operator.RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), says) {
		o.Errorf("%s of %s by %v: %+v, %v; want it refused with %q", verb, target, p, a, err, says)
	}
}

func (o *office) exec(sql string, args ...any) {
	o.Helper()
	if tag, err := o.DB.Exec(o.Context(), sql, args...); err != nil || tag.RowsAffected() == 0 && strings.HasPrefix(sql, "update") {
		o.Fatalf("%s: %s, %v", sql, tag, err)
	}
}

// stands is a receipt's status, and how many decisions wait.
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

func request(id string) func(*operator.Decision) {
	return func(d *operator.Decision) { d.Request = id }
}

func TestFourEyes_TwoPersons_OneDecision(t *testing.T) {
	o := newOffice(t)
	id := o.paid("evt_1", 240000, "usd")
	p := o.asks(ada, "approve", "evt_1", request("r-1"))
	if p.Money["usd"] != 240000 || p.AskedBy != "ada" || p.Target != "evt_1" || time.Until(p.Until) < time.Hour {
		t.Errorf("waits: %+v", p)
	}
	o.stands(id, "needs_review", 1)
	o.refuses(ada, "approve", "evt_1", "since you have asked for it")
	o.refuses(&operator.Person{Name: "ADA", Roles: ada.Roles}, "approve", "evt_1", "since you have asked for it")
	if _, err := o.by(eve, "approve", "evt_1"); err == nil || !strings.Contains(err.Error(), `needs the right "money"`) {
		t.Errorf("a viewer as the second: %v", err)
	}
	e, err := o.Examine(t.Context(), "evt_1")
	if err != nil || len(e.PendingDecisions) != 1 || !strings.Contains(e.Verdict, "approve, which ada has asked for, waits for a second person") {
		t.Errorf("%+v, %v", e, err)
	}
	seen, err := o.Preview(t.Context(), operator.Decision{Verb: "approve", Target: "evt_1", By: bob})
	if err != nil || !strings.Contains(seen.FourEyes, "moves 2400.00 USD") || !strings.Contains(seen.FourEyes, "you are the second person") {
		t.Errorf("bob sees %+v, %v", seen, err)
	}
	if a := o.decides(bob, "approve", "evt_1", request("r-2")); a.Who != "bob" || a.Result.(*operator.EventResult).EventID != "evt_1" {
		t.Errorf("answered %+v", a)
	}
	o.stands(id, "received", 0)
	o.trail("ask-approve", "approve")
	shown, err := operator.ShowEvent(t.Context(), o.DB, "evt_1")
	if err != nil || !strings.Contains(fmt.Sprint(shown.Timeline), "bob (asked by ada): looked at it") {
		t.Errorf("the story does not name both: %v, %v", shown, err)
	}

	// Each request, sent again, is answered as it was, and decides nothing.
	if a, err := o.by(ada, "approve", "evt_1", request("r-1")); err != nil || !a.Repeated || a.Pending != nil || !strings.Contains(a.Says, "no more") {
		t.Errorf("ada's again: %+v, %v", a, err)
	}
	if a, err := o.by(bob, "approve", "evt_1", request("r-2")); err != nil || !a.Repeated {
		t.Errorf("bob's again: %+v, %v", a, err)
	}
	o.trail("ask-approve", "approve")
}

// A limit is of a currency; one that has none takes two persons for any amount. What moves nothing takes one.
func TestFourEyes_Limits(t *testing.T) {
	o := newOffice(t)
	o.paid("evt_at", 100000, "usd")
	o.paid("evt_yen", 1, "jpy")
	o.paid("evt_no", 500000, "usd")
	o.decides(ada, "approve", "evt_at")
	o.asks(ada, "approve", "evt_yen")
	o.asks(bob, "run", "evt_yen") // the same by another name
	o.decides(ada, "reject", "evt_no")
	o.asks(bob, "run", "evt_no") // which takes that back
	o.FourEyes = nil
	o.decides(ada, "approve", "evt_yen")
}

// A name that nobody has verified is neither the first nor the second.
func TestFourEyes_CommandLineAndToken_Refused(t *testing.T) {
	o := newOffice(t)
	id := o.paid("evt_1", 240000, "usd")
	for range 2 {
		for _, p := range []*operator.Person{nil, shop} {
			o.refuses(p, "approve", "evt_1", "neither a token nor the command line is one")
			if seen, err := o.Preview(t.Context(), operator.Decision{Verb: "approve", Target: "evt_1", By: p}); err != nil || !strings.Contains(seen.Refused, "signed in to the console") {
				t.Errorf("preview by %v: %+v, %v", p, seen, err)
			}
		}
		if got := trail(t, o.DB); len(got) == 0 {
			o.asks(ada, "approve", "evt_1")
		}
	}
	o.stands(id, "needs_review", 1)
	o.trail("ask-approve")
}

// A second person who sees something else than the first is the first.
func TestFourEyes_Changed_SecondIsFirst(t *testing.T) {
	for name, change := range map[string]func(o *office, id string){
		"amount": func(o *office, id string) {
			body := o.body("evt_1", 250000, "usd")
			sum := sha256.Sum256(body)
			o.exec(`update receipt_bodies set body = $2 where receipt_id = $1`, id, body)
			o.exec(`update receipts set body_hash = $2 where id = $1`, id, sum[:])
		},
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
			o.asks(ada, "approve", "evt_1")
			change(o, id)
			o.asks(bob, "approve", "evt_1")
			o.stands(id, "needs_review", 1)
			o.refuses(bob, "approve", "evt_1", "since you have asked for it")
			o.decides(ada, "approve", "evt_1")
			o.stands(id, "received", 0)
		})
	}
}

// One of several second persons decides, if they come at once. If the decision fails, it goes on waiting.
func TestFourEyes_SecondsAtOnce_OneEffect(t *testing.T) {
	o := newOffice(t)
	id := o.paid("evt_1", 240000, "usd")
	o.asks(ada, "approve", "evt_1")
	o.exec(`create function stop() returns trigger language plpgsql as $$ begin raise 'stopped'; end $$`)
	o.exec(`create trigger stop before update on receipts for each row execute function stop()`)
	if _, err := o.by(bob, "approve", "evt_1"); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("%v, want it to fail", err)
	}
	o.stands(id, "needs_review", 1)
	o.trail("ask-approve")
	o.exec(`drop trigger stop on receipts`)
	var all sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		all.Go(func() {
			_, errs[i] = o.by(&operator.Person{Name: fmt.Sprint("carol ", i), Roles: ada.Roles}, "approve", "evt_1")
		})
	}
	all.Wait()
	done := 0
	for _, err := range errs {
		switch refused := new(operator.RefusedError); {
		case err == nil:
			done++
		case !errors.As(err, &refused):
			t.Errorf("got %v", err)
		}
	}
	if done != 1 {
		t.Errorf("%d have decided: %v", done, errs)
	}
	o.stands(id, "received", 0)
	o.trail("ask-approve", "approve")
}

// Both the first person and any other with the right may drop a decision that waits.
func TestFourEyes_Withdrawn(t *testing.T) {
	o := newOffice(t)
	id := o.paid("evt_1", 240000, "usd")
	p := o.asks(ada, "approve", "evt_1")
	support := &operator.Person{Name: "sue", Roles: []role.Role{role.Support}}
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
}

func jobOf(t *testing.T, db *pgxpool.Pool, action string) func(*operator.Decision) {
	t.Helper()
	f := operator.Events{}
	f.Status = string(receipt.NeedsReview)
	chosen, err := operator.ChooseEvents(t.Context(), db, f)
	if err != nil {
		t.Fatal(err)
	}
	return func(d *operator.Decision) {
		d.Request = "job-of-" + d.By.Name
		d.Found = &operator.NewJob{Job: job.Job{Action: action, Rate: 100, Filter: map[string]string{"status": f.Status}}, Chosen: chosen}
	}
}

// works has a worker take all items of a job, and returns it then.
func (o *office) works(id string) *job.Job {
	o.Helper()
	var env testsuite.WorkflowTestSuite
	at := env.NewTestActivityEnvironment()
	w := &operator.JobWorker{Jobs: job.New(o.DB), Operator: o.Operator, Log: slog.New(slog.DiscardHandler)}
	at.RegisterActivity(w)
	if _, err := at.ExecuteActivity(w.WorkOnJob, workflows.JobInput{ID: id}); err != nil {
		o.Fatal(err)
	}
	j, err := job.New(o.DB).Get(o.Context(), id)
	if err != nil {
		o.Fatal(err)
	}
	return j
}

// A job counts by its sum: nobody splits what the limit forbids. One that two persons have made does what it says.
func TestFourEyes_Job_BySum(t *testing.T) {
	o := newOffice(t)
	for i := range 3 {
		o.paid(fmt.Sprint("evt_", i), 40000, "usd")
	}
	p := o.asks(ada, "start-job", "x", jobOf(t, o.DB, "approve"))
	if p.Money["usd"] != 120000 || p.Target != "3 events" || p.Does() != "approve" || p.Args["status"] != "needs_review" {
		t.Errorf("waits: %+v", p)
	}
	made, err := o.PreviewJob(t.Context(), bob, newJob(jobOf(t, o.DB, "approve")))
	if err != nil || !strings.Contains(made.FourEyes, "you are the second person") {
		t.Errorf("bob sees %+v, %v", made, err)
	}
	o.paid("evt_more", 1, "usd")
	o.asks(bob, "start-job", "x", jobOf(t, o.DB, "approve")) // of four
	a := o.decides(ada, "start-job", "x", func(d *operator.Decision) {
		jobOf(t, o.DB, "approve")(d)
		d.Request = "job-2"
	})
	if j := a.Result.(*job.Job); j.Who != "ada" || j.AskedBy != "bob" {
		t.Errorf("made %+v", j)
	}
	if j := o.works("job-2"); j.Done != 4 {
		t.Errorf("it has come to %+v", j)
	}
}

func newJob(change func(*operator.Decision)) *operator.NewJob {
	d := operator.Decision{By: bob}
	change(&d)
	return d.Found.(*operator.NewJob)
}

// A job of one person does nothing that the person may not do alone, whatever it is by then. A retry judges nothing.
func TestFourEyes_JobOfOne_ItemOverTheLimit_Refused(t *testing.T) {
	o := newOffice(t)
	o.paid("evt_1", 30000, "usd")
	o.paid("evt_2", 50000, "usd")
	o.decides(ada, "start-job", "x", jobOf(t, o.DB, "approve"))
	o.decides(bob, "start-job", "x", jobOf(t, o.DB, "retry"))
	o.FourEyes = map[string]int64{"usd": 40000}
	if j := o.works("job-of-ada"); j.Done != 1 || j.Refused != 1 {
		t.Errorf("it has come to %+v", j)
	}
	items, err := job.New(o.DB).Items(t.Context(), "job-of-ada", "refused", 9)
	if err != nil || len(items) != 1 || !strings.Contains(items[0].Note, "a job that two persons have made") {
		t.Errorf("%+v, %v", items, err)
	}
}
