package flowtest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// asked counts the requests to Temporal about single runs.
type asked struct {
	client.Client
	count atomic.Int64
}

func (a *asked) DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	a.count.Add(1)
	found, err := a.Client.DescribeWorkflow(ctx, workflowID, runID)
	if err != nil {
		return nil, err
	}
	return found.RawResponse, nil
}

// Temporal's list contains a parked run while the run waits, so pawl does not request the single run. After a person
// terminates the run, the list does not contain it.
func TestLost_ParkedRunTerminated_NoticedByList(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	e := purchase(t, uuid.NewString()[:8], "invoice.paid", "starter")
	workflowID := r.receive(e)
	r.status(e, receipt.Dead)
	temporal := &asked{Client: r.Temporal}
	d, err := dispatch.New(dispatch.Config{Temporal: temporal, Receipts: r.Receipts, Runs: r.Runs, TaskQueue: "none"})
	if err != nil {
		t.Fatal(err)
	}
	search := func() (mended int, asked int64) {
		before := temporal.count.Load()
		mended, err := d.SearchOnce(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return mended, temporal.count.Load() - before
	}
	r.until("the list has the run", func() bool {
		mended, asked := search()
		if mended > 0 {
			t.Fatalf("mended a run that waits: %v", r.rows(`select status || ' ' || reason from receipts`))
		}
		return asked == 0
	})
	if err := r.Temporal.TerminateWorkflow(t.Context(), workflowID, "", "by a person"); err != nil {
		t.Fatal(err)
	}
	r.until("the end is noticed", func() bool {
		mended, _ := search()
		return mended == 1
	})
	if reason := r.rows(`select status || ' ' || reason from receipts`)[0]; !strings.HasPrefix(reason, "needs_review "+receipt.RunTerminated) || !strings.Contains(reason, "the run was terminated in Temporal by ") || !strings.Contains(reason, "(by a person)") {
		t.Errorf("receipt is %s; want the reason that its run was terminated", reason)
	}
}

// manyParked is the number of parked runs besides the terminated one. The full number takes minutes:
//
// PAWL_PARKED=20000 go test -v -timeout 30m -run TestLost_ManyParked ./cmd/internal/flowtest
func manyParked(t *testing.T) int {
	t.Helper()
	text, set := os.LookupEnv("PAWL_PARKED")
	if !set {
		return schematest.OrLong(50, 200)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The searches of an ingress, configured as in production, detect a terminated run within a minute, whatever the
// number of parked runs.
func TestLost_ManyParked_OneTerminated_NoticedWithinAMinute(t *testing.T) {
	t.Parallel()
	r, parked := newIdleRig(t, false, nil), manyParked(t)
	const page = 1000
	for from := 0; from < parked; from += page {
		var events []receipt.New
		for i := from; i < min(from+page, parked); i++ {
			events = append(events, receipt.New{EventID: fmt.Sprint("evt_", uuid.NewString()), Mode: "live", Type: "invoice.paid", Object: "in_1",
				Identity: receipt.ByID, Status: receipt.Received, Body: []byte("{}")})
		}
		r.insert(receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Events: events})
	}
	began := time.Now()
	await := func(what string, patience time.Duration, happened func() bool) (took time.Duration) {
		t.Helper()
		begin, tick := time.Now(), time.NewTicker(100*time.Millisecond)
		defer tick.Stop()
		for !happened() {
			if <-tick.C; time.Since(begin) > patience {
				t.Fatalf("not so after %s: %s", patience, what)
			}
		}
		return time.Since(begin)
	}
	one := func(sql string, args ...any) string { return r.rows(sql, args...)[0] }
	await("all have begun", 20*time.Minute, func() bool {
		return one(`select count(*)::text from receipts where status = 'processing'`) == strconv.Itoa(parked)
	})
	t.Logf("%d runs have begun in %s", parked, time.Since(began).Round(time.Second))
	if _, err := r.eyes.Exec(t.Context(), `update receipts set status = 'needs_review', reason = 'plan_unknown: by hand', updated_at = now() - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	victim := one(`select workflow_id from receipts order by id offset $1 limit 1`, parked/2)
	if err := r.Temporal.TerminateWorkflow(t.Context(), victim, "", "by a person"); err != nil {
		t.Fatal(err)
	}
	took := await("the end is noticed", 5*time.Minute, func() bool {
		return strings.HasPrefix(one(`select reason from receipts where workflow_id = $1`, victim), receipt.RunTerminated)
	})
	t.Logf("of %d parked runs the terminated one was noticed after %s", parked, took.Round(100*time.Millisecond))
	if took > time.Minute {
		t.Errorf("noticed after %s, want within a minute", took)
	}
	if n := one(`select count(*)::text from receipts where reason like $1`, receipt.RunTerminated+"%"); n != "1" {
		t.Errorf("%s receipts report the end of their run, want 1", n)
	}
}
