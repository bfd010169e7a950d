package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
)

// counted lists the recorded histories for which docs/temporal-cloud.md shows the actions.
var counted = []struct{ history, what string }{
	{"InvoicePaid/happy", "a paid invoice: all effects done at the first attempt"},
	{"Relay/happy", "an event that pawl relays to a destination"},
	{"Relay/flow-happy", "an event with a flow of your configuration"},
	{"InvoicePaid/retry-after", "a paid invoice: a sink answers 429 once"},
	{"InvoicePaid/escalated", "a paid invoice: a sink fails some times"},
	{"InvoicePaid/review-skip", "a paid invoice: the run parks, and a person decides"},
	{"InvoicePaid/dead-retry", "a paid invoice: an effect uses up its retries, and a person retries it"},
	{"ApplyRetention/deleted", "the run of a schedule"},
}

// The page counts the actions of recorded histories: go test ./cmd/pawl -run TestDocs_TemporalCloud -update
func TestDocs_TemporalCloud_ActionsAreCounted(t *testing.T) {
	t.Parallel()
	rows := "| Run | Actions | Of these |\n|---|---|---|\n"
	for _, c := range counted {
		sum, parts := actions(t, filepath.Join(repository, "workflows", "testdata", "histories", c.history+".json"))
		rows += fmt.Sprintf("| %s | %d | %s |\n", c.what, sum, strings.Join(parts, ", "))
	}
	fresh(t, filepath.Join(repository, "docs", "temporal-cloud.md"), "<!-- actions -->\n", "<!-- /actions -->\n", rows)
}

// actions counts the billed actions of a history by the rules on https://docs.temporal.io/cloud/actions. An activity
// counts once per attempt; the markers of a workflow task count once.
func actions(t *testing.T, file string) (sum int, parts []string) {
	t.Helper()
	var history struct {
		Events []struct {
			Type     string `json:"eventType"`
			Activity struct {
				Attempt int `json:"attempt"`
			} `json:"activityTaskStartedEventAttributes"`
			Marker struct {
				Task string `json:"workflowTaskCompletedEventId"`
			} `json:"markerRecordedEventAttributes"`
		}
	}
	if err := json.Unmarshal([]byte(commandtest.Read(t, file)), &history); err != nil {
		t.Fatal(err)
	}
	names := []string{"start", "local activities", "activity", "timer", "signal", "update", "change of search attributes"}
	counts, tasks := map[string]int{}, map[string]bool{}
	for _, e := range history.Events {
		switch strings.TrimPrefix(e.Type, "EVENT_TYPE_") {
		case "WORKFLOW_EXECUTION_STARTED":
			counts["start"]++
		case "MARKER_RECORDED":
			if !tasks[e.Marker.Task] {
				counts["local activities"]++
			}
			tasks[e.Marker.Task] = true
		case "ACTIVITY_TASK_STARTED":
			counts["activity"] += max(e.Activity.Attempt, 1)
		case "TIMER_STARTED":
			counts["timer"]++
		case "WORKFLOW_EXECUTION_SIGNALED":
			counts["signal"]++
		case "WORKFLOW_EXECUTION_UPDATE_ACCEPTED":
			counts["update"]++
		case "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES":
			counts["change of search attributes"]++
		case "START_CHILD_WORKFLOW_EXECUTION_INITIATED", "NEXUS_OPERATION_SCHEDULED", "WORKFLOW_EXECUTION_OPTIONS_UPDATED":
			t.Fatalf("%s: add %s to the count", file, e.Type)
		}
	}
	for _, name := range names {
		if n := counts[name]; n > 0 {
			sum += n
			parts = append(parts, fmt.Sprintf("%d × %s", n, name))
		}
	}
	return sum, parts
}
