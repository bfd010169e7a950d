package schematest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// grows lists the tables that get rows for every event and keep them forever.
var grows = []string{"receipts", "receipt_bodies", "redeliveries", "event_subjects", "transmissions", "runs", "effects",
	"effect_attempts", "outbox", "outages", "outage_events",
	"facts", "accounts", "subscriptions", "invoices", "grants", "due", "workspaces", "tasks",
	"finance_entries", "finance_corrections", "skipped_entries",
	"objects", "operator_actions"}

// OnPurpose names the statements that may read more rows than the rows of a key.
type OnPurpose struct {
	// Walks lists statements that read a table from one end and stop early.
	Walks []string
	// Open lists statements that read all unfinished rows, through a partial index. Between two vacuums, such an index
	// also contains finished rows.
	Open []string
	// Made contains statements that the package generates at run time, by name.
	Made map[string]string
}

// Statements returns the statements of the package in a directory by name. These are its constants with names that end
// in SQL. The constant openTaskSQL gets the name "open task".
func Statements(t *testing.T, dir string) map[string]string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(here)))
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := constants(root).Import(module + strings.TrimPrefix(dir, root))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range pkg.Scope().Names() {
		words, is := strings.CutSuffix(name, "SQL")
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); is && ok {
			all[strings.ToLower(upper.ReplaceAllString(words, " $0"))] = constant.StringVal(c.Val())
		}
	}
	return all
}

var upper = regexp.MustCompile(`[A-Z]`)

const module = "github.com/pawlhq/pawl"

// constants is the directory of a module. It imports the packages of the module for their constants only: it does not
// type-check function bodies or other modules.
type constants string

// Import returns a package, even if it has errors.
func (root constants) Import(path string) (*types.Package, error) {
	inside, ours := strings.CutPrefix(path, module)
	if !ours {
		return nil, errors.ErrUnsupported
	}
	paths, err := filepath.Glob(filepath.Join(string(root), inside, "*.go"))
	set, files := token.NewFileSet(), []*ast.File{}
	for _, path := range paths {
		file, failed := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err = errors.Join(err, failed); !strings.HasSuffix(path, "_test.go") {
			files = append(files, file)
		}
	}
	known := types.Config{IgnoreFuncBodies: true, Importer: root, Error: func(error) {}}
	pkg, _ := known.Check(path, set, files, nil)
	return pkg, err
}

// CheckStatements prepares each statement of the package under test against the migrated schema. It reports statements
// that read all rows, or all unfinished rows, of a table that grows forever, because they become slow when the table is
// large.
//
// The plans are the same as in production; see [schema.Handling].
func CheckStatements(t *testing.T, pool *pgxpool.Pool, but OnPurpose) {
	t.Helper()
	statements := Statements(t, ".")
	maps.Copy(statements, but.Made)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	indexes := indexesOf(t, conn.Conn())
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		plan, err := explain(t, conn.Conn(), name, statements[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		walked, open := plan.reads(indexes)
		if len(walked) > 0 && !slices.Contains(but.Walks, name) {
			t.Errorf("%s reads all of %s", name, strings.Join(walked, " and "))
		}
		if len(open) > 0 && !slices.Contains(but.Open, name) {
			t.Errorf("%s reads every index entry of %s, even of finished rows", name, strings.Join(open, " and "))
		}
	}
}

// explain returns the plan of the statement sql.
func explain(t *testing.T, conn *pgx.Conn, name, sql string) (node, error) {
	prepared, err := conn.Prepare(t.Context(), name, sql)
	if err != nil {
		return node{}, err
	}
	args := strings.TrimSuffix(strings.Repeat("null,", len(prepared.ParamOIDs)), ",")
	if args != "" {
		args = "(" + args + ")"
	}
	var plans []struct{ Plan node }
	var text []byte
	explain := fmt.Sprintf("explain (format json) execute %s%s", pgx.Identifier{name}.Sanitize(), args)
	if err := conn.QueryRow(t.Context(), explain, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		return node{}, err
	}
	if err := json.Unmarshal(text, &plans); err != nil {
		return node{}, err
	}
	return plans[0].Plan, nil
}

// node contains the fields of a plan node that the check needs.
type node struct {
	Type  string `json:"Node Type"`
	Table string `json:"Relation Name"`
	Index string `json:"Index Name"`
	Cond  string `json:"Index Cond"`
	Plans []node
}

// reads returns the growing tables that a plan reads completely, and the partial indexes of such tables that it reads
// completely.
func (n node) reads(indexes map[string]index) (tables, open []string) {
	switch n.Type {
	case "Seq Scan":
		tables = append(tables, n.Table)
	case "Index Scan", "Index Only Scan", "Bitmap Index Scan":
		switch i := indexes[n.Index]; {
		case keyed(n.Cond):
		case !i.Partial:
			tables = append(tables, i.Table)
		case slices.Contains(grows, i.Table):
			open = append(open, n.Index)
		}
	}
	tables = slices.DeleteFunc(tables, func(table string) bool { return !slices.Contains(grows, table) })
	for _, child := range n.Plans {
		ofChild, openInChild := child.reads(indexes)
		tables, open = append(tables, ofChild...), append(open, openInChild...)
	}
	return tables, open
}

// given matches a parameter, or a column of another relation.
var given = regexp.MustCompile(`\$\d|[a-z]\w*\.\w`)

// keyed reports whether an index condition selects rows by a key, and not only by a value that most rows share. Nearly
// all rows have the same mode, so the mode is not a key.
func keyed(cond string) bool {
	for part := range strings.SplitSeq(cond, " AND ") {
		if given.MatchString(part) && !strings.HasPrefix(strings.TrimLeft(part, "("), "mode = ") {
			return true
		}
	}
	return false
}

type index struct {
	Name, Table string
	Partial     bool
}

func indexesOf(t *testing.T, conn *pgx.Conn) map[string]index {
	t.Helper()
	rows, err := conn.Query(t.Context(), `select indexrelid::regclass::text as name, indrelid::regclass::text as "table", indpred is not null as partial from pg_index`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[index])
	if err != nil {
		t.Fatal(err)
	}
	indexes := map[string]index{}
	for _, i := range list {
		indexes[i.Name] = i
	}
	return indexes
}
