package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

func TestTemporal_Page(t *testing.T) {
	file := filepath.Join(t.TempDir(), "temporal.toml")
	if err := os.WriteFile(file, []byte("[profile.default]\nnamespace = \"pawl\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEMPORAL_NAMESPACE", "") // restores the developer's own value after the test
	if err := os.Unsetenv("TEMPORAL_NAMESPACE"); err != nil {
		t.Fatal(err)
	}
	at := config.Temporal{ConfigFile: file, UIURL: "https://temporal.example.com/ui/"}
	for _, tt := range []struct {
		t                 config.Temporal
		workflow, run, in string
	}{
		{at, "stripe:evt_1", "run-1", "https://temporal.example.com/ui/namespaces/pawl/workflows/stripe:evt_1/run-1/history"},
		{at, "stripe:evt_1", "", "https://temporal.example.com/ui/namespaces/pawl/workflows/stripe:evt_1"},
		{at, "github:a%20b/c?d", "run-1", "https://temporal.example.com/ui/namespaces/pawl/workflows/github:a%2520b%2Fc%3Fd/run-1/history"},
		{at, "", "", ""}, // the receipt has no run
		{config.Temporal{ConfigFile: file}, "stripe:evt_1", "run-1", ""},
	} {
		if got := tt.t.Page(tt.workflow, tt.run); got != tt.in {
			t.Errorf("page of %q, %q is %q, want %q", tt.workflow, tt.run, got, tt.in)
		}
	}
}
