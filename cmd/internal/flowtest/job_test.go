package flowtest

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// bulkRig is a rig with some events that are parked because finance is down, and is well again.
type bulkRig struct {
	*rig
	jobs   *operator.Jobs
	events []forge.Event
}

// financeNotFound is a wrong path at finance: nothing is refused, and trying by itself is over at once.
const financeNotFound = `{"service":"finance","status":404,"next":%d}`

func newBulkRig(t *testing.T, parked int) *bulkRig {
	t.Helper()
	r := newRig(t, nil)
	b := &bulkRig{rig: r, jobs: &operator.Jobs{
		Store: job.New(r.Pool), Audit: audit.New(r.Pool, slog.New(slog.DiscardHandler)), Temporal: r.Temporal, TaskQueue: r.Config.Temporal.TaskQueue,
	}}
	r.fault(fmt.Sprintf(financeNotFound, parked))
	for range parked {
		e := purchase(t, "job-"+uuid.NewString()[:8], "invoice.paid", "starter")
		b.events = append(b.events, e)
		r.receive(e)
	}
	for _, e := range b.events {
		r.status(e, receipt.Dead)
	}
	r.clearFaults()
	return b
}

// retry is a job about all that is dead.
func (b *bulkRig) retry(id string, rate float64) (job.Job, operator.Chosen) {
	b.Helper()
	chosen, err := operator.ChooseEvents(b.Context(), b.Pool, operator.Events{Filter: timeline.Filter{Status: "dead"}})
	if err != nil {
		b.Fatal(err)
	}
	return job.Job{ID: id, Action: workflows.UpdateRetry, Filter: map[string]string{"status": "dead"}, Who: "ada", Why: "finance is back", Rate: rate}, chosen
}

// start starts a job that must be new.
func (b *bulkRig) start(j job.Job, chosen operator.Chosen) {
	b.Helper()
	if _, isNew, err := b.jobs.Start(b.Context(), j, chosen); err != nil || !isNew {
		b.Fatalf("start: new %t, %v", isNew, err)
	}
}

// await waits until the job is as wanted.
func (b *bulkRig) await(id, what string, is func(*operator.JobDetails) bool) (d *operator.JobDetails) {
	b.Helper()
	b.until("the job is "+what, func() bool {
		var err error
		if d, err = b.jobs.Show(b.Context(), id, "", 100); err != nil {
			b.Fatal(err)
		}
		return is(d)
	})
	return d
}

func state(s job.State) func(*operator.JobDetails) bool {
	return func(d *operator.JobDetails) bool { return d.State == s }
}

// One of the events is decided about by hand before its turn: that is refused, with the reason, and no failure. The
// request is sent twice, and is one job.
func TestJob_Retry_EachOnce_RefusedIsAResult(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 12)
	id := "retry-" + uuid.NewString()[:8]
	j, chosen := b.retry(id, 100)
	if len(chosen.Events) != 12 || len(chosen.Money) != 1 {
		t.Fatalf("chosen: %d events, money %v", len(chosen.Events), chosen.Money)
	}
	before := b.events[3]
	in := workflows.EventInput{Ref: event.Ref{Provider: "stripe", EventID: before.ID}}
	b.decide(in.ID(), workflows.UpdateRetry, workflows.DecisionInput{})
	b.status(before, receipt.Processed)
	b.start(j, chosen)
	if again, isNew, err := b.jobs.Start(t.Context(), j, operator.Chosen{}); err != nil || isNew || again.Items != 12 {
		t.Errorf("the same request: new %t, %+v, %v", isNew, again, err)
	}
	other := j
	other.Action = workflows.UpdateSkip
	if _, _, err := b.jobs.Start(t.Context(), other, chosen); err == nil || !strings.Contains(err.Error(), "is taken by another job") {
		t.Errorf("another request of the same ID: %v", err)
	}
	b.await(id, "finished", state(job.Finished))
	for _, e := range b.events {
		b.status(e, receipt.Processed)
	}
	d := b.await(id, "finished", state(job.Finished))
	if d.Done != 11 || d.Refused != 1 || d.Failed != 0 || d.Left() != 0 || fmt.Sprint(d.Events) != "[{processed  11}]" {
		t.Errorf("job %+v, events %v", d.Job, d.Events)
	}
	if r := d.List[0]; r.Result != job.Refused || r.EventID != before.ID || !strings.Contains(r.Note, "retry is for a parked run") {
		t.Errorf("refused: %+v", r)
	}
	if n := b.done("finance"); n != 12 {
		t.Errorf("finance has %d entries, want 12", n)
	}
	// The start, and each decision with who, why and the job, in one chain.
	if got := b.rows(`select action || ' ' || count(*) from operator_actions where actor = 'ada' and reason like 'finance is back%' group by action order by 1`); fmt.Sprint(got) != "[retry 11 start-job 1]" {
		t.Errorf("audit %v", got)
	}
	if _, rows, err := b.jobs.Audit.Verify(t.Context(), ""); err != nil || rows != 13 {
		t.Errorf("audit trail: %d rows, %v", rows, err)
	}
	if *update {
		writeGolden(t, "Job", "finished", b.history(workflows.JobInput{ID: id}.WorkflowID(), ""))
	}
}

func TestJob_PauseResumeCancel(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 10)
	id := "retry-" + uuid.NewString()[:8]
	j, chosen := b.retry(id, 2)
	b.start(j, chosen)
	b.await(id, "under way", func(d *operator.JobDetails) bool { return d.Done >= 2 })
	bob := func(why, request string) operator.Decided {
		return operator.Decided{Who: "bob", Why: why, RequestID: request}
	}
	if got, err := b.jobs.Pause(t.Context(), id, bob("finance complains", "one")); err != nil || got.Repeated {
		t.Fatal(got, err)
	}
	if got, err := b.jobs.Pause(t.Context(), id, bob("finance complains", "one")); err != nil || !got.Repeated || got.State != job.Paused {
		t.Errorf("repeated: %+v, %v", got, err)
	}
	if _, err := b.jobs.Cancel(t.Context(), id, bob("enough", "one")); err == nil || !strings.Contains(err.Error(), "request ID one stands for pause-job of "+id+" by bob") {
		t.Errorf("another decision under the same request ID: %v", err)
	}
	if _, err := b.jobs.Pause(t.Context(), id, bob("again", "")); err == nil || !strings.Contains(err.Error(), "paused already") {
		t.Errorf("paused twice: %v", err)
	}
	workflowID := workflows.JobInput{ID: id}.WorkflowID()
	var details string
	b.until("the run shows that it is paused", func() bool {
		details = b.currentDetails(workflowID)
		return strings.Contains(details, "paused by bob: finance complains")
	})
	paused := b.await(id, "paused", state(job.Paused))
	if paused.Done >= 9 || !strings.Contains(details, fmt.Sprintf("| done | %d |", paused.Done)) {
		t.Fatalf("%d are done in a paused job; its run shows\n%s", paused.Done, details)
	}
	if n := b.done("finance"); n > paused.Done {
		t.Errorf("finance has %d entries, of %d decisions", n, paused.Done)
	}
	if _, err := b.jobs.Resume(t.Context(), id, bob("they are well", "")); err != nil {
		t.Fatal(err)
	}
	if got, err := b.jobs.Pause(t.Context(), id, bob("finance complains", "one")); err != nil || !got.Repeated || got.State != job.Running {
		t.Errorf("repeated once it goes on: %+v, %v", got, err)
	}
	b.await(id, "going on", func(d *operator.JobDetails) bool { return d.Done > paused.Done })
	if _, err := b.jobs.Cancel(t.Context(), id, bob("enough", "")); err != nil {
		t.Fatal(err)
	}
	var p workflows.JobProgress
	if err := b.Temporal.GetWorkflow(t.Context(), workflowID, "").Get(t.Context(), &p); err != nil || p.State != "cancelled" {
		t.Errorf("the run ended %+v, %v", p, err)
	}
	d := b.await(id, "cancelled", state(job.Cancelled))
	if d.Left() == 0 || d.Done+d.Left() != 10 || d.StateNote != "cancelled by bob: enough" {
		t.Errorf("job %+v", d.Job)
	}
	// What was not begun is as it was.
	if n := b.rows(`select count(*)::text from receipts where status = 'dead'`); n[0] != fmt.Sprint(d.Left()) {
		t.Errorf("%s events are dead, want %d", n[0], d.Left())
	}
	for verb, move := range map[string]func() error{
		"resume": func() error { _, err := b.jobs.Resume(t.Context(), id, bob("x", "")); return err },
		"cancel": func() error { _, err := b.jobs.Cancel(t.Context(), id, bob("x", "")); return err },
	} {
		if err := move(); err == nil || !strings.Contains(err.Error(), "is cancelled") {
			t.Errorf("%s of a cancelled job: %v", verb, err)
		}
	}
	if got := b.rows(`select action from operator_actions where actor = 'bob' order by id`); fmt.Sprint(got) != "[pause-job resume-job cancel-job]" {
		t.Errorf("audit %v", got)
	}
	if *update {
		writeGolden(t, "Job", "paused-resumed-cancelled", b.history(workflowID, ""))
	}
}

// The run was ended in Temporal. Resume starts another, which goes on where that one was.
func TestJob_RunTerminated_ResumeGoesOn(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 6)
	id := "retry-" + uuid.NewString()[:8]
	j, chosen := b.retry(id, 2)
	b.start(j, chosen)
	b.await(id, "under way", func(d *operator.JobDetails) bool { return d.Done >= 1 })
	workflowID := workflows.JobInput{ID: id}.WorkflowID()
	if err := b.Temporal.TerminateWorkflow(t.Context(), workflowID, "", "a test"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.jobs.Resume(t.Context(), id, operator.Decided{Who: "ada", Why: "its run was ended"}); err != nil {
		t.Fatal(err)
	}
	d := b.await(id, "finished", state(job.Finished))
	if d.Done != 6 || d.Refused != 0 || d.Failed != 0 {
		t.Errorf("job %+v: %+v", d.Job, d.List)
	}
	for _, e := range b.events {
		b.status(e, receipt.Processed)
	}
	if n := b.done("finance"); n != 6 {
		t.Errorf("finance has %d entries, want 6", n)
	}
}

// The command dies between the commit of the job and the start of its run: a worker starts it, by itself and once. A run
// that somebody has terminated since is not started again.
func TestJob_CommandDiesBeforeTheStart_WorkerStartsIt(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 3)
	id := "retry-" + uuid.NewString()[:8]
	j, chosen := b.retry(id, 0.5)
	var items []job.Item
	for _, e := range chosen.Events {
		items = append(items, job.Item{ReceiptID: e.Receipt, EventID: e.EventID})
	}
	if _, made, err := b.jobs.Store.Make(t.Context(), j, items); err != nil || !made {
		t.Fatalf("made %t, %v", made, err)
	}
	if _, err := b.Pool.Exec(t.Context(), `update jobs set created_at = created_at - interval '1 minute'`); err != nil {
		t.Fatal(err)
	}
	b.await(id, "under way", func(d *operator.JobDetails) bool { return d.Done >= 1 })
	workflowID := workflows.JobInput{ID: id}.WorkflowID()
	if err := b.Temporal.TerminateWorkflow(t.Context(), workflowID, "", "a test"); err != nil {
		t.Fatal(err)
	}
	if err := b.jobs.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, err := b.Temporal.DescribeWorkflowExecution(t.Context(), workflowID, "")
	if err != nil || run.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
		t.Errorf("after it was terminated: %v, %v", run.GetWorkflowExecutionInfo().GetStatus(), err)
	}
	if _, err := b.jobs.Resume(t.Context(), id, operator.Decided{Who: "ada", Why: "go on"}); err != nil {
		t.Fatal(err)
	}
	b.await(id, "finished", state(job.Finished))
	if n := b.done("finance"); n != 3 {
		t.Errorf("finance has %d entries, want 3", n)
	}
}

// Cancelling the run in Temporal, whose button is there, cancels the job, and says who did not say more.
func TestJob_RunCancelledInTemporal_JobCancelled(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 5)
	id := "retry-" + uuid.NewString()[:8]
	j, chosen := b.retry(id, 0.2)
	b.start(j, chosen)
	b.await(id, "under way", func(d *operator.JobDetails) bool { return d.Done >= 1 })
	workflowID := workflows.JobInput{ID: id}.WorkflowID()
	if err := b.Temporal.CancelWorkflow(t.Context(), workflowID, ""); err != nil {
		t.Fatal(err)
	}
	d := b.await(id, "cancelled", state(job.Cancelled))
	if d.Left() == 0 || !strings.Contains(d.StateNote, "cancelled in Temporal") {
		t.Errorf("job %+v", d.Job)
	}
	if err := b.Temporal.GetWorkflow(t.Context(), workflowID, "").Get(t.Context(), nil); err != nil {
		t.Errorf("the run ended with %v", err)
	}
	if *update {
		writeGolden(t, "Job", "run-cancelled", b.history(workflowID, ""))
	}
}

// The rate is held.
func TestJob_Rate(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 6)
	id := "retry-" + uuid.NewString()[:8]
	j, chosen := b.retry(id, 2)
	b.start(j, chosen)
	b.await(id, "finished", state(job.Finished))
	var took time.Duration
	if err := b.Pool.QueryRow(t.Context(), `select max(at) - min(at) from operator_actions where action = 'retry'`).Scan(&took); err != nil {
		t.Fatal(err)
	}
	if took < 2*time.Second {
		t.Errorf("six decisions at 2 a second took %s", took)
	}
}
