package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	events "github.com/pawlhq/pawl/cmd/internal/operator/event"
	jobs "github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/operator/task"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
	jobruns "github.com/pawlhq/pawl/workflows/jobs"
)

// bulkRig is a rig with some parked events. The events parked because the finance sink was down. It works again.
type bulkRig struct {
	*rig
	events []forge.Event
}

// financeNotFound makes the finance sink answer 404. pawl does not treat 404 as a refusal, and stops its automatic
// retries.
const financeNotFound = `{"service":"finance","status":404,"next":%d}`

func newBulkRig(t *testing.T, parked int) *bulkRig {
	t.Helper()
	r := newRig(t, nil)
	b := &bulkRig{rig: r}
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

// retry returns a job that retries all dead events.
func (b *bulkRig) retry(rate float64) *decide.NewJob {
	b.Helper()
	chosen, err := events.Choose(b.Context(), b.Pool, events.Filter{Filter: timeline.Filter{Status: "dead"}})
	if err != nil {
		b.Fatal(err)
	}
	return &decide.NewJob{Job: job.Job{Action: workflows.UpdateRetry, Filter: map[string]string{"status": "dead"}, Rate: rate}, Chosen: chosen}
}

// start starts a job in the name of the operator ada.
func (b *bulkRig) start(id string, j *decide.NewJob) (*decide.Answer, error) {
	return b.operator().Decide(b.Context(), decide.Decision{
		Verb: jobs.Start.Name, Target: id, Request: id, Actor: "ada", Reason: "finance is back", Args: decide.Args{Found: j},
	})
}

// mustStart starts a job, and fails if the job exists.
func (b *bulkRig) mustStart(id string, j *decide.NewJob) {
	b.Helper()
	if a, err := b.start(id, j); err != nil || a.Repeated {
		b.Fatalf("start: %+v, %v", a, err)
	}
}

// await waits until the job's details satisfy the condition.
func (b *bulkRig) await(id, what string, is func(*jobs.Details) bool) (d *jobs.Details) {
	b.Helper()
	b.until("the job is "+what, func() bool {
		var err error
		if d, err = jobs.Show(b.Context(), b.operator(), id, "", 100); err != nil {
			b.Fatal(err)
		}
		return is(d)
	})
	return d
}

func state(s job.State) func(*jobs.Details) bool {
	return func(d *jobs.Details) bool { return d.State == s }
}

// A person decides about one of the events before the job reaches it. The job's decision about this event is then
// refused with a reason, and is not counted as a failure. The request is sent twice and creates one job.
func TestJob_Retry_EachOnce_RefusedIsAResult(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 12)
	id := "retry-" + uuid.NewString()[:8]
	j := b.retry(100)
	if len(j.Chosen.Events) != 12 || len(j.Chosen.Money) != 1 {
		t.Fatalf("chosen: %d events, money %v", len(j.Chosen.Events), j.Chosen.Money)
	}
	before := b.events[3]
	in := workflows.EventInput{Ref: event.Ref{Provider: "stripe", EventID: before.ID}}
	b.decide(in.ID(), workflows.UpdateRetry, workflows.DecisionInput{})
	b.status(before, receipt.Processed)
	b.mustStart(id, j)
	if again, err := b.start(id, j); err != nil || !again.Repeated || again.Result.(*job.Job).Items != 12 {
		t.Errorf("the same request: %+v, %v", again, err)
	}
	other := *j
	other.Action = workflows.UpdateSkip
	if _, err := b.start(id, &other); err == nil || !strings.Contains(err.Error(), "belongs to start-job of "+id) {
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
	if r := d.List[0]; r.Result != job.Refused || r.Name != before.ID || !strings.Contains(r.Note, "retry is for a run that waits") {
		t.Errorf("refused: %+v", r)
	}
	if n := b.done("finance"); n != 12 {
		t.Errorf("finance has %d entries, want 12", n)
	}
	// The audit trail contains the start and each decision, with actor, reason and job, in one hash chain.
	if got := b.rows(`select action || ' ' || count(*) from operator_actions where actor = 'ada' and reason like 'finance is back%' group by action order by 1`); fmt.Sprint(got) != "[retry 11 start-job 1]" {
		t.Errorf("audit %v", got)
	}
	if _, rows, err := b.operator().Audit.Verify(t.Context(), ""); err != nil || rows != 13 {
		t.Errorf("audit trail: %d rows, %v", rows, err)
	}
	if recording() {
		writeGolden(t, "Job", "finished", b.history(jobruns.Input{ID: id}.WorkflowID(), ""))
	}
}

// A job closes all tasks with the same cause once each, in the name of the person who decided. If a person closed a
// task before, the job skips it as refused.
func TestJob_CloseTasks(t *testing.T) {
	t.Parallel()
	b := &bulkRig{rig: newRig(t, nil)}
	b.exec(`insert into tasks (mode, kind, object, account, state, title, effect_key)
		select m, 'unknown_price', a || ':price/1', a, 'open', 'say', '' from unnest(array['live', 'test']) m, unnest(array['acme', 'umbrella corp']) a`)
	j := &decide.NewJob{Job: job.Job{Action: job.CloseTask, Filter: map[string]string{"kind": "unknown_price"}, Rate: 100}}
	for _, object := range []string{"acme:price/1", "umbrella corp:price/1"} {
		j.Others = append(j.Others, job.Item{Target: "live/unknown_price/" + object, Name: object})
	}
	b.says("bob", task.Close.Name, "acme:price/1", "is ours", decide.Args{Mode: "live"})
	id := "close-task-" + uuid.NewString()[:8]
	b.mustStart(id, j)
	d := b.await(id, "finished", state(job.Finished))
	if d.Done != 1 || d.Refused != 1 || d.Failed != 0 || len(d.Events) != 0 {
		t.Errorf("job %+v, events %v", d.Job, d.Events)
	}
	var notes []string
	for _, i := range d.List {
		notes = append(notes, i.Name+": "+i.Note)
	}
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "acme:price/1: has no open task") ||
		notes[1] != "umbrella corp:price/1: unknown_price of umbrella corp:price/1 (live) is done" {
		t.Errorf("items %q", notes)
	}
	if got, want := b.rows(`select mode || ' ' || object || ' ' || state from tasks order by 1`), []string{"live acme:price/1 done",
		"live umbrella corp:price/1 done", "test acme:price/1 open", "test umbrella corp:price/1 open"}; !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
	if got, want := b.rows(`select action || ' ' || actor || ' ' || target from operator_actions order by 1`), []string{
		"close-task ada umbrella corp:price/1", "close-task bob acme:price/1", "start-job ada " + id}; !slices.Equal(got, want) {
		t.Errorf("audit trail %q, want %q", got, want)
	}
}

func TestJob_PauseResumeCancel(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 10)
	id := "retry-" + uuid.NewString()[:8]
	j := b.retry(2)
	b.mustStart(id, j)
	b.await(id, "under way", func(d *jobs.Details) bool { return d.Done >= 2 })
	bob := func(verb, why, request string) (*decide.Answer, error) {
		return b.operator().Decide(t.Context(), decide.Decision{Verb: verb + "-job", Target: id, Actor: "bob", Reason: why, Request: request})
	}
	stateOf := func(a *decide.Answer) job.State { return a.Result.(*job.Job).State }
	if got, err := bob("pause", "finance complains", "one"); err != nil || got.Repeated {
		t.Fatal(got, err)
	}
	if got, err := bob("pause", "finance complains", "one"); err != nil || !got.Repeated || stateOf(got) != job.Paused {
		t.Errorf("repeated: %+v, %v", got, err)
	}
	if _, err := bob("cancel", "enough", "one"); err == nil || !strings.Contains(err.Error(), "request ID one belongs to pause-job of "+id) {
		t.Errorf("another decision under the same request ID: %v", err)
	}
	if _, err := bob("pause", "again", ""); err == nil || !strings.Contains(err.Error(), "paused already") {
		t.Errorf("paused twice: %v", err)
	}
	workflowID := jobruns.Input{ID: id}.WorkflowID()
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
	if _, err := bob("resume", "they are well", ""); err != nil {
		t.Fatal(err)
	}
	if got, err := bob("pause", "finance complains", "one"); err != nil || !got.Repeated || stateOf(got) != job.Running {
		t.Errorf("repeated while it runs: %+v, %v", got, err)
	}
	b.await(id, "going on", func(d *jobs.Details) bool { return d.Done > paused.Done })
	if _, err := bob("cancel", "enough", ""); err != nil {
		t.Fatal(err)
	}
	var p jobruns.Progress
	if err := b.Temporal.GetWorkflow(t.Context(), workflowID, "").Get(t.Context(), &p); err != nil || p.State != "cancelled" {
		t.Errorf("the run ended %+v, %v", p, err)
	}
	d := b.await(id, "cancelled", state(job.Cancelled))
	if d.Left() == 0 || d.Done+d.Left() != 10 || d.StateNote != "cancelled by bob: enough" {
		t.Errorf("job %+v", d.Job)
	}
	// Items that the job has not started are unchanged.
	if n := b.rows(`select count(*)::text from receipts where status = 'dead'`); n[0] != fmt.Sprint(d.Left()) {
		t.Errorf("%s events are dead, want %d", n[0], d.Left())
	}
	for _, verb := range []string{"resume", "cancel"} {
		if _, err := bob(verb, "x", ""); err == nil || !strings.Contains(err.Error(), "is cancelled") {
			t.Errorf("%s of a cancelled job: %v", verb, err)
		}
	}
	if got := b.rows(`select action from operator_actions where actor = 'bob' order by id`); fmt.Sprint(got) != "[pause-job resume-job cancel-job]" {
		t.Errorf("audit %v", got)
	}
	if recording() {
		writeGolden(t, "Job", "paused-resumed-cancelled", b.history(workflowID, ""))
	}
}

// A person terminates the run of the job in Temporal. Resume starts another run, which continues with the remaining
// items.
func TestJob_RunTerminated_ResumeGoesOn(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 6)
	id := "retry-" + uuid.NewString()[:8]
	j := b.retry(2)
	b.mustStart(id, j)
	b.await(id, "under way", func(d *jobs.Details) bool { return d.Done >= 1 })
	workflowID := jobruns.Input{ID: id}.WorkflowID()
	if err := b.Temporal.TerminateWorkflow(t.Context(), workflowID, "", "a test"); err != nil {
		t.Fatal(err)
	}
	b.says("ada", "resume-job", id, "its run was ended", decide.Args{})
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

// The command is killed after it commits the job and before it starts the run. A worker starts the run once. It does
// not restart a run that was terminated later.
func TestJob_CommandDiesBeforeTheStart_WorkerStartsIt(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 3)
	id := "retry-" + uuid.NewString()[:8]
	j := b.retry(0.5)
	var items []job.Item
	for _, e := range j.Chosen.Events {
		items = append(items, job.Item{Target: e.Receipt, Name: e.EventID})
	}
	j.ID, j.Actor, j.Reason = id, "ada", "finance is back"
	if err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error { return job.MakeIn(t.Context(), tx, j.Job, items) }); err != nil {
		t.Fatal(err)
	}
	if _, err := b.eyes.Exec(t.Context(), `update jobs set created_at = created_at - interval '1 minute'`); err != nil {
		t.Fatal(err)
	}
	b.await(id, "under way", func(d *jobs.Details) bool { return d.Done >= 1 })
	workflowID := jobruns.Input{ID: id}.WorkflowID()
	if err := b.Temporal.TerminateWorkflow(t.Context(), workflowID, "", "a test"); err != nil {
		t.Fatal(err)
	}
	if err := jobs.Sweep(t.Context(), b.operator()); err != nil {
		t.Fatal(err)
	}
	run, err := b.Temporal.DescribeWorkflow(t.Context(), workflowID, "")
	if err != nil {
		t.Fatal(err)
	}
	if run.Status != enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
		t.Errorf("after it was terminated: %v", run.Status)
	}
	b.says("ada", "resume-job", id, "go on", decide.Args{})
	b.await(id, "finished", state(job.Finished))
	if n := b.done("finance"); n != 3 {
		t.Errorf("finance has %d entries, want 3", n)
	}
}

// Cancelling the run in Temporal cancels the job, with the Temporal user as the actor.
func TestJob_RunCancelledInTemporal_JobCancelled(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 5)
	id := "retry-" + uuid.NewString()[:8]
	j := b.retry(0.2)
	b.mustStart(id, j)
	b.await(id, "under way", func(d *jobs.Details) bool { return d.Done >= 1 })
	workflowID := jobruns.Input{ID: id}.WorkflowID()
	if err := b.Temporal.CancelWorkflow(t.Context(), workflowID, ""); err != nil {
		t.Fatal(err)
	}
	d := b.await(id, "cancelled", state(job.Cancelled))
	if d.Left() == 0 || !strings.Contains(d.StateNote, "cancelled by Temporal") {
		t.Errorf("job %+v", d.Job)
	}
	if err := b.Temporal.GetWorkflow(t.Context(), workflowID, "").Get(t.Context(), nil); err != nil {
		t.Errorf("the run ended with %v", err)
	}
	if recording() {
		writeGolden(t, "Job", "run-cancelled", b.history(workflowID, ""))
	}
}

// The job does not exceed its rate.
func TestJob_Rate(t *testing.T) {
	t.Parallel()
	b := newBulkRig(t, 6)
	id := "retry-" + uuid.NewString()[:8]
	j := b.retry(2)
	b.mustStart(id, j)
	b.await(id, "finished", state(job.Finished))
	var took time.Duration
	if err := b.Pool.QueryRow(t.Context(), `select max(at) - min(at) from operator_actions where action = 'retry'`).Scan(&took); err != nil {
		t.Fatal(err)
	}
	if took < 2*time.Second {
		t.Errorf("six decisions at 2 a second took %s", took)
	}
}
