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

// The cost of one healthy event of the smallest plan. Raise a number only with a reason in the commit, and
// lower it when you can.
const (
	// costEvents are the events of the history: started; task scheduled, started, completed; a marker for
	// each of load, three effects and the activation, and finish; completed.
	costEvents = 11
	// costTransitions are Temporal's writes of the run's state.
	costTransitions = 3
	// costCommits are our own when nothing shares one: receipt, start, activation, claim and outcome of
	// three outside effects, the mail's mark, end, and the outbox's taking and settling of three internal events at
	// once. They come to about 11 since effects that meet share commits.
	costCommits = 13
	// costReads are the rows that folding reads: the event's own fact, which is all that is known of its customer.
	costReads = 1
)

// costRows are the rows that we write, by table: inserted and updated.
var costRows = map[string]int{
	"receipts insert": 1, "receipt_bodies insert": 1, "deliveries insert": 1,
	"receipts update": 2, // started, finished
	"runs insert":     1, "runs update": 1,
	"effects insert": 4, "effects update": 5, // four outcomes and the mail's mark
	"facts insert": 1, "grants insert": 1,
	"due insert":      2,                       // nothing but the invoice tells that the subscription is active; and its renewal
	"accounts insert": 1, "accounts update": 1, // its target
	"subscriptions insert": 1, "invoices insert": 1,
	"invoices update":   1, // the page for the customer, which no fold knows
	"workspaces insert": 1, "finance_entries insert": 1, "addresses insert": 1,
	// three news of the account, the oldest taken, each settled; and that a task was opened
	"outbox insert": 4, "outbox update": 6,
}

// Not parallel: what other tests commit would be counted.
func TestInvoicePaid_Cost(t *testing.T) {
	r := newRig(t, nil)
	// The first start may come before the worker asks for work, and then takes another way.
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
		r.footprint() // waits until the event is published, too
		commits = append(commits, r.transactions()-before)
		described, err := r.Temporal.DescribeWorkflowExecution(t.Context(), workflowID, "")
		if err != nil {
			t.Fatal(err)
		}
		if info := described.WorkflowExecutionInfo; info.HistoryLength != costEvents || info.StateTransitionCount > costTransitions {
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
	// Postgres sometimes writes for itself: the median tells.
	slices.Sort(commits)
	if median := commits[len(commits)/2]; median > costCommits {
		t.Errorf("an event costs %d commits of our own (%v), want at most %d", median, commits, costCommits)
	}
}

// costOfRenewal are the rows that folding reads for each event of a young subscription's second month, of which a part
// is refunded. They are the facts of what the event is about, and the rows of what belongs to it: a charge that names no
// invoice belongs to the account that the customer's subscription names.
var costOfRenewal = map[string]int{
	"invoice.finalized": 5, "invoice.paid": 10, "invoice.payment_succeeded": 11, "customer.subscription.updated": 6,
	"charge.succeeded": 3, "invoice_payment.paid": 11, "refund.created": 15, "charge.refunded": 17, "refund.updated": 20,
}

// newestInvoices is how many of a subscription's invoices are read at most to fold it.
const newestInvoices = 24

// Folding costs what the facts of the event's objects cost. A year of another subscription of the account, with its
// renewals, upgrades, refunds, disputes and orders, adds a row for each of the two that grant access. A year of the
// subscription's own adds its own facts, and its newest invoices.
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

// reads returns how many rows were read to fold what an event says.
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

// The counting itself: what a test of costs does not see, it does not hold.
func TestCountWrites_SeesRows(t *testing.T) {
	t.Parallel()
	r := newIdleRig(t, false, nil) // a worker writes at its start
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

// transactions counts the transactions of the server that have written something.
func (r *rig) transactions() int {
	r.Helper()
	n, err := strconv.Atoi(r.rows(`select pg_snapshot_xmax(pg_current_snapshot())::text`)[0])
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// countWrites notes every row that is written from now on.
func (r *rig) countWrites() {
	r.Helper()
	r.exec(`create table noted (write text); grant insert on noted to public`)
	r.exec(`create function note() returns trigger language plpgsql as
		$$ begin insert into noted values (tg_table_name || ' ' || lower(tg_op)); return null; end $$`)
	for _, table := range r.rows(`select tablename::text from pg_tables where schemaname = 'public' and tablename <> 'noted'`) {
		r.exec(`create trigger note after insert or update or delete on ` + table + ` for each row execute function note()`)
	}
}

// takeWrites returns what was noted since it was last called, and forgets it.
func (r *rig) takeWrites() map[string]int {
	r.Helper()
	counts := map[string]int{}
	for _, line := range r.rows(`with taken as (delete from noted returning write) select write || ':' || count(*) from taken group by write`) {
		write, n, _ := strings.Cut(line, ":")
		counts[write], _ = strconv.Atoi(n)
	}
	return counts
}
