package condition_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/condition"
)

var update = flag.Bool("update", false, "write deploy/alerts/pawl.yaml")

// deploy/alerts/pawl.yaml is generated from the table: go test ./cmd/internal/condition -run TestAlerts -update
func TestAlerts_FileIsFresh(t *testing.T) {
	t.Parallel()
	const file = "../../../deploy/alerts/pawl.yaml"
	want := alertRules()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%v: %s is stale: run go test ./cmd/internal/condition -run TestAlerts -update", err, file)
	}
}

// Each kind has a runbook, and so does each alert that names another one.
func TestAlerts_RunbooksExist(t *testing.T) {
	t.Parallel()
	for _, k := range condition.Table() {
		for _, a := range append(k.Alerts, condition.Alert{Name: k.Name}) {
			page := cmp.Or(a.Runbook, k.Runbook) + ".md"
			if _, err := os.Stat(filepath.Join("../../../docs/operations", page)); err != nil {
				t.Errorf("%s: %v", a.Name, err)
			}
		}
	}
}

// The tests of promtool expect the texts of the rules. promtool is not installed everywhere, so this test finds outdated
// texts without it. A summary can contain values, so only the cost and the runbook are compared.
func TestAlerts_PromtoolExpectsTheirTexts(t *testing.T) {
	t.Parallel()
	current := map[string]bool{}
	for _, k := range condition.Table() {
		for _, a := range k.Alerts {
			current["cost: "+strconv.Quote(a.Cost)] = true
			current["runbook: docs/operations/"+cmp.Or(a.Runbook, k.Runbook)+".md"] = true
		}
	}
	files, err := filepath.Glob("../../../deploy/alerts/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			line = strings.TrimSpace(line)
			expects := strings.HasPrefix(line, "cost: ") || strings.HasPrefix(line, "runbook: ")
			if expects && !current[line] {
				t.Errorf("%s:%d expects a text that no alert has: %s", filepath.Base(file), n+1, line)
			}
		}
	}
}

const alertsHead = `# Generated: go test ./cmd/internal/condition -run TestAlerts -update
#
# Prometheus alert rules. "incident" calls everybody, "page" wakes a person, "ticket" can wait for the morning. Each rule
# states the cost of the problem and names its runbook in docs/operations. Every process exports the same gauges, which
# are counted in the database: max() merges them into one alert, which continues when processes are replaced.
groups:
  - name: pawl
    rules:
`

// alertRules returns the rules of all kinds as a rule file of Prometheus.
func alertRules() string {
	var b strings.Builder
	b.WriteString(alertsHead)
	for _, k := range condition.Table() {
		for _, a := range k.Alerts {
			fmt.Fprintf(&b, "      - alert: %s\n", a.Name)
			for _, line := range wrap(a.Comment, 110) {
				fmt.Fprintf(&b, "        # %s\n", line)
			}
			if strings.Contains(a.Expr, "\n") {
				b.WriteString("        expr: |\n          " + strings.ReplaceAll(a.Expr, "\n", "\n          ") + "\n")
			} else {
				fmt.Fprintf(&b, "        expr: %s\n", a.Expr)
			}
			if a.For != "" {
				fmt.Fprintf(&b, "        for: %s\n", a.For)
			}
			fmt.Fprintf(&b, "        labels: {severity: %s}\n        annotations:\n", a.Severity)
			fmt.Fprintf(&b, "          summary: %q\n          cost: %q\n", a.Summary, a.Cost)
			fmt.Fprintf(&b, "          runbook: docs/operations/%s.md\n", cmp.Or(a.Runbook, k.Runbook))
		}
	}
	return b.String()
}

// wrap splits a text into lines of at most so many bytes.
func wrap(text string, most int) (lines []string) {
	for _, word := range strings.Fields(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= most {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
