package flowtest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/workflows"
)

var (
	update = flag.Bool("update", false, "record the golden histories that are missing or no longer replay")
	record = flag.String("record", "", "record the golden histories whose FLOW/BRANCH matches this regular expression, even if they still replay")
)

// histories is the directory of golden histories that the tests of package workflows replay.
var histories = filepath.Join("..", "..", "..", "workflows", "testdata", "histories")

// recording reports whether this test run may write golden histories.
func recording() bool { return *update || *record != "" }

// branchSeed returns the branch's name while histories are recorded, so that two recordings are equal. Otherwise it
// adds a random part, because the Temporal server remembers workflow IDs if a test runs more than once.
func branchSeed(branch string) string {
	if recording() {
		return branch
	}
	return branch + "-" + uuid.NewString()[:8]
}

// writeGolden records a history if the flags of this test run select it.
func writeGolden(t *testing.T, flow, branch string, history *historypb.History) {
	t.Helper()
	wanted, err := selects(*record, flow+"/"+branch)
	if err != nil {
		t.Fatal(err)
	}
	if !wanted && *update {
		if wanted, err = outdated(filepath.Join(histories, flow, branch+".json")); err != nil {
			t.Fatal(err)
		}
	}
	if !wanted {
		return
	}
	if err := recordHistory(filepath.Join(histories, flow, branch+".json"), history); err != nil {
		t.Fatal(err)
	}
}

// selects reports whether the whole name FLOW/BRANCH matches the pattern. An empty pattern matches no name.
func selects(pattern, name string) (bool, error) {
	if pattern == "" {
		return false, nil
	}
	matcher, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return false, fmt.Errorf("-record: %w", err)
	}
	return matcher.MatchString(name), nil
}

// outdated reports whether a recorded history is missing, or the current code of its flow cannot replay it.
func outdated(file string) (bool, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	history, err := client.HistoryFromJSON(bytes.NewReader(content), client.HistoryJSONOptions{})
	if err != nil || len(history.GetEvents()) == 0 {
		return true, nil
	}
	started := history.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	return replay(history, workflow.Execution{ID: started.GetWorkflowId(), RunID: started.GetOriginalExecutionRunId()}) != nil, nil
}

// replay runs a history of the execution through the current code of its flow.
func replay(history *historypb.History, as workflow.Execution) error {
	replayer := worker.NewWorkflowReplayer()
	workflows.Register(replayer)
	return replayer.ReplayWorkflowHistoryWithOptions(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)), history,
		worker.ReplayWorkflowHistoryOptions{OriginalExecution: as})
}

// machine matches the fields of a history that depend on the machine or the build.
var machine = regexp.MustCompile(`"(identity|binaryChecksum|buildId|requestId|workerInstanceKey)": "[^"]*"`)

func recordHistory(file string, history *historypb.History) error {
	content, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(history)
	if err != nil {
		return err
	}
	content = machine.ReplaceAll(content, []byte(`"$1": "pawl"`))
	if host, err := os.Hostname(); err == nil {
		content = bytes.ReplaceAll(content, []byte(host), []byte("host"))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o600)
}

// -update does not change a history that can be replayed, and selects a history that cannot be replayed, is broken or
// is missing.
func TestOutdated(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(histories, "InvoicePaid", "escalated.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		content string
		want    bool
	}{
		"replays":         {string(content), false},
		"does not replay": {strings.Replace(string(content), `"activityId": "`, `"activityId": "other:`, 1), true},
		"is broken":       {"{", true},
		"is missing":      {"", true},
	} {
		file := filepath.Join(t.TempDir(), "history.json")
		if tt.content != "" {
			write(t, file, tt.content)
		}
		if got, err := outdated(file); err != nil || got != tt.want {
			t.Errorf("a history that %s: outdated %v, %v; want %v", name, got, err, tt.want)
		}
	}
}

// -record selects histories by their whole names.
func TestSelects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "InvoicePaid/happy", false},
		{"InvoicePaid/happy", "InvoicePaid/happy", true},
		{"InvoicePaid/happy", "InvoicePaid/happy-fetched", false},
		{"InvoicePaid/.*|Relay/.*", "Relay/delivered", true},
		{"InvoicePaid", "InvoicePaid/happy", false},
	} {
		if got, err := selects(tt.pattern, tt.name); err != nil || got != tt.want {
			t.Errorf("-record %q, %s: %v, %v; want %v", tt.pattern, tt.name, got, err, tt.want)
		}
	}
	if _, err := selects("(", "InvoicePaid/happy"); err == nil {
		t.Error("a broken pattern is accepted")
	}
}
