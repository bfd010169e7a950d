package effect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/pawlhq/pawl/activities/effect"
)

// The log has one line per outcome, with the same keys as every other line, and without the content of the request.
func TestLog_OneLineForEachOutcome(t *testing.T) {
	b := setup(t)
	var log bytes.Buffer
	b.config.Log = slog.New(slog.NewJSONHandler(&log, nil))
	var err error
	if b.runner, err = effect.NewRunner(b.config); err != nil {
		t.Fatal(err)
	}
	c := call("evt_1", 0)
	c.Correlation = "order-7"
	done := func(context.Context, *effect.Attempt) (any, error) { return "done", nil }
	for range 2 {
		if _, err := b.do(c, policy, `{"customer":"Ada"}`, done); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Contains(log.Bytes(), []byte("Ada")) {
		t.Errorf("the log holds the request:\n%s", &log)
	}
	lines := json.NewDecoder(&log)
	for _, outcome := range []string{"done", "already_done"} {
		var line map[string]any
		if err := lines.Decode(&line); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]any{"msg": "effect", "outcome": outcome, "kind": c.Kind, "effect_key": c.Key,
			"event_id": c.EventID, "receipt_id": c.ReceiptID, "correlation_id": "order-7", "attempt": 1.0} {
			if line[key] != want {
				t.Errorf("%s: %s is %v, want %v", outcome, key, line[key], want)
			}
		}
		for _, key := range []string{"workflow_id", "run_id"} {
			if line[key] == "" {
				t.Errorf("%s: no %s", outcome, key)
			}
		}
	}
}
