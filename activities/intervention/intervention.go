// Package intervention reads from a run's history what somebody did to the run in Temporal, where pawl was not asked:
// by whom and why, as far as Temporal keeps that. A reset leaves its reason there and no name.
package intervention

import (
	"context"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/schema/run"
)

// Histories is where runs are read; a client.Client.
type Histories interface {
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, isLongPoll bool,
		filter enumspb.HistoryEventFilterType) client.HistoryEventIterator
}

// Find returns the latest intervention of a kind in a run's history, and false if there was no such one. The
// receipt's ID is for the caller to fill in.
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
		if seen, tells := read(event); tells && seen.What == what && (seen.RunID == "" || seen.RunID == runID) {
			found, ok = seen, true
			found.WorkflowID, found.RunID = workflowID, runID
		}
	}
	return found, ok, nil
}

const byReset = enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW

// read returns the intervention that an event tells. For a reset it names the run that this very reset made: a
// history begins with a copy of the one before, which may tell of earlier resets.
func read(event *historypb.HistoryEvent) (seen run.Intervention, tells bool) {
	seen.At = event.GetEventTime().AsTime()
	if a := event.GetWorkflowExecutionTerminatedEventAttributes(); a != nil {
		seen.What, seen.Who, seen.Why = run.Terminated, a.GetIdentity(), a.GetReason()
	} else if a := event.GetWorkflowExecutionCancelRequestedEventAttributes(); a != nil {
		seen.What, seen.Who, seen.Why = run.Cancelled, a.GetIdentity(), a.GetCause()
	} else if a := event.GetWorkflowTaskFailedEventAttributes(); a.GetCause() == byReset {
		seen.What, seen.Why = run.WasReset, a.GetFailure().GetMessage()
		seen.RunID, seen.PreviousRunID = a.GetNewRunId(), a.GetBaseRunId()
	} else {
		return seen, false
	}
	seen.Who, seen.Why = told(seen.Who, mostWho), told(seen.Why, mostWhy)
	return seen, true
}

// mostWho and mostWhy bound the kept texts, in bytes.
const mostWho, mostWhy = 200, 2000

// told is text from outside as Postgres can hold it, in bounded length.
func told(text string, most int) string {
	text = strings.ReplaceAll(text, "\x00", "\ufffd")
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}
