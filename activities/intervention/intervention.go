// Package intervention reads a run's history to find who cancelled, terminated or reset the run in Temporal, and why.
// For a reset, the history contains the reason but no name.
package intervention

import (
	"context"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/schema/run"
)

// Histories reads the histories of runs. A client.Client implements it.
type Histories interface {
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, isLongPoll bool,
		filter enumspb.HistoryEventFilterType) client.HistoryEventIterator
}

// Find returns the latest intervention of a kind in a run's history. It returns false if the history contains no such
// intervention. It does not set found.ReceiptID.
func Find(ctx context.Context, histories Histories, what run.Deed, workflowID, runID string) (found run.Intervention,
	ok bool, err error) {
	filter := enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT
	if what == run.Terminated {
		filter = enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT
	}
	for events := histories.GetWorkflowHistory(ctx, workflowID, runID, false, filter); events.HasNext(); {
		event, err := events.Next()
		if err != nil {
			return run.Intervention{}, false, err
		}
		if seen, is := read(event); is && seen.What == what && (seen.RunID == "" || seen.RunID == runID) {
			found, ok = seen, true
			found.WorkflowID, found.RunID = workflowID, runID
		}
	}
	return found, ok, nil
}

const byReset = enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW

// read returns the intervention that a history event records. For a reset, it also returns the ID of the run that the
// reset created. The caller needs this ID: after a reset, the history starts with a copy of the previous history, which
// may contain earlier resets of other runs.
func read(event *historypb.HistoryEvent) (seen run.Intervention, ok bool) {
	seen.At = event.GetEventTime().AsTime()
	if a := event.GetWorkflowExecutionTerminatedEventAttributes(); a != nil {
		seen.What, seen.Actor, seen.Reason = run.Terminated, a.GetIdentity(), a.GetReason()
	} else if a := event.GetWorkflowExecutionCancelRequestedEventAttributes(); a != nil {
		seen.What, seen.Actor, seen.Reason = run.Cancelled, a.GetIdentity(), a.GetCause()
	} else if a := event.GetWorkflowTaskFailedEventAttributes(); a.GetCause() == byReset {
		seen.What, seen.Reason = run.WasReset, a.GetFailure().GetMessage()
		seen.RunID, seen.PreviousRunID = a.GetNewRunId(), a.GetBaseRunId()
	} else {
		return seen, false
	}
	seen.Actor, seen.Reason = storable(seen.Actor, mostWho), storable(seen.Reason, mostWhy)
	return seen, true
}

// mostWho and mostWhy limit the stored texts, in bytes.
const mostWho, mostWhy = 200, 2000

// storable truncates a text to most bytes, and removes characters that Postgres cannot store.
func storable(text string, most int) string {
	text = strings.ReplaceAll(text, "\x00", "\ufffd")
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}
