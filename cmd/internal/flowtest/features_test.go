package flowtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var testAndCase = regexp.MustCompile(`^(.*?Test\w+)(?:/(.+))?$`)

// testdata/features.tsv lists the features of Stripe's billing API and the document that describes each. The coverage
// of a feature is one of three: "referee KIND", a kind of event that the companies of TestReferee produce; "judged
// [PACKAGE.]TEST[/CASE]", a test with the beginning of a text in its file; or "left out: REASON". Semicolons separate
// several coverages.
func TestFeatures_EachIsCoveredOrLeftOut(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/features.tsv")
	if err != nil {
		t.Fatal(err)
	}
	tests, kinds, seen := map[string][]string{}, map[string]bool{}, map[string]bool{}
	readTests(t, "*_test.go", "", tests, kinds)
	readTests(t, "../../../schema/billing/*_test.go", "schema/billing.", tests, kinds)
	var leftOut []string
	for n, line := range strings.Split(strings.TrimSpace(string(content)), "\n")[1:] {
		row := strings.Split(line, "\t")
		if len(row) != 4 || slices.Contains(row, "") {
			t.Errorf("row %d has not four columns: %q", n+1, line)
			continue
		}
		feature := row[0] + ": " + row[1]
		if seen[feature] {
			t.Errorf("%s: listed twice", feature)
		}
		seen[feature] = true
		for _, coverage := range strings.Split(row[3], "; ") {
			how, what, _ := strings.Cut(coverage, " ")
			parts := append(testAndCase.FindStringSubmatch(what), "", "", "")
			test, of := parts[1], parts[2]
			switch {
			case strings.HasPrefix(coverage, "left out: "):
				leftOut = append(leftOut, feature+" ("+strings.TrimPrefix(coverage, "left out: ")+")")
			case how == "referee" && kinds[what]:
			case how == "judged" && slices.ContainsFunc(tests[test], func(text string) bool { return strings.HasPrefix(text, of) }):
			default:
				t.Errorf("%s: there is no %q", feature, coverage)
			}
		}
	}
	t.Logf("%d features, %d of them left out:\n%s", len(seen), len(leftOut), strings.Join(leftOut, "\n"))
}

// readTests adds the tests in some files, each with the texts of its file, and the kinds of events in TestReferee.
func readTests(t *testing.T, pattern, prefix string, tests map[string][]string, kinds map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					texts = append(texts, text)
				}
			case *ast.CallExpr:
				if method, called := n.Fun.(*ast.SelectorExpr); called && method.Sel.Name == "did" {
					if kind, literal := n.Args[0].(*ast.BasicLit); literal {
						kinds[kindOf(strings.Trim(kind.Value, `"`))] = true
					}
				}
			}
			return true
		})
		for _, d := range file.Decls {
			if f, function := d.(*ast.FuncDecl); function && strings.HasPrefix(f.Name.Name, "Test") {
				tests[prefix+f.Name.Name] = texts
			}
		}
	}
}
