package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The core does not depend on billing: the SQL of a core package names no table or view in the section "billing" of
// the migrations. event_subjects contains the data that the core needs to list, search and sum up events.

// besideTheCore lists the packages below schema that are not part of the core, or that handle the database as a whole.
var besideTheCore = []string{"schema", "schema/billing", "schema/schematest"}

var (
	sectionLine = regexp.MustCompile(`^-- Section: (\w+)\.`)
	createLine  = regexp.MustCompile(`^create (?:unlogged )?(?:table|view) (\w+)`)
	sqlComment  = regexp.MustCompile(`--[^\n]*`)
	sqlText     = regexp.MustCompile(`'[^']*'`)
	sqlName     = regexp.MustCompile(`[a-z_]\w*(?:\.[a-z_]\w*)*`)
	sqlSource   = regexp.MustCompile(`\b(?:from|join|into|update|using)\s+(?:only\s+)?([a-z_]\w*(?:\.\w+)?)`)
)

// billingTables returns the tables and views of the billing section in migrations.
func billingTables(migrations string) (names []string) {
	section := ""
	for line := range strings.Lines(migrations) {
		if found := sectionLine.FindStringSubmatch(line); found != nil {
			section = found[1]
		}
		if found := createLine.FindStringSubmatch(line); found != nil && section == "billing" {
			names = append(names, found[1])
		}
	}
	return names
}

// namedTables returns the tables that the strings of a Go file name as SQL, with their lines. A name in a raw string
// counts as SQL; in another string, a name counts after a keyword such as from.
func namedTables(t *testing.T, file string, content []byte, tables []string) map[string]int {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, content, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok {
			field.Tag = nil
		}
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		text = strings.ToLower(sqlText.ReplaceAllString(sqlComment.ReplaceAllString(text, ""), ""))
		var names []string
		if literal.Value[0] == '`' {
			names = sqlName.FindAllString(text, -1)
		} else {
			for _, source := range sqlSource.FindAllStringSubmatch(text, -1) {
				names = append(names, source[1])
			}
		}
		for _, name := range names { // a table, a table with its schema, or a table with a column
			name = strings.TrimPrefix(name, "public.")
			if table, _, _ := strings.Cut(name, "."); slices.Contains(tables, table) {
				found[table] = files.Position(literal.Pos()).Line
			}
		}
		return true
	})
	return found
}

func TestCoreSQL_NoBillingTable(t *testing.T) {
	var migrations strings.Builder
	walk(t, func(file string, content []byte) {
		if path.Dir(file) == "schema/migrations" {
			migrations.Write(content)
		}
	})
	tables := billingTables(migrations.String())
	for _, known := range []string{"facts", "current_facts", "accounts", "invoices", "finance_entries"} {
		if !slices.Contains(tables, known) {
			t.Errorf("%s is not in the section billing of schema/migrations: %q", known, tables)
		}
	}
	seen := 0
	walk(t, func(file string, content []byte) {
		in := path.Dir(file)
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || !strings.HasPrefix(in, "schema/") ||
			slices.Contains(besideTheCore, in) || strings.HasPrefix(in, "schema/billing/") {
			return
		}
		seen++
		found := namedTables(t, file, content, tables)
		for _, table := range slices.Sorted(maps.Keys(found)) {
			t.Errorf("%s:%d: SQL of the core names the billing table %s. Read event_subjects, or move the statement below schema/billing.",
				file, found[table], table)
		}
	})
	if seen < 50 {
		t.Errorf("%d files of the core were read, want all", seen)
	}
}

// The test finds each way to name a table in SQL, and ignores the word in a message or a tag.
func TestCoreSQL_PlantedNames_Found(t *testing.T) {
	t.Parallel()
	tables := billingTables("create table receipts (\n-- Section: billing. x\ncreate table facts (\ncreate view paid as\n-- Section: core. x\ncreate table jobs (\n")
	if !slices.Equal(tables, []string{"facts", "paid"}) {
		t.Fatalf("tables %q", tables)
	}
	for code, want := range map[string]bool{
		"const x = `select 1 from receipts r, facts f`":        true,
		"const x = `select facts.id from jobs`":                true,
		"const x = `join public.facts f using (id)`":           true,
		"const x = `SELECT 1 FROM Facts`":                      true,
		"const x = \"delete from paid where id = $1\"":         true,
		"const x = \"update facts set id = 1\"":                true,
		"const x = `select 'facts' from receipts -- facts\n`":  false,
		"const x = `select r.facts from receipts r`":           false,
		"const x = \"the facts are in order\"":                 false,
		"type x struct { Facts int `json:\"facts\"` }":         false,
		"// from facts\nconst x = `select facts_id from jobs`": false,
	} {
		found := namedTables(t, "planted.go", []byte("package p\n"+code), tables)
		if (len(found) > 0) != want {
			t.Errorf("%s: found %v, want %t", code, found, want)
		}
	}
}
