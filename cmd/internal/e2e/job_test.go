package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/schematest"
)

// The path of the finance sink is wrong, so events park. After the repair, one command retries all of them. The
// worker that executes the job and the runs is killed during the job, and another worker continues. Each event gets
// its decision once, and each effect happens once. A repeated command with the same ID does not create a second job.
func TestKill_WorkerInTheMiddleOfAJob_EachEventOnce(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, short)
	parked := schematest.OrLong(24, 48)
	w.fault(fmt.Sprintf(`{"service":"finance","status":404,"next":%d}`, parked))
	in, worker := w.ingress(""), w.worker("")
	events := newInvoices(t, parked)
	w.deliverAll(in, events)
	w.awaitStatus(recovery, events, "dead")
	w.clearFaults()

	retry := []string{"retry", "--status", "dead", "--reason-code", "effect_failed", "--rate", "8", "--reason", "finance is mended", "--as", "e2e", "--request-id", "mended"}
	if p := w.pawl("events", "", retry...); p.exit(patience) != 1 || w.count(`select count(*) from jobs`) != 0 {
		t.Fatalf("a job was created without a confirmation: %s%s", p.stdout.String(), p.stderr.String())
	}
	for range 2 {
		if p := w.pawl("events", "", append(retry, "--yes")...); p.exit(patience) != 0 {
			t.Fatalf("events retry: %s", p.stderr.String())
		}
	}
	await(t, patience, func() error {
		if n := w.count(`select done from jobs`); n < parked/4 {
			return fmt.Errorf("%d of %d are done", n, parked)
		}
		return nil
	})
	worker.kill()
	killed := time.Now()
	atKill := w.count(`select done from jobs`)
	if atKill >= parked {
		t.Fatal("the job was over before the kill")
	}
	w.worker("")
	await(t, recovery, func() error {
		if n := w.count(`select count(*) from jobs where state = 'finished'`); n != 1 {
			return fmt.Errorf("the job is not finished: %v", w.rows(`select state, done, refused, failed from jobs`))
		}
		return nil
	})
	t.Logf("killed at %d of %d; finished %s after that", atKill, parked, time.Since(killed).Round(100*time.Millisecond))
	w.awaitStatus(recovery, events, processed, "needs_review")
	if n := w.count(`select done from jobs where refused = 0 and failed = 0`); n != parked {
		t.Errorf("%d of %d are done: %v", n, parked, w.rows(`select result, note, count(*) from job_items group by 1, 2`))
	}
	if n := w.count(`select count(*) from operator_actions where action = 'retry'`); n != parked {
		t.Errorf("the audit trail has %d decisions, want %d", n, parked)
	}
	w.checkOnceAtSinks(events, func(invoice) bool { return true })
}
