package flowtest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/receipt"
)

// The cost of one event of the smallest plan without failures. Raise a number only with a reason in the commit, and
// lower it when you can.
const (
	// costEvents is the number of history events: started; task scheduled, started and completed; one marker each for
	// load, the three effects, the activation and finish; completed.
	costEvents = 11
	// costTransitions is the number of Temporal's writes of the run's state.
	costTransitions = 3
	// costCommits is the number of commits in pawl's database if effects share no commit. The commits are: the
	// receipt, the start, the activation, the claim and outcome of each of three outside effects, the mark of the
	// e-mail, the end, and claiming and completing three published events at once. Concurrent effects share commits,
	// so the actual number is about 11.
	costCommits = 13
	// costReads is the number of rows that pawl reads to compute the new state: the event's own fact, because the
	// customer has no other facts.
	costReads = 1
)

// costRows is the number of inserted and updated rows by table.
var costRows = map[string]int{
	"receipts insert": 1, "receipt_bodies insert": 1, "deliveries insert": 1,
	"receipts update": 2, // started, finished
	"runs insert":     1, "runs update": 1,
	"effects insert": 4, "effects update": 5, // four outcomes and the mark that the e-mail is being sent
	"facts insert": 1, "event_subjects insert": 1, "grants insert": 1,
	// the renewal, and a wait because no event except the invoice reports the subscription as active
	"due insert":      2,
	"accounts insert": 1, "accounts update": 1, // its target
	"subscriptions insert": 1, "invoices insert": 1,
	"invoices update":   1, // the URL of the invoice page, which no billing state depends on
	"workspaces insert": 1, "finance_entries insert": 1, "addresses insert": 1,
	// three events of the account: the oldest is claimed and each is completed; and the event about the opened task
	"outbox insert": 4, "outbox update": 6,
}

// The test is not parallel, because it would count the commits of other tests.
func TestInvoicePaid_Cost(t *testing.T) {
	r := newRig(t, nil)
	// The first event may start before the worker polls, which changes its cost.
	r.result(r.receive(purchase(t, "warm-"+uuid.NewString()[:8], "invoice.paid", "starter")), "")
	r.footprint()
	r.countWrites()
	var commits []int
	for range 12 {
		e := purchase(t, "cost-"+uuid.NewString()[:8], "invoice.paid", "starter")
		before := r.transactions()
		workflowID := r.receive(e)
		if got := r.result(workflowID, ""); got.Outcome != "processed" {
			t.Fatalf("outcome %s", got.Outcome)
		}
		r.until("the start is recorded", func() bool {
			return len(r.rows(`select workflow_id from receipts where event_id = $1 and status = $2 and workflow_id <> ''`, e.ID, receipt.Processed)) == 1
		})
		r.footprint() // also waits until the events are published
		commits = append(commits, r.transactions()-before)
		described, err := r.Temporal.DescribeWorkflow(t.Context(), workflowID, "")
		if err != nil {
			t.Fatal(err)
		}
		if info := described.RawResponse.WorkflowExecutionInfo; info.HistoryLength != costEvents || info.StateTransitionCount > costTransitions {
			t.Errorf("an event costs %d history events and %d state transitions, want %d and %d",
				info.HistoryLength, info.StateTransitionCount, costEvents, costTransitions)
		}
		if got := r.reads(e); got != costReads {
			t.Errorf("folding an event reads %d rows, want %d", got, costReads)
		}
		for write, n := range r.takeWrites() {
			if n > costRows[write] {
				t.Errorf("an event costs %d × %s, want %d", n, write, costRows[write])
			}
		}
	}
	// Postgres sometimes writes in the background, so the test compares the median.
	slices.Sort(commits)
	if median := commits[len(commits)/2]; median > costCommits {
		t.Errorf("an event costs %d commits of our own (%v), want at most %d", median, commits, costCommits)
	}
}

// costOfRenewal is the number of rows that pawl reads for each event in the second month of a new subscription,
// including a partial refund. pawl reads the facts of the event's object and the rows of related objects: a charge
// without an invoice belongs to the account of the customer's subscription.
var costOfRenewal = map[string]int{
	"invoice.finalized": 5, "invoice.paid": 10, "invoice.payment_succeeded": 11, "customer.subscription.updated": 6,
	"charge.succeeded": 3, "invoice_payment.paid": 11, "refund.created": 15, "charge.refunded": 17, "refund.updated": 20,
}

// newestInvoices is the maximum number of invoices that pawl reads to compute a subscription.
const newestInvoices = 24

// The cost of computing a state depends only on the facts of the event's objects. If the account has another
// subscription with a year of renewals, upgrades, refunds, disputes and orders, pawl reads one more row for each of
// the two objects that grant access. If the same subscription is a year old, pawl reads its additional facts and its
// newest invoices.
func TestRenewal_OldAccount_ReadsNoMoreRows(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const day = 24 * time.Hour
	starter := forge.Plan{Name: "starter", Price: "price_starter", Amount: 4900, Days: 30}
	pro := forge.Plan{Name: "pro", Price: "price_pro", Amount: 9900, Days: 30}
	week := forge.Plan{Name: "week", Price: "price_week", Amount: 900}
	now := time.Now().Add(-3 * 365 * day)
	customer := func(account, seed string) *forge.Customer {
		return forge.NewCustomer(forge.Params{Provider: stripe.Provider, Live: true, Account: account, Seed: seed}, day)
	}
	then := func(c *forge.Customer, after time.Duration, happens ...func()) (read map[string]int) {
		now = now.Add(after)
		c.At(now)
		for _, h := range happens {
			h()
		}
		events, err := c.Events()
		if err != nil {
			t.Fatal(err)
		}
		read = map[string]int{}
		for _, e := range events {
			r.receive(e)
			r.status(e, receipt.Processed)
			read[e.Type] = r.reads(e)
		}
		return read
	}
	subscribe := func(c *forge.Customer) { then(c, day, func() { c.Subscribe(starter, 1, 0) }) }
	renewal := func(c *forge.Customer) map[string]int { return then(c, 30*day, c.Renew, func() { c.Refund(100) }) }

	young := customer("young-"+uuid.NewString()[:8], "")
	subscribe(young)
	if got := renewal(young); !maps.Equal(got, costOfRenewal) {
		t.Errorf("a renewal reads %v, want %v", got, costOfRenewal)
	}

	account := "old-" + uuid.NewString()[:8]
	old, second := customer(account, ""), customer(account, "second")
	subscribe(old)
	for month := range 12 {
		then(old, 30*day, old.Renew)
		switch month {
		case 2:
			then(old, day, func() { old.Refund(100) })
		case 5:
			then(old, day, func() { old.Change(pro, 2) })
		case 7:
			then(old, day, func() { old.BuyOnce(week) })
		case 8:
			then(old, day, old.Dispute, old.Contest)
		}
	}
	const grants = 2 // the old subscription and the order
	subscribe(second)
	for eventType, got := range renewal(second) {
		if want := costOfRenewal[eventType]; got > want+grants {
			t.Errorf("%s reads %d rows, in an account with a year of another subscription %d", eventType, want, got)
		}
	}

	own, err := strconv.Atoi(r.rows(`select count(*)::text from facts where object in (select id from subscriptions where account = $1) group by object order by count(*) desc limit 1`, account)[0])
	if err != nil {
		t.Fatal(err)
	}
	for eventType, got := range renewal(old) {
		want := costOfRenewal[eventType]
		t.Logf("%s reads %d rows, of a subscription with a year of %d facts %d", eventType, want, own, got)
		if got > want+grants+own+newestInvoices {
			t.Errorf("%s reads %d rows, of a subscription with a year of %d facts %d", eventType, want, own, got)
		}
	}
}

// reads returns the number of rows that pawl reads to process the event.
func (r *rig) reads(e forge.Event) int {
	r.Helper()
	read := r.rows(`select result->>'Rows' from effects where kind = 'apply-facts' and event_id = $1`, e.ID)
	if len(read) != 1 {
		r.Fatalf("%s (%s) was applied %d times", e.ID, e.Type, len(read))
	}
	n, err := strconv.Atoi(read[0])
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// Check first that the counter works.
func TestCountWrites_SeesRows(t *testing.T) {
	t.Parallel()
	r := newIdleRig(t, false, nil) // no worker, because a worker writes when it starts
	r.countWrites()
	r.exec(`insert into accounts (mode, id, provider) values ('live', 'a', 'stripe'), ('live', 'b', 'stripe')`)
	r.exec(`update accounts set customer = id`)
	if got, want := r.takeWrites(), map[string]int{"accounts insert": 2, "accounts update": 2}; !maps.Equal(got, want) {
		t.Errorf("writes %v, want %v", got, want)
	}
	if got := r.takeWrites(); len(got) != 0 {
		t.Errorf("writes %v after they were taken", got)
	}
}

// transactions returns the number of the server's transactions that have written to a table.
func (r *rig) transactions() int {
	r.Helper()
	n, err := strconv.Atoi(r.rows(`select pg_snapshot_xmax(pg_current_snapshot())::text`)[0])
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// countWrites starts to count every written row.
func (r *rig) countWrites() {
	r.Helper()
	r.exec(`create table noted (write text); grant insert on noted to public`)
	r.exec(`create function note() returns trigger language plpgsql as
		$$ begin insert into noted values (tg_table_name || ' ' || lower(tg_op)); return null; end $$`)
	for _, table := range r.rows(`select tablename::text from pg_tables where schemaname = 'public' and tablename <> 'noted'`) {
		r.exec(`create trigger note after insert or update or delete on ` + table + ` for each row execute function note()`)
	}
}

// takeWrites returns the counts since the last call and resets them.
func (r *rig) takeWrites() map[string]int {
	r.Helper()
	counts := map[string]int{}
	for _, line := range r.rows(`with taken as (delete from noted returning write) select write || ':' || count(*) from taken group by write`) {
		write, n, _ := strings.Cut(line, ":")
		counts[write], _ = strconv.Atoi(n)
	}
	return counts
}
