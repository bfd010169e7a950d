package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/plan"
)

// repository is the root of the repository.
const repository = "../.."

// Every command on a documentation page is valid, so that a reader can copy it.
func TestDocs_Commands_AreUnderstood(t *testing.T) {
	t.Parallel()
	found := 0
	for page, content := range pages(t) {
		for _, line := range shellLines(content) {
			args, ok := commandtest.Arguments(line)
			if !ok {
				continue
			}
			found++
			if err := commandtest.Understood(program(), args); err != nil {
				t.Errorf("%s: %s: %v", page, line, err)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d commands in the documentation: the reader of this test no longer finds them", found)
	}
}

func TestDocs_Commands_WrongOnesCaught(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"pawl event list", "pawl send --sauce stripe", "go run ./cmd/pawl events shows evt_1", "pawl events show", "pawl dev now",
	} {
		args, ok := commandtest.Arguments(line)
		if !ok {
			t.Errorf("%q is not taken for a pawl command", line)
		} else if commandtest.Understood(program(), args) == nil {
			t.Errorf("%q is taken for a good command", line)
		}
	}
}

// This test generates docs/commands.md: go test ./cmd/pawl -run TestDocs_CommandReference -update
func TestDocs_CommandReference_IsFresh(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Commands\n\n<!-- Generated: go test ./cmd/pawl -run TestDocs_CommandReference -update -->\n\n" +
		"Results go to stdout, everything else to stderr. The exit code is 0, 1 for what failed, 2 for a call that could not be understood.\n\n" +
		"For every command:\n\n```\n" + flags(tree().PersistentFlags()) + "```\n")
	walk(tree(), func(c *cobra.Command) {
		if c.HasSubCommands() && c.Long == "" || !c.HasParent() { // a group of commands without its own text
			return
		}
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```\n%s\n", c.CommandPath(), text, c.UseLine())
		if c.HasAvailableLocalFlags() {
			fmt.Fprintf(&b, "\n%s", flags(c.LocalNonPersistentFlags()))
		}
		b.WriteString("```\n")
	})
	file := filepath.Join(repository, "docs", "commands.md")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if held := commandtest.Read(t, file); held != b.String() {
		t.Error("docs/commands.md differs from the commands: run go test ./cmd/pawl -run TestDocs_CommandReference -update")
	}
}

// Every SQL query on a page is valid, so that a reader can copy it. docs/billing/events.md lists the flows and the
// ignored types: go test ./cmd/pawl -run TestDocs_Flows -update
func TestDocs_Flows_AreFresh(t *testing.T) {
	t.Parallel()
	file, effects := filepath.Join(repository, "docs", "billing", "events.md"), commandtest.Read(t, filepath.Join(repository, "docs", "effects.md"))
	var b strings.Builder
	b.WriteString("| Flow | Action | Events |\n|---|---|---|\n")
	for _, f := range workflows.Flows() {
		var types []string
		for _, of := range f.Types {
			for _, name := range of {
				types = append(types, "`"+name+"`")
			}
		}
		events := strings.Join(types, ", ")
		switch {
		case f.Name == workflows.ClockFlow:
			events = "none: the clock starts it"
		case f.Name == workflows.ReconciledFlow:
			events = "none: `pawl reconcile` files its receipts"
		case events == "":
			events = "all others"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, f.Summary, events)
	}
	fresh(t, file, "<!-- flows -->\n", "<!-- /flows -->\n", b.String())
	ignored := "| events | why no flow is for them |\n|---|---|\n"
	for _, i := range workflows.IgnoredTypes() {
		ignored += "| `" + strings.Join(i.Types, "`, `") + "` | " + i.Reason + " |\n"
	}
	fresh(t, file, "<!-- ignored -->\n", "<!-- /ignored -->\n", ignored)
	for _, kind := range plan.Catalogue() {
		if !strings.Contains(effects, "`"+kind.Name+"`") && kind.Undo == "" && kind.Name != "align-workspace" && kind.Name != "close-review" {
			t.Errorf("docs/effects.md does not list %s", kind.Name)
		}
	}
}

// The page lists the reviews and the effects of their answers, generated from the table in the code.
func TestDocs_Reviews_AreFresh(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| `reason_code` | asked | the question | approve | reject |\n|---|---|---|---|---|\n")
	for _, r := range workflows.Reviews() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Code, r.Stage, r.Asks, r.Approve, r.Reject)
	}
	fresh(t, filepath.Join(repository, "docs", "operations", "review.md"), "<!-- reviews -->\n", "<!-- /reviews -->\n", b.String())
}

// fresh compares the text between two marks in a file with the generated text. With -update it writes the generated
// text.
func fresh(t *testing.T, file, begin, end, generated string) {
	t.Helper()
	before, rest, found := strings.Cut(commandtest.Read(t, file), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place between %q and %q", file, begin, end)
	}
	if want := before + begin + generated + end + after; *update {
		commandtest.Write(t, file, want)
	} else if commandtest.Read(t, file) != want {
		t.Errorf("%s differs from the code: run go test ./cmd/pawl -run TestDocs -update", file)
	}
}

func TestDocs_Queries_AreUnderstood(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	found := 0
	for page, content := range pages(t) {
		for _, line := range shellLines(content) {
			fields := commandtest.Words(line)
			if len(fields) != 4 || fields[0] != "psql" || fields[2] != "-c" {
				if strings.Contains(line, "psql") {
					t.Errorf("%s: %s: the reader of this test does not understand it", page, line)
				}
				continue
			}
			found++
			if _, err := pool.Exec(t.Context(), fields[3]); err != nil {
				t.Errorf("%s: %s: %v", page, line, err)
			}
		}
	}
	if found < 5 {
		t.Errorf("found %d queries in the documentation: the reader of this test no longer finds them", found)
	}
}

// docs/data.md lists exactly the columns of the views, because users write reports with these columns.
func TestDocs_Data_ColumnsAreThoseOfTheViews(t *testing.T) {
	t.Parallel()
	rows, err := schematest.New(t).Query(t.Context(), `select table_name, column_name from information_schema.columns
		where table_schema = 'public' and table_name like 'pawl\_%' order by table_name, ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string][]string{}
	var view, column string
	if _, err := pgx.ForEachRow(rows, []any{&view, &column}, func() error {
		there[view] = append(there[view], column)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{}
	for line := range strings.Lines(commandtest.Read(t, filepath.Join(repository, "docs", "data.md"))) {
		if name, found := strings.CutPrefix(line, "## "); found {
			view = strings.TrimSpace(name)
		} else if m := regexp.MustCompile("^\\| `(\\w+)` \\|").FindStringSubmatch(line); m != nil {
			told[view] = append(told[view], m[1])
		}
	}
	if len(there) < 5 || !maps.EqualFunc(there, told, slices.Equal) {
		t.Errorf("docs/data.md contains %v; the views have %v", told, there)
	}
}

// The table in the document lists every answer of the ingress.
func TestDocs_Answers_AreThoseGiven(t *testing.T) {
	t.Parallel()
	codes := map[string]int{}
	for code := 100; code < 600; code++ {
		codes["Status"+strings.NewReplacer(" ", "", "-", "").Replace(http.StatusText(code))] = code
	}
	files, err := filepath.Glob(filepath.Join(repository, "ingress", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	given := map[int]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, name := range regexp.MustCompile(`http\.(Status[A-Z]\w+)`).FindAllStringSubmatch(commandtest.Read(t, file), -1) {
			given[codes[name[1]]] = name[1]
		}
	}
	if len(given) < 8 || given[0] != "" {
		t.Fatalf("found only the answers %v", given)
	}
	told := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ((?:\d{3}[^|]*))\|`).FindAllStringSubmatch(commandtest.Read(t, filepath.Join(repository, "docs", "intake.md")), -1) {
		for _, code := range regexp.MustCompile(`\d{3}`).FindAllString(row[1], -1) {
			told[code] = true
		}
	}
	for code, name := range given {
		if !told[strconv.Itoa(code)] {
			t.Errorf("docs/intake.md does not contain %d (%s)", code, name)
		}
	}
}

// Every configuration on a page is valid, so that a reader can copy it.
func TestDocs_Configurations_AreFine(t *testing.T) {
	t.Parallel()
	found := 0
	for page, content := range pages(t) {
		for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(content, -1) {
			if !regexp.MustCompile("(?m)^sources:").MatchString(m[1]) {
				continue // an excerpt
			}
			found++
			s := commandtest.Stack{Program: program(), File: filepath.Join(t.TempDir(), "pawl.yaml"), Env: map[string]string{"DATABASE_URL": "postgres://localhost/pawl"}}
			for _, ref := range regexp.MustCompile(`(env|file):([\w./-]+)`).FindAllStringSubmatch(m[1], -1) {
				if ref[1] == "env" {
					s.Env[ref[2]] = commandtest.Secret
				} else {
					commandtest.Write(t, filepath.Join(filepath.Dir(s.File), ref[2]), commandtest.Secret)
				}
			}
			commandtest.Write(t, s.File, m[1])
			if r := s.Pawl(t, "config", "check"); r.Code != 0 {
				t.Errorf("%s: exit %d for the configuration\n%s\n%s", page, r.Code, m[1], r.Out)
			}
		}
	}
	if found < 2 {
		t.Errorf("found %d configurations in the documentation: the reader of this test no longer finds them", found)
	}
}

// The reference contains every setting of database connections, with its reason.
func TestDocs_DatabaseBounds_AreThoseSet(t *testing.T) {
	t.Parallel()
	page := commandtest.Read(t, filepath.Join(repository, "docs", "configuration.md"))
	for _, settings := range []schema.Settings{schema.Bounds, schema.Handling} {
		for name, value := range settings {
			if want := "`" + name + "=" + value + "`"; !strings.Contains(page, want) {
				t.Errorf("docs/configuration.md does not have %s", want)
			}
		}
	}
}

// boundKeys are the last parts of the configuration keys that set a limit.
var boundKeys = []string{
	"api_rate_limit", "body_limit", "burst", "initial_interval", "key_lifetime", "max_concurrent", "max_elapsed", "max_interval", "max_connections", "per_second", "rate_limit",
	"shutdown_delay", "timeout", "tolerance",
}

// docs/bounds.md explains the reason, the symptom and the change of every limit: limits in the configuration by key,
// the settings of database connections, and fixed limits.
func TestDocs_Bounds_AreExplained(t *testing.T) {
	t.Parallel()
	explained := map[string]bool{}
	for line := range strings.Lines(commandtest.Read(t, filepath.Join(repository, "docs", "bounds.md"))) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 2 || !strings.Contains(cells[0], "`") {
			continue
		}
		if len(cells) != 5 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			t.Errorf("%s: want the bounded thing, its default, the reason, the symptom and when to change it", line)
		}
		for _, name := range regexp.MustCompile("`[^`]+`").FindAllString(cells[0], -1) {
			explained[strings.Trim(name, "`")] = true
		}
	}
	keys := regexp.MustCompile("(?m)^\\| `([a-zA-Z_.\\[\\]]+)` \\|").FindAllStringSubmatch(commandtest.Read(t, filepath.Join(repository, "docs", "configuration.md")), -1)
	if len(keys) < 100 {
		t.Fatalf("read only %d keys of the configuration", len(keys))
	}
	// One row explains a limit of every sink, including sinks for notifications, and of every destination.
	each := strings.NewReplacer("destinations.NAME.", "sinks.NAME.", "notify.sinks.", "sinks.")
	for _, key := range keys {
		parts := strings.Split(key[1], ".")
		if !slices.Contains(boundKeys, parts[len(parts)-1]) || strings.HasPrefix(key[1], "plans.") {
			continue
		}
		if name := each.Replace(key[1]); !explained[name] {
			t.Errorf("docs/bounds.md does not explain the bound %s", name)
		}
	}
	for name := range schema.Bounds {
		if name != "default_transaction_isolation" && !explained[name] { // this setting limits nothing
			t.Errorf("docs/bounds.md does not explain %s", name)
		}
	}
	if !explained["statement_timeout"] {
		t.Error("docs/bounds.md does not explain statement_timeout")
	}
}

// Every test that a page names exists.
func TestDocs_Tests_Exist(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(commandtest.Read(t, path), -1) {
			there[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for page, content := range pages(t) {
		for _, m := range regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(content, -1) {
			if named++; !there[m[1]] {
				t.Errorf("%s names %s, which is no test", page, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("found %d names of tests: the reader of this test no longer finds them", named)
	}
}

// Every row of the threat model names a test or an owner.
func TestDocs_ThreatModel_EachRowHeld(t *testing.T) {
	t.Parallel()
	rows := 0
	for line := range strings.Lines(commandtest.Read(t, filepath.Join(repository, "docs", "threat-model.md"))) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| Attacker |") {
			continue
		}
		if rows++; !strings.Contains(cells[3], "`Test") && !strings.Contains(cells[3], "`Fuzz") {
			t.Errorf("no test holds this: %s", line)
		}
	}
	if rows < 20 {
		t.Errorf("read %d threats: the reader of this test no longer finds them", rows)
	}
}

// docs/metrics.md explains exactly the registered metrics.
func TestDocs_Metrics_AreThoseRegistered(t *testing.T) {
	t.Parallel()
	registered := instruments(t)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(pawl_[a-z_]+)`").FindAllStringSubmatch(commandtest.Read(t, filepath.Join(repository, "docs", "metrics.md")), -1) {
		documented[m[1]] = true
	}
	if len(registered) < 8 {
		t.Errorf("found only the instruments %v", slices.Sorted(maps.Keys(registered)))
	}
	for name := range registered {
		if !documented[name] {
			t.Errorf("docs/metrics.md does not explain %s", name)
		}
	}
	for name := range documented {
		if !registered[name] {
			t.Errorf("docs/metrics.md explains %s, which nothing registers", name)
		}
	}
}

// The dashboard uses existing metrics, and each of its panels has a description.
func TestDeploy_Dashboard_MetricsExist(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []struct {
			Title, Type, Description string
			Targets                  []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(commandtest.Read(t, filepath.Join(repository, "deploy", "grafana", "pawl.json"))), &dashboard); err != nil {
		t.Fatal(err)
	}
	registered, asked := instruments(t), 0
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && (panel.Description == "" || len(panel.Targets) == 0) {
			t.Errorf("%s has no description, or no query", panel.Title)
		}
		for _, target := range panel.Targets {
			for _, name := range regexp.MustCompile(`pawl_[a-z_]+`).FindAllString(target.Expr, -1) {
				asked++
				if !registered[strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")] {
					t.Errorf("%s asks for %s, which nothing registers", panel.Title, name)
				}
			}
		}
	}
	if asked < 20 {
		t.Errorf("it asks for %d metrics: the reader of this test no longer finds them", asked)
	}
}

// The alert rules use existing metrics, and link to existing runbooks.
func TestDeploy_Alerts_MetricsAndRunbooksExist(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(commandtest.Read(t, filepath.Join(repository, "deploy", "alerts", "pawl.yaml"))), &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules.Groups) == 0 || len(rules.Groups[0].Rules) < 5 {
		t.Fatalf("read only %+v", rules)
	}
	tests := commandtest.Read(t, filepath.Join(repository, "deploy", "alerts", "testdata", "pawl.yaml")) +
		commandtest.Read(t, filepath.Join(repository, "deploy", "alerts", "testdata", "days.yaml"))
	registered := instruments(t)
	for _, rule := range rules.Groups[0].Rules {
		used := regexp.MustCompile(`pawl_[a-z_]+`).FindAllString(rule.Expr, -1)
		if len(used) == 0 {
			t.Errorf("%s asks for no metric of ours", rule.Alert)
		}
		for _, name := range used {
			if !registered[strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")] {
				t.Errorf("%s asks for %s, which nothing registers", rule.Alert, name)
			}
		}
		runbook := rule.Annotations["runbook"]
		if _, err := os.Stat(filepath.Join(repository, runbook)); err != nil || !strings.HasPrefix(runbook, "docs/operations/") {
			t.Errorf("%s names the runbook %q, which does not exist", rule.Alert, runbook)
		}
		if rule.Annotations["cost"] == "" {
			t.Errorf("%s does not state who is affected and how", rule.Alert)
		}
		quiet := strings.Contains(tests, "alertname: "+rule.Alert+", exp_alerts: []")
		if !quiet || !strings.Contains(tests, "alertname: "+rule.Alert+"\n        exp_alerts:\n          - ") {
			t.Errorf("no test shows that %s fires, and that it does not", rule.Alert)
		}
		if severity := rule.Labels["severity"]; severity != "page" && severity != "ticket" && severity != "incident" {
			t.Errorf("%s has severity %q", rule.Alert, severity)
		}
	}
}

func TestDocs_Links_LeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)]*))?\)`)
	for page, content := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(content, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(page), m[1])
			if m[1] == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(commandtest.Read(t, target)), m[2]) {
				t.Errorf("%s links to %s#%s: no such heading", page, m[1], m[2])
			}
		}
	}
}

// anchors returns the anchors of a page's headings.
func anchors(content string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(content, -1) {
		anchor := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		all = append(all, regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(anchor, ""))
	}
	return all
}

// Every path that a page formats as code exists.
func TestDocs_Paths_Exist(t *testing.T) {
	t.Parallel()
	path := regexp.MustCompile("`((?:cmd|ingress|workflows|activities|schema|deploy|docs|\\.ci)/[A-Za-z0-9_./-]*)`")
	for page, content := range pages(t) {
		for _, m := range path.FindAllStringSubmatch(content, -1) {
			if _, err := os.Stat(filepath.Join(repository, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
	}
}

func tree() *cobra.Command { return program().Root(&command.App{}, new(bool)) }

func walk(c *cobra.Command, each func(*cobra.Command)) {
	each(c)
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			walk(sub, each)
		}
	}
}

func flags(set *pflag.FlagSet) string { return set.FlagUsagesWrapped(110) }

// pages maps the file of every page to its content.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/billing/*.md", "docs/operations/*.md"} {
		files, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			all[file] = commandtest.Read(t, file)
		}
	}
	return all
}

var shellBlock = regexp.MustCompile("(?ms)^```sh(?: [^\n]*)?\n(.*?)^```")

// shellLines returns the lines of the sh blocks, with continued lines joined.
func shellLines(content string) []string {
	var lines []string
	for _, m := range shellBlock.FindAllStringSubmatch(content, -1) {
		lines = append(lines, strings.Split(strings.ReplaceAll(m[1], "\\\n", " "), "\n")...)
	}
	return lines
}

// instruments returns the names of pawl's metrics on /metrics, read from the calls that register them.
func instruments(t *testing.T) map[string]bool {
	t.Helper()
	suffixes := map[string]string{
		"Int64Counter": "_total", "Float64Counter": "_total", "Int64ObservableCounter": "_total",
		"Float64Histogram": "", "Int64Histogram": "", "Int64Gauge": "", "Float64Gauge": "",
		"Int64UpDownCounter": "", "Int64ObservableGauge": "", "Float64ObservableGauge": "",
	}
	names := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if row, ok := n.(*ast.CompositeLit); ok { // the table of gauges in cmd/internal/process: name, unit, description
				if name, unit := text(row, 0), text(row, 1); strings.HasPrefix(name, "pawl_") {
					if unit == "s" && !strings.HasSuffix(name, "_seconds") {
						name += "_seconds"
					}
					names[name] = true
				}
				return true
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			suffix, ok := suffixes[method.Sel.Name]
			literal, isLiteral := call.Args[0].(*ast.BasicLit)
			if !ok || !isLiteral {
				return true
			}
			name, _ := strconv.Unquote(literal.Value) // the parser has already accepted it
			if !strings.HasPrefix(name, "pawl_") {
				return true
			}
			for _, option := range call.Args[1:] {
				if unit, ok := option.(*ast.CallExpr); ok && isSeconds(unit) && !strings.HasSuffix(name, "_seconds") {
					name += "_seconds"
				}
			}
			names[name+suffix] = true
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// text returns a string element of a literal, or "" if it is not a string.
func text(row *ast.CompositeLit, i int) string {
	if i >= len(row.Elts) {
		return ""
	}
	element, ok := row.Elts[i].(*ast.BasicLit)
	if !ok || element.Kind != token.STRING {
		return ""
	}
	value, _ := strconv.Unquote(element.Value) // the parser has already accepted it
	return value
}

// isSeconds reports whether an option is metric.WithUnit("s"), which the exporter adds to the name.
func isSeconds(option *ast.CallExpr) bool {
	method, ok := option.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "WithUnit" || len(option.Args) != 1 {
		return false
	}
	unit, ok := option.Args[0].(*ast.BasicLit)
	return ok && unit.Value == `"s"`
}
