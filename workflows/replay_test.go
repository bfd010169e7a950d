package workflows_test

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/pawlhq/pawl/workflows"
)

// The golden histories come from real runs, one per branch; the tests of cmd/internal/flowtest write them with
// -update. A code change that cannot replay them would block every run in progress.

var quiet = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))

func golden(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "histories", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	histories := map[string][]byte{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		histories[filepath.Base(filepath.Dir(file))+"/"+strings.TrimSuffix(filepath.Base(file), ".json")] = content
	}
	return histories
}

// Without a recorded history, a flow could change incompatibly, and no test would fail.
func TestReplay_EveryFlowHasHistories(t *testing.T) {
	t.Parallel()
	histories := golden(t)
	names := []string{"Job", "ReconcileAccounts", "FindGaps", "WatchEndpoint", "ApplyRetention"} // these workflows are not flows
	for _, flow := range workflows.Flows() {
		names = append(names, flow.Name)
	}
	for _, flow := range names {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(histories)), func(name string) bool { return strings.HasPrefix(name, flow+"/") }) {
			t.Errorf("%s has no history in testdata/histories/%s", flow, flow)
		}
	}
}

func parse(t *testing.T, content []byte) *historypb.History {
	t.Helper()
	history, err := client.HistoryFromJSON(bytes.NewReader(content), client.HistoryJSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return history
}

func replay(history *historypb.History) error {
	replayer := worker.NewWorkflowReplayer()
	workflows.Register(replayer)
	started := history.Events[0].GetWorkflowExecutionStartedEventAttributes()
	return replayer.ReplayWorkflowHistoryWithOptions(quiet, history, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: started.GetWorkflowId(), RunID: started.GetOriginalExecutionRunId()},
	})
}

func TestReplay_GoldenHistories(t *testing.T) {
	t.Parallel()
	for name, content := range golden(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := replay(parse(t, content)); err != nil {
				t.Errorf("the flow no longer follows this history: %v", err)
			}
		})
	}
}

// No version of the flow has written these histories. If the replay accepted them, the test above would prove
// nothing.
func TestReplay_OtherHistories_Fail(t *testing.T) {
	t.Parallel()
	histories := golden(t)
	for name, tt := range map[string]struct {
		of     string
		change func(*historypb.HistoryEvent) bool
	}{
		"another local activity": {"InvoicePaid/happy", func(e *historypb.HistoryEvent) bool {
			for _, data := range e.GetMarkerRecordedEventAttributes().GetDetails()["data"].GetPayloads() {
				changed := bytes.ReplaceAll(data.Data, []byte("LoadFacts"), []byte("LoadSomethingElse"))
				if !bytes.Equal(changed, data.Data) {
					data.Data = changed
					return true
				}
			}
			return false
		}},
		"another activity": {"InvoicePaid/escalated", func(e *historypb.HistoryEvent) bool {
			a := e.GetActivityTaskScheduledEventAttributes()
			if a != nil {
				a.ActivityType.Name = "ExportToNowhere"
			}
			return a != nil
		}},
		"another key": {"InvoicePaid/escalated", func(e *historypb.HistoryEvent) bool {
			a := e.GetActivityTaskScheduledEventAttributes()
			if a != nil {
				a.ActivityId += ":v2"
			}
			return a != nil
		}},
		"no timer": {"InvoicePaid/retry-after", func(e *historypb.HistoryEvent) bool {
			a := e.GetTimerStartedEventAttributes()
			if a != nil {
				a.TimerId = "another"
			}
			return a != nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := parse(t, histories[tt.of])
			if !slices.ContainsFunc(history.Events, tt.change) {
				t.Fatalf("%s has nothing to change", tt.of)
			}
			if err := replay(history); err == nil {
				t.Error("the flow follows a history that is not its own")
			}
		})
	}
}

// An e-mail address has an @ between two names; no history may contain one.
var address = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+\.[A-Za-z]`)

func TestGoldenHistories_NothingPersonal(t *testing.T) {
	t.Parallel()
	for name, content := range golden(t) {
		raw, err := proto.Marshal(parse(t, content)) // payloads in histories are not encoded
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(raw, []byte("evt_"+path.Base(name))) && !bytes.Contains(raw, []byte("relay:")) && !bytes.Contains(raw, []byte("reconcile:")) &&
			!bytes.Contains(raw, []byte("job:")) && !bytes.Contains(raw, []byte("flow-workflow:")) && !bytes.Contains(raw, []byte("flow ship-order")) && !bytes.Contains(raw, []byte(`"ship-order"`)) && !strings.HasPrefix(name, "ReconcileAccounts/") && !strings.HasPrefix(name, "FindGaps/") && !strings.HasPrefix(name, "WatchEndpoint/") &&
			!strings.HasPrefix(name, "ApplyRetention/") {
			t.Errorf("%s does not show its payloads", name)
		}
		// The Message-ID in the ledger looks like an e-mail address, but it contains the invoice and pawl's own
		// domain.
		if found := address.FindAll(bytes.ReplaceAll(raw, []byte("@pawl.test"), nil), -1); len(found) > 0 {
			t.Errorf("%s holds %q", name, found)
		}
		if bytes.Contains(raw, []byte("canary")) {
			t.Errorf("%s contains personal fields of the payload", name)
		}
	}
}
