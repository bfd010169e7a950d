package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pawlhq/pawl"

// Short names for patterns in the table.
const (
	pgx      = "github.com/jackc/pgx/..."
	temporal = "go.temporal.io/..."
	echo     = "github.com/labstack/echo/..."
	stripeGo = "github.com/stripe/stripe-go/..."
)

// rule is one row of the import table: which packages of pawl a package may import directly, and which packages of pawl
// or others it must never import. A pattern that ends in /... matches a package and all packages below it.
type rule struct {
	packages string
	// but lists packages below it that the row does not cover: they have their own rows, or only tests import them.
	but   []string
	may   []string
	never []string
}

// table lists the packages that each package may import. It is strict, and changes only with the architecture.
var table = []rule{
	{packages: "schema/...", but: []string{"schema/billing/..."}, may: []string{"schema/..."}, never: []string{temporal, echo, stripeGo, "schema/billing/..."}},
	{packages: "schema/billing", may: []string{"schema/..."}, never: []string{temporal, echo, stripeGo, "schema/billing/account", "schema/billing/rebuild"}},
	{packages: "schema/billing/rebuild", may: []string{"schema", "schema/billing", "schema/billing/fact", "schema/billing/fold", "schema/outbox"}, never: []string{temporal, echo, stripeGo}},
	{packages: "schema/billing/account", may: []string{"schema/..."}, never: []string{temporal, echo, stripeGo}},
	{packages: "schema/billing/fact", may: []string{}, never: []string{pgx, temporal, echo, stripeGo, "context"}},
	{packages: "schema/billing/fold", may: []string{"schema/billing/fact"}, never: []string{pgx, temporal, echo, stripeGo, "context"}},
	{packages: "activities/effect", may: []string{"schema/breaker", "schema/event", "schema/ledger", "schema/pause", "schema/failpoint"}, never: []string{echo}},
	{packages: "activities/activitiestest", may: []string{"docs"}, never: []string{temporal, echo}},
	{packages: "activities/flow", may: []string{}, never: []string{pgx, temporal, echo, stripeGo, "context", "os"}},
	{packages: "activities/...", but: []string{"activities/effect", "activities/activitiestest", "activities/flow"}, may: []string{"activities/...", "schema/..."}, never: []string{echo}},
	{packages: "workflows/plan", may: []string{"activities", "activities/effect", "activities/flow", "schema/billing", "schema/billing/fact", "schema/billing/fold", "schema/event", "workflows/workflowid"}, never: []string{pgx, temporal, echo, "net/http", "os", "context"}},
	{packages: "workflows/...", but: []string{"workflows/plan"}, may: []string{"workflows/...", "activities/...", "schema/billing", "schema/billing/fact", "schema/billing/fold", "schema/event"}, never: []string{pgx, echo, "net/http", "os"}},
	{packages: "ingress/webhook", may: []string{}, never: []string{pgx, temporal, echo, stripeGo}},
	{packages: "ingress/webhook/webhooktest", may: []string{"ingress/webhook"}, never: []string{pgx, temporal, echo}},
	{packages: "ingress", may: []string{"ingress/throttle", "ingress/webhook", "schema/event", "schema/receipt", "schema/failpoint"}, never: []string{temporal}},
	{packages: "ingress/dispatch", may: []string{"workflows", "activities/intervention", "schema/receipt", "schema/run", "schema/failpoint"}, never: []string{echo}},
	{packages: "ingress/rejected", may: []string{"ingress/throttle", "ingress/webhook", "schema/rejection"}, never: []string{temporal, echo}},
	{
		packages: "ingress/...", but: []string{"ingress", "ingress/webhook/...", "ingress/dispatch", "ingress/rejected"},
		may: []string{"ingress/webhook", "ingress/hmac"}, never: []string{pgx, temporal, echo},
	},
	{packages: "cmd/internal/role", may: []string{}, never: []string{pgx, temporal, echo}},
	{packages: "cmd/internal/config/change", may: []string{"cmd/internal/config"}, never: []string{pgx, echo, "context"}},
	{packages: "cmd/internal/config/stamp", may: []string{}, never: []string{pgx, temporal, echo, "context"}},
	{packages: "cmd/internal/handover", may: []string{}, never: []string{pgx, temporal, echo}},
	{packages: "cmd/internal/config", may: []string{"cmd/internal/config/stamp", "cmd/internal/role", "ingress/webhook", "activities/flow", "activities/letters"}, never: []string{pgx, echo}},
	{packages: "cmd/internal/dev/forge", may: []string{"ingress/webhook"}, never: []string{pgx, temporal, echo}},
	{packages: "cmd/internal/output", may: []string{}, never: []string{pgx, temporal, echo}},
	{packages: "cmd/internal/condition", may: []string{"cmd/internal/config", "cmd/internal/operator/...", "cmd/internal/output", "workflows", "workflows/schedules", "schema/..."}, never: []string{echo}},
	{packages: "cmd/internal/report", may: []string{"cmd/internal/condition", "cmd/internal/config", "cmd/internal/operator/...", "cmd/internal/output", "ingress/rejected", "workflows", "workflows/plan", "schema/..."}, never: []string{echo}},
	{packages: "cmd/internal/dev/send", may: []string{"cmd/internal/config", "cmd/internal/dev/forge", "ingress/webhook"}, never: []string{pgx, temporal, echo}},
	// The shared code of decisions knows no resource. A resource imports only resources further up in the list.
	{packages: "cmd/internal/operator/decide", may: []string{"cmd/internal/role", "workflows", "activities/stripe", "schema/..."}, never: []string{echo, "schema/billing/account", "schema/billing/rebuild"}},
	{packages: "cmd/internal/operator/mask", may: []string{}, never: []string{pgx, temporal, echo}},
	{packages: "cmd/internal/operator/cache", may: []string{"cmd/internal/operator/decide"}, never: []string{pgx, temporal, echo}},
	{packages: "cmd/internal/operator/signin", may: []string{"cmd/internal/operator/decide", "cmd/internal/role", "schema/..."}, never: []string{temporal, echo}},
	{packages: "cmd/internal/operator/token", may: []string{"cmd/internal/operator/cache", "cmd/internal/operator/decide", "cmd/internal/operator/signin", "cmd/internal/role", "schema/..."}, never: []string{temporal, echo}},
	{packages: "cmd/internal/operator/recovery", may: []string{"activities/effect", "cmd/internal/operator/decide", "cmd/internal/role", "workflows", "workflows/jobs", "schema/..."}, never: []string{echo, "schema/billing/..."}},
	{packages: "cmd/internal/operator/sink", may: []string{"cmd/internal/operator/decide", "schema/..."}, never: []string{temporal, echo, "schema/billing/..."}},
	{packages: "cmd/internal/operator/task", may: []string{"cmd/internal/operator/decide", "cmd/internal/role", "schema/..."}, never: []string{temporal, echo}},
	{packages: "cmd/internal/operator/job", may: []string{"cmd/internal/operator/decide", "workflows", "workflows/jobs", "schema/..."}, never: []string{echo, "schema/billing/..."}},
	{packages: "cmd/internal/operator/source", may: []string{"cmd/internal/operator/decide", "cmd/internal/operator/job", "cmd/internal/operator/sink", "workflows/schedules", "activities/stripe", "schema/..."}, never: []string{echo, "schema/billing/..."}},
	{packages: "cmd/internal/operator/rejection", may: []string{"cmd/internal/operator/decide", "cmd/internal/operator/mask", "cmd/internal/operator/source", "cmd/internal/role", "schema/..."}, never: []string{temporal, echo, "schema/billing/..."}},
	{packages: "cmd/internal/operator/account", may: []string{"cmd/internal/operator/cache", "cmd/internal/operator/cash", "cmd/internal/operator/decide", "cmd/internal/operator/job", "cmd/internal/operator/obstacle", "cmd/internal/operator/source", "cmd/internal/role", "workflows", "workflows/schedules", "activities/stripe", "schema/..."}, never: []string{echo}},
	{packages: "cmd/internal/operator/money", may: []string{"cmd/internal/operator/account", "cmd/internal/operator/decide", "cmd/internal/operator/task", "cmd/internal/role", "workflows", "activities/stripe", "schema/..."}, never: []string{temporal, echo}},
	{packages: "cmd/internal/operator/label", may: []string{}, never: []string{pgx, temporal, echo, "context"}},
	{packages: "cmd/internal/operator/event", may: []string{"cmd/internal/operator/account", "cmd/internal/operator/decide", "cmd/internal/operator/label", "cmd/internal/operator/mask", "cmd/internal/operator/money", "cmd/internal/operator/obstacle", "cmd/internal/role", "workflows", "workflows/plan", "activities", "schema/..."}, never: []string{echo}},
	{packages: "cmd/internal/operator/rules", may: []string{"cmd/internal/operator/account", "cmd/internal/operator/decide", "cmd/internal/operator/event", "cmd/internal/operator/job", "cmd/internal/role", "activities", "activities/stripe", "schema/..."}, never: []string{temporal, echo}},
	{packages: "cmd/internal/operator", may: []string{"cmd/internal/operator/...", "cmd/internal/role", "workflows", "activities", "activities/stripe", "schema/..."}, never: []string{echo}},
	{packages: "cmd/internal/operator/cash", may: []string{"activities/stripe", "schema/..."}, never: []string{temporal, echo}},
	{packages: "cmd/internal/operator/obstacle", may: []string{"cmd/internal/operator/label", "workflows", "workflows/plan", "schema/..."}, never: []string{pgx, temporal, echo}},
	{
		packages: "cmd/internal/process",
		may: []string{
			"cmd/internal/condition", "cmd/internal/config", "cmd/internal/config/change", "cmd/internal/config/stamp", "cmd/internal/handover", "cmd/internal/operator/...", "cmd/internal/ops", "cmd/internal/telemetry",
			"ingress", "ingress/dispatch", "ingress/rejected", "ingress/throttle",
			"ingress/webhook", "workflows/...", "activities/...", "schema/...",
		},
		never: []string{echo},
	},
	{packages: "cmd/internal/command", may: []string{"cmd/internal/capture", "cmd/internal/condition", "cmd/internal/config", "cmd/internal/operator/decide", "cmd/internal/operator/recovery", "cmd/internal/output", "cmd/internal/parameter", "cmd/internal/process", "cmd/internal/resource", "ingress/hmac", "ingress/webhook", "schema", "schema/receipt"}, never: []string{echo}},
	{
		packages: "cmd/internal/cli",
		may: []string{
			"cmd/internal/capture", "cmd/internal/command", "cmd/internal/config", "cmd/internal/importer", "cmd/internal/operator/...", "cmd/internal/output", "cmd/internal/process", "cmd/internal/report",
			"cmd/internal/resource", "cmd/internal/sinkcheck", "cmd/internal/tables", "ingress/rejected", "workflows", "activities/...", "schema/...",
		},
		never: []string{pgx, temporal, echo},
	},
	{packages: "cmd/internal/tables", may: []string{"cmd/internal/operator/...", "cmd/internal/output", "cmd/internal/report", "activities/stripe", "ingress/rejected", "workflows/...", "schema/..."}, never: []string{pgx, temporal, echo}},
	{packages: "cmd/internal/resource", may: []string{"cmd/internal/config", "cmd/internal/operator/...", "cmd/internal/output", "cmd/internal/report", "cmd/internal/role", "cmd/internal/tables", "schema/..."}, never: []string{pgx, temporal, echo}},
	{packages: "cmd/internal/console/...", may: []string{"cmd/internal/condition", "cmd/internal/console/tries", "cmd/internal/console/users", "cmd/internal/operator/...", "cmd/internal/resource", "cmd/internal/parameter", "cmd/internal/role", "cmd/internal/config", "cmd/internal/output", "cmd/internal/report", "cmd/internal/tables", "ingress/throttle", "schema/..."}, never: []string{pgx, temporal}},
	{
		packages: "cmd/internal/api",
		may:      []string{"cmd/internal/operator/...", "cmd/internal/parameter", "cmd/internal/resource", "cmd/internal/role", "cmd/internal/report", "cmd/internal/config", "schema/..."},
		never:    []string{pgx, temporal, stripeGo},
	},
}

// development is imported by the commands dev, send and pawlbench, and by tests: no other part of the product uses it.
// TestProductionBinary checks that the files of cmd/pawl that import it are left out of the binary for production.
var (
	development = []string{"cmd/internal/dev/...", "schema/localpg/..."}
	developers  = []string{"cmd/pawl", "cmd/pawlbench/...", "cmd/internal/dev/...", "cmd/internal/command/commandtest", "schema/localpg/...", "schema/schematest"}
)

// vague lists package names without a meaning at the call site.
var vague = []string{"util", "utils", "common", "helper", "helpers", "models", "impl", "manager", "misc"}

type goPackage struct {
	ImportPath string
	Imports    []string
}

// Imports of test files do not count: tests import schematest and the fakes of other packages.
func TestImportTable(t *testing.T) {
	t.Parallel()
	packages := list(t)
	if !slices.ContainsFunc(packages, func(p goPackage) bool { return p.ImportPath == module+"/ingress/webhook" }) {
		t.Fatalf("go list does not see our packages: %v", packages)
	}
	for _, violation := range check(packages) {
		t.Error(violation)
	}
}

// Each row detects a violation.
func TestImportTable_Violations_Caught(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ from, to string }{
		{"schema/receipt", "go.temporal.io/sdk/client"},
		{"schema/ledger", module + "/ingress/webhook"},
		{"activities/effect", module + "/schema/receipt"},
		{"activities/email", module + "/workflows"},
		{"activities/flow", module + "/schema/receipt"},
		{"workflows", "github.com/jackc/pgx/v5"},
		{"workflows", "net/http"},
		{"workflows", "os"},
		{"workflows", module + "/schema/receipt"},
		{"workflows/plan", "go.temporal.io/sdk/workflow"},
		{"workflows/plan", module + "/workflows"},
		{"ingress/webhook", module + "/schema/receipt"},
		{"ingress/stripe", module + "/ingress/github"},
		{"ingress/stripe", "github.com/jackc/pgx/v5/pgxpool"},
		{"ingress", module + "/ingress/stripe"},
		{"ingress", "go.temporal.io/sdk/client"},
		{"ingress/dispatch", "github.com/labstack/echo/v4"},
		{"cmd/internal/operator", module + "/ingress"},
		{"cmd/internal/operator/decide", module + "/cmd/internal/operator/event"},
		{"cmd/internal/operator/account", module + "/cmd/internal/operator/event"},
		{"cmd/internal/operator/job", module + "/cmd/internal/operator/task"},
		{"cmd/internal/console", "github.com/jackc/pgx/v5"},
		{"cmd/internal/api", "github.com/jackc/pgx/v5/pgxpool"},
		{"cmd/internal/api", "go.temporal.io/sdk/client"},
		{"cmd/internal/api", module + "/cmd/internal/process"},
		{"cmd/internal/cli", "github.com/jackc/pgx/v5"},
		{"cmd/internal/cli", module + "/cmd/internal/doctor"},
		{"cmd/internal/command", module + "/cmd/internal/cli"},
		{"cmd/internal/config", module + "/ingress/stripe"},
		{"cmd/internal/process", module + "/ingress/stripe"},
		{"schema/receipt", module + "/schema/billing/fold"},
		{"schema/billing", module + "/cmd/internal/config"},
		{"schema/billing", module + "/schema/billing/account"},
		{"schema/billing", module + "/schema/billing/rebuild"},
		{"schema/billing/rebuild", module + "/schema/billing/account"},
		{"schema/billing/fact", module + "/schema/billing"},
		{"schema/billing/fact", "github.com/jackc/pgx/v5"},
		{"schema/billing/fold", "github.com/jackc/pgx/v5"},
		{"schema/billing/fold", "context"},
		{"schema/billing/fold", module + "/schema/receipt"},
	} {
		p := goPackage{ImportPath: module + "/" + tt.from, Imports: []string{"fmt", tt.to}}
		if got := check([]goPackage{p}); len(got) != 1 {
			t.Errorf("%s imports %s: violations %v, want one", tt.from, tt.to, got)
		}
	}
	for _, from := range []string{"cmd/internal/doctor", "cmd/internal/ops", "cmd/internal/importer"} { // they have no row
		p := goPackage{ImportPath: module + "/" + from, Imports: []string{module + "/cmd/internal/dev/forge"}}
		if got := check([]goPackage{p}); len(got) != 1 {
			t.Errorf("%s imports dev/forge: violations %v, want one", from, got)
		}
	}
	if got := check([]goPackage{{ImportPath: module + "/schema/util"}}); len(got) != 1 {
		t.Errorf("a package named util: violations %v, want one", got)
	}
}

// The production binary contains no package that only development or tests use.
func TestProductionBinary_WithoutWhatOnlyDevelopmentNeeds(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "nodev", module+"/cmd/pawl")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	if !strings.Contains(string(out), module+"/ingress\n") {
		t.Fatalf("go list does not list the packages of the binary:\n%s", out)
	}
	for dependency := range strings.Lines(string(out)) {
		for _, unwanted := range []string{
			"github.com/fergusstrange/embedded-postgres", "github.com/lib/pq", "github.com/xi2/xz", "github.com/cloudevents/", "go.uber.org/zap",
			"github.com/json-iterator/", "github.com/Masterminds/",
			module + "/cmd/internal/dev", module + "/cmd/internal/command/commandtest", module + "/cmd/pawlbench", module + "/schema/localpg", module + "/schema/schematest",
			module + "/schema/billing/billingtest",
		} {
			if strings.HasPrefix(dependency, unwanted) {
				t.Errorf("%s is in the binary", strings.TrimSpace(dependency))
			}
		}
	}
}

func check(packages []goPackage) []string {
	var violations []string
	for _, p := range packages {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if slices.Contains(vague, path.Base(name)) {
			violations = append(violations, name+": a package says what it gives; this name does not")
		}
		for _, imported := range p.Imports {
			if own, _ := strings.CutPrefix(imported, module+"/"); matchesAny(development, own) && !matchesAny(developers, name) {
				violations = append(violations, fmt.Sprintf("%s imports %s, which is for development", name, imported))
			}
		}
		i := slices.IndexFunc(table, func(r rule) bool { return matches(r.packages, name) && !matchesAny(r.but, name) })
		if i < 0 {
			continue
		}
		for _, imported := range p.Imports {
			own, isOurs := strings.CutPrefix(imported, module+"/")
			if isOurs && !matchesAny(table[i].may, own) || matchesAny(table[i].never, own) {
				violations = append(violations, fmt.Sprintf("%s imports %s; of ours it may import %v, and never %v", name, imported, table[i].may, table[i].never))
			}
		}
	}
	return violations
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

func matches(pattern, name string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == base || strings.HasPrefix(name, base+"/")
	}
	return name == pattern
}

func list(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var packages []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
