package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The house style in figures: the maximum size of lines, functions, files, types and packages. Test files do not
// count. prose_test.go measures the language.
//
//	go test -count=1 -v -run '^TestHouse' ./cmd/internal        prints the size of every package
const (
	columns      = 120 // per line; a tab counts as four
	functionRows = 60  // per function, not counting the largest list in it
	fileRows     = 400
	methods      = 40 // per type
	stringShare  = 80 // a line with a string of at least this many columns may be longer
)

// size is the size of a package: its Go files outside tests, and their lines.
type size struct{ lines, files int }

// ordinary is the limit of a package without a row in oversize.
var ordinary = size{lines: 3500, files: 25}

// oversize lists larger packages with their own limits. Delete a row when its package is split. A commit that raises
// a limit gives the reason.
var oversize = map[string]size{}

// The sums of tools and kits are separate from the product: programs for development, and packages that only tests
// import.
var (
	tools = []string{".ci", "cmd/internal/dev", "cmd/pawlbench", "docs", "schema/localpg"}
	kits  = []string{"activities/activitiestest", "cmd/internal/command/commandtest", "cmd/internal/e2e", "cmd/internal/flowtest",
		"cmd/internal/operator/operatortest", "ingress/webhook/webhooktest",
		"schema/billing/billingtest", "schema/failpoint", "schema/schematest"}
)

// house collects the sizes of packages, and the methods of types by package and name.
type house struct {
	t        *testing.T
	packages map[string]size
	types    map[string]int
}

// fault fails the test. Its message contains the position, the rule, and the file that defines the rule.
func (h *house) fault(file string, line int, format string, args ...any) {
	h.t.Errorf("%s:%d: %s\n\tThe rule and its number are in cmd/internal/house_test.go.", file, line, fmt.Sprintf(format, args...))
}

// source counts a Go file outside tests.
func (h *house) source(file string, content []byte) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, content, parser.SkipObjectResolution)
	if err != nil {
		h.t.Fatal(err)
	}
	rows := strings.Count(string(content), "\n")
	of := h.packages[path.Dir(file)]
	h.packages[path.Dir(file)] = size{of.lines + rows, of.files + 1}
	if rows > fileRows {
		h.fault(file, 1, "the file has %d lines; the bound is %d. Split it by the nouns in it.", rows, fileRows)
	}
	h.width(file, content)
	for _, declared := range parsed.Decls {
		f, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := span(files, f) - largestList(files, f); n > functionRows {
			h.fault(file, files.Position(f.Pos()).Line, "%s has %d lines; the bound is %d. Name its parts.", f.Name.Name, n, functionRows)
		}
		if f.Recv != nil {
			h.types[path.Join(path.Dir(file), receiver(f))]++
		}
	}
}

// width counts the lines that are too long. Lines in raw strings, such as SQL, and lines with a long string do not
// count.
func (h *house) width(file string, content []byte) {
	files := token.NewFileSet()
	positions := files.AddFile(file, -1, len(content))
	var s scanner.Scanner
	s.Init(positions, content, nil, scanner.ScanComments)
	excused := map[int]bool{}
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		first, raw := positions.Line(at), strings.Contains(literal, "\n")
		if kind == token.STRING && (raw || utf8.RuneCountInString(literal) >= stringShare) {
			for line := first; line <= first+strings.Count(literal, "\n"); line++ {
				excused[line] = true
			}
		}
	}
	line := 0
	for row := range strings.Lines(string(content)) {
		line++
		row = strings.TrimSuffix(row, "\n")
		if n := utf8.RuneCountInString(row) + 3*strings.Count(row, "\t"); n > columns && !excused[line] {
			h.fault(file, line, "the line has %d columns; the bound is %d.", n, columns)
		}
	}
}

// span returns how many lines a node takes.
func span(files *token.FileSet, n ast.Node) int {
	return files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1
}

// largestList returns the number of lines of the largest list or raw string in f.
func largestList(files *token.FileSet, f *ast.FuncDecl) int {
	largest := 0
	ast.Inspect(f, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.CompositeLit, *ast.BasicLit:
			largest = max(largest, span(files, n)-1)
		}
		return true
	})
	return largest
}

// receiver returns the name of a method's type.
func receiver(f *ast.FuncDecl) string {
	expression := f.Recv.List[0].Type
	for {
		switch x := expression.(type) {
		case *ast.StarExpr:
			expression = x.X
		case *ast.IndexExpr:
			expression = x.X
		case *ast.IndexListExpr:
			expression = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// walk calls visit with the path and content of every file of the repository that people write.
func walk(t *testing.T, visit func(file string, content []byte)) {
	t.Helper()
	root := os.DirFS(filepath.Join("..", ".."))
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name == "testdata" || name == "node_modules" || name == ".git" || name == ".pawl" {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := fs.ReadFile(root, file)
		if err == nil {
			visit(file, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// group returns which of the three sums counts a package.
func group(name string) string {
	below := func(roots []string) bool {
		return slices.ContainsFunc(roots, func(root string) bool { return name == root || strings.HasPrefix(name, root+"/") })
	}
	switch {
	case below(tools):
		return "development tools"
	case below(kits):
		return "test kits"
	default:
		return "product"
	}
}

func TestHouse(t *testing.T) {
	h := &house{t: t, packages: map[string]size{}, types: map[string]int{}}
	walk(t, func(file string, content []byte) {
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			h.source(file, content)
		}
	})
	for name, n := range h.types {
		if n > methods {
			h.fault(name, 1, "the type has %d methods; the bound is %d. Split it.", n, methods)
		}
	}
	var report strings.Builder
	sums := map[string]size{}
	for _, name := range slices.Sorted(maps.Keys(h.packages)) {
		has, bound := h.packages[name], ordinary
		if own, found := oversize[name]; found {
			bound = own
		}
		fmt.Fprintf(&report, "%-32s %6d of %d lines, %3d of %d files\n", name, has.lines, bound.lines, has.files, bound.files)
		if has.lines > bound.lines || has.files > bound.files {
			h.fault(name, 1, "the package has %d lines in %d files outside tests; its bound is %d lines in %d files.\n\t"+
				"Split the package, or change its row in the table oversize and give the reason in the commit.",
				has.lines, has.files, bound.lines, bound.files)
		}
		sum := sums[group(name)]
		sums[group(name)] = size{sum.lines + has.lines, sum.files + has.files}
	}
	for name := range oversize {
		if _, found := h.packages[name]; !found {
			t.Errorf("cmd/internal/house_test.go: the table oversize lists %s, which does not exist; delete the row", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&report, "sum: %-27s %6d lines, %d files\n", name, sums[name].lines, sums[name].files)
	}
	t.Log("\n" + report.String())
}
