package schematest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// grows are the tables that have rows for every event, for ever.
var grows = []string{"receipts", "receipt_bodies", "redeliveries", "runs", "effects", "effect_attempts", "outbox",
	"accounts", "subscriptions", "invoices", "entitlements", "workspaces", "onboarding_tasks", "finance_entries"}

// CheckStatements prepares each statement against the migrated schema, and reports those that can only be
// answered by reading all of a table that grows for ever: they are fast until there is something
// to be slow on. What does so on purpose, and stops early, is named in walks. The plans are those that run in
// production: see [schema.PlanByKey].
func CheckStatements(t *testing.T, pool *pgxpool.Pool, statements map[string]string, walks ...string) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		whole, err := readsWhole(t, conn.Conn(), name, statements[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(whole) > 0 && !slices.Contains(walks, name) {
			t.Errorf("%s reads all of %s", name, strings.Join(whole, " and "))
		}
	}
}

// readsWhole returns the tables that grow of which the plan of sql reads every row.
func readsWhole(t *testing.T, conn *pgx.Conn, name, sql string) ([]string, error) {
	prepared, err := conn.Prepare(t.Context(), name, sql)
	if err != nil {
		return nil, err
	}
	args := strings.TrimSuffix(strings.Repeat("null,", len(prepared.ParamOIDs)), ",")
	if args != "" {
		args = "(" + args + ")"
	}
	var plan []struct{ Plan node }
	var text []byte
	explain := fmt.Sprintf("explain (format json) execute %s%s", pgx.Identifier{name}.Sanitize(), args)
	if err := conn.QueryRow(t.Context(), explain, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return nil, err
	}
	partial, err := partialIndexes(t, conn)
	if err != nil {
		return nil, err
	}
	return plan[0].Plan.whole(partial), nil
}

// node is what is needed of a node of a plan.
type node struct {
	Type  string `json:"Node Type"`
	Table string `json:"Relation Name"`
	Index string `json:"Index Name"`
	Cond  string `json:"Index Cond"`
	Plans []node
}

var onlyMode = regexp.MustCompile(`^\(mode = [^()]+\)$`)

func (n node) whole(partial []string) []string {
	var tables []string
	switch n.Type {
	case "Seq Scan":
		tables = append(tables, n.Table)
	case "Index Scan", "Index Only Scan":
		// A partial index holds what is open, not what there ever was. Nearly all rows have the same mode.
		if (n.Cond == "" || onlyMode.MatchString(n.Cond)) && !slices.Contains(partial, n.Index) {
			tables = append(tables, n.Table)
		}
	}
	tables = slices.DeleteFunc(tables, func(table string) bool { return !slices.Contains(grows, table) })
	for _, child := range n.Plans {
		tables = append(tables, child.whole(partial)...)
	}
	return tables
}

func partialIndexes(t *testing.T, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(t.Context(), "select indexrelid::regclass::text from pg_index where indpred is not null")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
