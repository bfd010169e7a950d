package dispatch_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

func (tp *temporal) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.asked++
	if tp.unseen != nil && tp.unseen(id) {
		return nil, serviceerror.NewInternal("shard status unknown")
	}
	s, ok := tp.runs[id]
	if !ok {
		return nil, serviceerror.NewNotFound("workflow not found")
	}
	if tp.meanwhile != nil {
		tp.meanwhile()
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: tp.info(id, s),
		PendingWorkflowTask:   &workflowpb.PendingWorkflowTaskInfo{Attempt: tp.tries},
	}, nil
}

// GetWorkflowHistory returns the last event of a run that a person has ended.
func (tp *temporal) GetWorkflowHistory(_ context.Context, _, _ string, _ bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	if filter != enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT {
		return &history{err: serviceerror.NewInvalidArgument("another filter than this fake knows")}
	}
	return &history{err: tp.noHistory, events: []*historypb.HistoryEvent{{
		EventTime: timestamppb.Now(), Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
			WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Identity: "ada@laptop", Reason: "customer called"},
		},
	}}}
}

// history simulates a history with one event, or an error.
type history struct {
	events []*historypb.HistoryEvent
	err    error
}

func (h *history) HasNext() bool { return h.err != nil || len(h.events) > 0 }

func (h *history) Next() (*historypb.HistoryEvent, error) {
	if h.err != nil {
		return nil, h.err
	}
	next := h.events[0]
	h.events = h.events[1:]
	return next, nil
}

// info is Temporal's description of a run.
func (tp *temporal) info(id string, s started) *workflowpb.WorkflowExecutionInfo {
	status := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if tp.ended != 0 && (tp.only == "" || tp.only == id) {
		status = tp.ended
	}
	whose, err := converter.GetDefaultDataConverter().ToPayload(s.in.ReceiptID)
	if err != nil {
		panic(err)
	}
	return &workflowpb.WorkflowExecutionInfo{
		Type: &commonpb.WorkflowType{Name: s.flow}, Status: status, Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run-1"}, StartTime: timestamppb.Now(),
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{workflows.PawlReceipt.GetName(): whose}},
	}
}

func (tp *temporal) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.lists++
	if tp.noList != nil {
		return nil, tp.noList
	}
	if r.Query != "ExecutionStatus = 'Running' AND PawlReceipt IS NOT NULL" {
		return nil, serviceerror.NewInvalidArgument("another query than this fake answers: " + r.Query)
	}
	ids := slices.Sorted(maps.Keys(tp.runs))
	from, _ := slices.BinarySearch(ids, string(r.NextPageToken))
	to := min(from+int(r.PageSize), len(ids))
	page := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range ids[from:to] {
		info := tp.info(id, tp.runs[id])
		if (info.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || tp.stale) && (tp.unlisted == nil || !tp.unlisted(id)) {
			page.Executions = append(page.Executions, info)
		}
	}
	if to < len(ids) {
		page.NextPageToken = []byte(ids[to])
	}
	return page, nil
}

// begun returns a receipt whose run has started and was silent long enough to be checked.
func begun(t *testing.T, b *bench) receipt.Pending {
	t.Helper()
	p := b.insert(t)
	b.due(t)
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err != nil {
		t.Fatalf("found %d, %v", found, err)
	}
	b.silent(t)
	return p
}

// silent moves the last report of every run one hour into the past.
func (b *bench) silent(t *testing.T) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), `update receipts set updated_at = now() - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) searchOnce(t *testing.T) int {
	t.Helper()
	mended, err := b.d.SearchOnce(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return mended
}

func (b *bench) searchSample(t *testing.T) int {
	t.Helper()
	mended, err := b.d.SearchSample(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return mended
}

func TestSearchOnce_TemporalForgotTheRun_StartedAgainUnderItsID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := begun(t, b)
	b.temporal.set(func(tp *temporal) { clear(tp.runs) })

	if got := b.searchOnce(t); got != 1 {
		t.Fatalf("mended %d runs, want 1", got)
	}
	if s, ok := b.temporal.get("stripe:evt_1"); !ok || s.in.ReceiptID != p.ReceiptID {
		t.Errorf("started %+v, %v; want the receipt's run", s, ok)
	}
	if got := b.searchOnce(t); got != 0 {
		t.Errorf("searched again at once and mended %d", got)
	}
}

func TestSearchOnce_RunIsThere_LeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := begun(t, b)
	if got := b.searchOnce(t); got != 0 {
		t.Errorf("mended %d runs, want none", got)
	}
	if got := b.status(t, p.ReceiptID); got != receipt.Processing {
		t.Errorf("receipt is %s, want processing", got)
	}
}

func TestSearchOnce_RunEndedFromOutside_ReceiptSaysSo(t *testing.T) {
	t.Parallel()
	for _, ended := range []enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT} {
		t.Run(ended.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := begun(t, b)
			b.temporal.set(func(tp *temporal) { tp.ended = ended })
			if got := b.searchOnce(t); got != 1 {
				t.Fatalf("mended %d, want 1", got)
			}
			if r := b.get(t, p.ReceiptID); r.Status != receipt.NeedsReview || !strings.Contains(strings.ToLower(r.Reason), strings.ToLower(ended.String())) {
				t.Errorf("receipt is %s (%s); want needs_review with the reason", r.Status, r.Reason)
			}
		})
	}
}

// A person's action in Temporal is shown on the receipt, in the timeline and with the run, with the details that
// Temporal provides.
func TestSearchOnce_RunTerminated_ByWhomAndWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		noHistory error
		mended    int
		reason    string
		noted     string
	}{
		"Temporal tells": {nil, 1, "run_terminated: the run was terminated in Temporal by ada@laptop (customer called); ", "terminated|ada@laptop|customer called"},
		"it may not be asked": {
			serviceerror.NewPermissionDenied("no", ""), 1, "run_terminated: the run was terminated in Temporal; ", "terminated||",
		},
		"it does not answer now": {serviceerror.NewUnavailable("no"), 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := begun(t, b)
			b.temporal.set(func(tp *temporal) {
				tp.ended, tp.noHistory = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, c.noHistory
			})
			mended, err := b.d.SearchOnce(t.Context(), time.Minute)
			if mended != c.mended || (err == nil) != (c.mended == 1) {
				t.Fatalf("mended %d, %v; want %d", mended, err, c.mended)
			}
			if r := b.get(t, p.ReceiptID); !strings.HasPrefix(r.Reason, c.reason) {
				t.Errorf("receipt is %s (%s), want %s", r.Status, r.Reason, c.reason)
			}
			var noted, run string
			if err := b.pool.QueryRow(t.Context(), `
				select coalesce((select concat_ws('|', what, who, why) from interventions where workflow_id = 'stripe:evt_1' and run_id = 'run-1' and receipt_id = $1::uuid), ''),
				       outcome || ' ' || (closed_at is not null) from runs`, p.ReceiptID).Scan(&noted, &run); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]string{true: "terminated true", false: " false"}[c.mended == 1]; noted != c.noted || run != want {
				t.Errorf("noted %q, run %q; want %q, %q", noted, run, c.noted, want)
			}
		})
	}
}

// If a run is incompatible with the current code of its flow, Temporal retries its workflow task forever. pawl must
// park the receipt, because operators would ignore an event with status retrying.
func TestSearchSample_WorkflowTaskFailsForEver_ReceiptSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := begun(t, b)
	for _, tt := range []struct {
		tries  int32
		mended int
		want   receipt.Status
	}{{2, 0, receipt.Processing}, {9, 1, receipt.NeedsReview}, {10, 0, receipt.NeedsReview}} {
		b.temporal.set(func(tp *temporal) { tp.tries = tt.tries })
		b.silent(t)
		if got := b.searchSample(t); got != tt.mended {
			t.Errorf("after %d tries: mended %d, want %d", tt.tries, got, tt.mended)
		}
		r, err := b.store.Get(t.Context(), p.ReceiptID)
		if err != nil || r.Status != tt.want || (r.Status == receipt.NeedsReview) != strings.Contains(r.Reason, "failed 9 times") {
			t.Errorf("after %d tries: receipt is %s (%s), %v; want %s", tt.tries, r.Status, r.Reason, err, tt.want)
		}
	}
}

// A run was terminated, and days later Temporal no longer stores it. pawl must not run its effects.
func TestSearchOnce_RunTerminated_ThenForgotten_NotStartedAgain(t *testing.T) {
	t.Parallel()
	for _, before := range []receipt.Status{receipt.Processing, receipt.NeedsReview, receipt.Dead} {
		t.Run(string(before), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := begun(t, b)
			if err := b.store.Transition(t.Context(), p.ReceiptID, before, "plan unknown", ""); err != nil {
				t.Fatal(err)
			}
			b.silent(t)
			b.temporal.set(func(tp *temporal) { tp.ended = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED })
			if got := b.searchOnce(t); got != 1 {
				t.Fatalf("mended %d, want 1", got)
			}
			b.silent(t)
			if got := b.searchOnce(t); got != 0 {
				t.Errorf("searched again and mended %d, want none", got)
			}
			b.silent(t)
			b.temporal.set(func(tp *temporal) { clear(tp.runs) })
			if got := b.searchOnce(t); got != 0 {
				t.Errorf("after Temporal's retention: mended %d, want none", got)
			}
			if n := len(b.temporal.runs); n != 0 {
				t.Errorf("%d runs were started, want none", n)
			}
			r, err := b.store.Get(t.Context(), p.ReceiptID)
			if err != nil || r.Status != receipt.NeedsReview || !strings.HasPrefix(r.Reason, "run_terminated: ") || !strings.Contains(r.Reason, "plan unknown") {
				t.Errorf("receipt is %s (%s), %v; want it parked with its former reason", r.Status, r.Reason, err)
			}
			// as `pawl events start` does
			if err := b.store.Transition(t.Context(), p.ReceiptID, receipt.Received, "", ""); err != nil {
				t.Fatal(err)
			}
			if _, _, err := b.d.SweepOnce(t.Context()); err != nil || b.status(t, p.ReceiptID) != receipt.Processing || len(b.temporal.runs) != 1 {
				t.Errorf("run after all: %v, receipt %s, %d runs; want one", err, b.status(t, p.ReceiptID), len(b.temporal.runs))
			}
		})
	}
}

// A completed run can no longer finish its receipt, so pawl parks a receipt that the run left open.
func TestSearchOnce_RunCompleted_ReceiptOpen_Parked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := begun(t, b)
	b.temporal.set(func(tp *temporal) { tp.ended = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED })
	if got := b.searchOnce(t); got != 1 {
		t.Fatalf("mended %d, want 1", got)
	}
	r, err := b.store.Get(t.Context(), p.ReceiptID)
	if err != nil || r.Status != receipt.NeedsReview || !strings.HasPrefix(r.Reason, "run_terminated: the run completed") {
		t.Errorf("receipt is %s (%s), %v; want it parked with the reason", r.Status, r.Reason, err)
	}
}

// If a run finishes while pawl checks it, its result stays.
func TestSearchOnce_RunCompletesMeanwhile_LeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := begun(t, b)
	b.temporal.set(func(tp *temporal) {
		tp.ended = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		tp.meanwhile = func() {
			if _, err := b.starts.MarkFinished(t.Context(), run.Finished{Ref: p.Ref, WorkflowID: "stripe:evt_1", RunID: "run-1",
				StartedAt: time.Now(), Outcome: "processed", Status: receipt.Processed}); err != nil {
				t.Error(err)
			}
		}
	})
	if got := b.searchOnce(t); got != 0 {
		t.Errorf("mended %d, want none", got)
	}
	if got := b.status(t, p.ReceiptID); got != receipt.Processed {
		t.Errorf("receipt is %s, want processed", got)
	}
}

// A suspended worker resumes after its run has ended elsewhere, and parks the receipt with an outdated state. No run
// waits for a decision, so pawl restores the result of the run.
func TestSearchOnce_ParkedAfterItsRunHasFinished_AsItEnded(t *testing.T) {
	t.Parallel()
	for _, outcome := range []receipt.Status{receipt.Processed, receipt.Compensated} {
		for _, late := range []receipt.Status{receipt.NeedsReview, receipt.Dead, receipt.Retrying} {
			t.Run(string(outcome)+" "+string(late), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				p := begun(t, b)
				if _, err := b.starts.MarkFinished(t.Context(), run.Finished{Ref: p.Ref, WorkflowID: "stripe:evt_1", RunID: "run-1",
					StartedAt: time.Now(), Outcome: string(outcome), Status: outcome}); err != nil {
					t.Fatal(err)
				}
				if err := b.store.Transition(t.Context(), p.ReceiptID, late, "plan unknown", "plan unknown"); err != nil {
					t.Fatal(err)
				}
				b.silent(t)
				if got := b.searchOnce(t); got != 0 {
					t.Fatalf("mended %d while the run is open, want none", got)
				}
				b.silent(t)
				b.temporal.set(func(tp *temporal) { tp.ended = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED })
				if got := b.searchOnce(t); got != 1 {
					t.Errorf("mended %d, want 1", got)
				}
				r, err := b.store.Get(t.Context(), p.ReceiptID)
				if err != nil || r.Status != outcome || strings.Contains(r.Reason, "plan unknown") || r.LastError != "" {
					t.Errorf("receipt is %s (%s, %s), %v; want it %s", r.Status, r.Reason, r.LastError, err, outcome)
				}
			})
		}
	}
}

// A run that Temporal cannot describe does not affect the checks of other runs. If Temporal can describe no run, the
// search stops after a few requests.
func TestSearchOnce_SomeCannotBeChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unseen       func(id string) bool
		mended, most int
	}{
		"one": {func(id string) bool { return id == "stripe:evt_1" }, 19, 20},
		// three failures, plus the requests that run concurrently with the third
		"none": {func(string) bool { return true }, 0, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for i := range 19 {
				b.insert(t, id(fmt.Sprint("other_", i)))
			}
			b.due(t)
			if _, _, err := b.d.SweepOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			begun(t, b)
			b.temporal.set(func(tp *temporal) { tp.unseen, tp.ended = c.unseen, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED })
			mended, err := b.d.SearchOnce(t.Context(), time.Minute)
			if mended != c.mended || err == nil || b.temporal.asked > c.most {
				t.Errorf("mended %d with %d questions, %v; want %d with %d at most, and an error", mended, b.temporal.asked, err, c.mended, c.most)
			}
		})
	}
}

// With any number of parked runs, the search finds a terminated run by Temporal's list, with one page per thousand
// runs, and describes only this run.
func TestSearchOnce_OneOfManyTerminated_FoundByList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const parked = 2500
	if _, err := b.pool.Exec(t.Context(), `
		insert into receipts (id, source, provider, mode, event_id, identity, received_at, body_hash, status, reason, workflow_id, updated_at)
		select gen_random_uuid(), 's', 'stripe', 'live', 'evt_' || i, 'id', now(), '', 'needs_review', 'plan unknown', 'stripe:evt_' || i, now() - interval '1 hour'
		  from generate_series(1, $1) i`, parked); err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	rows, err := b.pool.Query(t.Context(), `select workflow_id, id::text from receipts`)
	if err != nil {
		t.Fatal(err)
	}
	var workflowID, id string
	if _, err := pgx.ForEachRow(rows, []any{&workflowID, &id}, func() error { ids[workflowID] = id; return nil }); err != nil {
		t.Fatal(err)
	}
	for workflowID, id := range ids {
		b.temporal.runs[workflowID] = started{flow: "InvoicePaid", in: workflows.EventInput{Ref: event.Ref{ReceiptID: id}}}
	}
	b.temporal.ended, b.temporal.only = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, "stripe:evt_1234"
	if got := b.searchOnce(t); got != 1 || b.temporal.asked != 1 || b.temporal.lists != 3 {
		t.Errorf("mended %d with %d pages and %d questions; want 1, 3 and 1", got, b.temporal.lists, b.temporal.asked)
	}
	if r := b.get(t, ids["stripe:evt_1234"]); !strings.HasPrefix(r.Reason, receipt.RunTerminated) {
		t.Errorf("receipt is %s (%s), want the reason that its run has ended", r.Status, r.Reason)
	}
}

// Temporal's list may be outdated. If a run is missing in the list, the search describes it and finds it running. If
// an ended run is still in the list, a later search finds it.
func TestSearch_ListIsWrong_RunItselfDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list          func(*temporal)
		once, closely int
	}{
		"lacks a run":    {func(tp *temporal) { tp.unlisted = func(string) bool { return true } }, 0, 0},
		"has an old one": {func(tp *temporal) { tp.ended, tp.stale = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, true }, 0, 1},
		"cannot be asked": {func(tp *temporal) {
			tp.ended, tp.noList = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, serviceerror.NewUnavailable("no")
		}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			begun(t, b)
			b.temporal.set(c.list)
			mended, err := b.d.SearchOnce(t.Context(), time.Minute)
			if mended != c.once || (err != nil) != (b.temporal.noList != nil) {
				t.Errorf("by list: mended %d, %v; want %d", mended, err, c.once)
			}
			if got := b.searchSample(t); got != c.closely {
				t.Errorf("closely: mended %d, want %d", got, c.closely)
			}
		})
	}
}

// A run has recorded its status, but the process that started it was killed before it recorded the run's ID.
func TestSearchOnce_WorkingWithoutAWorkflowID_Found(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*temporal)
		want   receipt.Status
	}{
		"the run goes on":   {func(tp *temporal) { tp.unlisted = func(string) bool { return true } }, receipt.Retrying},
		"it was terminated": {func(tp *temporal) { tp.ended = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED }, receipt.NeedsReview},
		"it is forgotten":   {func(tp *temporal) { clear(tp.runs) }, receipt.Retrying},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := begun(t, b)
			if _, err := b.pool.Exec(t.Context(), `update receipts set status = 'retrying', workflow_id = ''`); err != nil {
				t.Fatal(err)
			}
			b.temporal.set(c.change)
			if got := b.searchOnce(t); got != 1 {
				t.Errorf("mended %d, want 1", got)
			}
			r := b.get(t, p.ReceiptID)
			if _, runs := b.temporal.get("stripe:evt_1"); r.Status != c.want || r.WorkflowID != "stripe:evt_1" || !runs {
				t.Errorf("receipt is %s under %q; want it %s under its run", r.Status, r.WorkflowID, c.want)
			}
		})
	}
}
