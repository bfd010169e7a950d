package internal_test

import (
	"cmp"
	"flag"
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
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// The house style in figures: how comments and docs are written, and how large things are.
//
//	go test -count=1 -v -run '^TestHouse' ./cmd/internal                      the figures of every room
//	go test -count=1 -v -run '^TestHouse' ./cmd/internal -show schema/ledger  each fault below that path, with its line
//
// The ceilings only go down. A change that needs one raised says why in its commit.
var ceilings = struct {
	frontedComments, relativeComments float64 // percent of the sentences of comments in Go outside tests
	frontedDocs, relativeDocs         float64 // percent of the sentences of README.md and docs
	longLines                         int     // of Go outside tests
	longFunctions, longFiles          int     // of Go outside tests
	largeTypes                        int     // with methods outside tests
	commandTestFiles                  int     // in cmd/pawl
	lines                             int     // of Go outside tests
}{
	frontedComments: 0.5, relativeComments: 1.5,
	frontedDocs: 1, relativeDocs: 1.5,
	longLines:     16,
	longFunctions: 0, longFiles: 0,
	largeTypes:       0,
	commandTestFiles: 20,
	lines:            78500,
}

const (
	columns      = 120 // of a line; a tab takes four
	functionRows = 60  // of a function, without the largest list in it
	fileRows     = 400
	methods      = 40 // of a type
	stringShare  = 80 // a line that holds a string of so many columns may be longer
)

var show = flag.String("show", "", "list each fault in files below this path of the repository")

var (
	// fronted finds a sentence that does not begin with its subject.
	fronted = regexp.MustCompile(`^(Of|What|Who|Whoever|Where|Whatever|Without)\b`)
	// relative finds the constructions of a sentence that has to be read twice.
	relative = regexp.MustCompile(`(?i)\b(of which|of whom|of what|to whom|by which|with which|from which|for which|at which|` +
		`that is there|that are there|is none|are none|what is|what was|what has|what it|where it does not|where it is not|but for)\b`)
	// sentenceEnd is followed by the first letter of the next sentence.
	sentenceEnd = regexp.MustCompile("[.!?][)\"”]?\\s+[\"“(\\[`*]*\\p{Lu}")
)

// tally is the count of a room.
type tally struct {
	sentences, fronted, relative                           int
	lines, longLines, longFunctions, longFiles, largeTypes int
}

// percent returns n of the sentences as a percentage.
func (c tally) percent(n int) float64 { return 100 * float64(n) / float64(max(c.sentences, 1)) }

// house counts by room, and all rooms together.
type house struct {
	t     *testing.T
	rooms map[string]*tally
	all   tally
}

// room returns the tally of a file: a directory of cmd/internal, or the two upper directories of another file.
func (h *house) room(file string) *tally {
	parts := strings.Split(path.Dir(file), "/")
	depth := 2
	if len(parts) > 2 && parts[1] == "internal" {
		depth = 3
	}
	name := strings.Join(parts[:min(depth, len(parts))], "/")
	if h.rooms[name] == nil {
		h.rooms[name] = &tally{}
	}
	return h.rooms[name]
}

// fault prints a fault when its file was asked for.
func (h *house) fault(file string, line int, format string, args ...any) {
	if *show != "" && strings.HasPrefix(file, strings.TrimPrefix(*show, "./")) {
		fmt.Printf("%s:%d: %s\n", file, line, fmt.Sprintf(format, args...))
	}
}

// count adds to the file's room and to the sum.
func (h *house) count(file string, add func(*tally)) {
	add(h.room(file))
	add(&h.all)
}

// sentence counts one sentence.
func (h *house) sentence(file string, line int, text string) {
	h.count(file, func(c *tally) { c.sentences++ })
	if fronted.MatchString(text) {
		h.count(file, func(c *tally) { c.fronted++ })
		h.fault(file, line, "fronted: %s", text)
	}
	if found := relative.FindString(text); found != "" {
		h.count(file, func(c *tally) { c.relative++ })
		h.fault(file, line, "%q: %s", found, text)
	}
}

// paragraphs counts the sentences of text. A blank line, a list's item and a table's cell end a sentence; indented text
// is code.
func (h *house) paragraphs(file string, line int, text string) {
	paragraph, begin := "", line
	flush := func() {
		for _, s := range sentences(paragraph) {
			h.sentence(file, begin, s)
		}
		paragraph = ""
	}
	for row := range strings.Lines(text) {
		trimmed := strings.TrimSpace(row)
		item := strings.TrimLeft(trimmed, "-*#>0123456789. ")
		if trimmed == "" || item != trimmed {
			flush()
		}
		if trimmed != "" && !strings.HasPrefix(row, "\t") && !strings.HasPrefix(row, "    ") {
			if paragraph == "" {
				begin = line
			}
			paragraph += " " + item
		}
		line++
	}
	flush()
}

// sentences splits a paragraph. What has no letters is no sentence.
func sentences(paragraph string) []string {
	var found []string
	keep := func(s string) {
		if s = strings.TrimSpace(s); strings.IndexFunc(s, unicode.IsLetter) >= 0 {
			found = append(found, strings.TrimLeft(s, "\"“(`*["))
		}
	}
	for {
		end := sentenceEnd.FindStringIndex(paragraph)
		if end == nil {
			keep(paragraph)
			return found
		}
		cut := end[0] + 1
		keep(paragraph[:cut])
		paragraph = paragraph[cut:]
	}
}

// document counts the sentences of a Markdown file. Fenced blocks are code.
func (h *house) document(file, text string) {
	fenced, line := false, 0
	var prose strings.Builder
	for row := range strings.Lines(text) {
		line++
		fence := strings.HasPrefix(strings.TrimSpace(row), "```")
		fenced = fenced != fence
		switch {
		case fence || fenced:
			prose.WriteString("\n")
		case strings.HasPrefix(row, "|"):
			for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(row), "|"), " | ") {
				h.paragraphs(file, line, strings.TrimSpace(cell))
			}
			prose.WriteString("\n")
		default:
			prose.WriteString(strings.TrimLeft(row, " "))
		}
	}
	h.paragraphs(file, 1, prose.String())
}

// source counts a Go file outside tests.
func (h *house) source(file string, content []byte) map[string]int {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, group := range parsed.Comments {
		h.paragraphs(file, files.Position(group.Pos()).Line, group.Text())
	}
	rows := strings.Count(string(content), "\n")
	h.count(file, func(c *tally) { c.lines += rows })
	if rows > fileRows {
		h.count(file, func(c *tally) { c.longFiles++ })
		h.fault(file, 1, "%d lines", rows)
	}
	h.width(file, content)
	found := map[string]int{}
	for _, declared := range parsed.Decls {
		f, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := span(files, f) - largestList(files, f); n > functionRows {
			h.count(file, func(c *tally) { c.longFunctions++ })
			h.fault(file, files.Position(f.Pos()).Line, "%s has %d lines", f.Name.Name, n)
		}
		if f.Recv != nil {
			found[receiver(f)]++
		}
	}
	return found
}

// width counts the lines that are too long. Those in raw strings, such as SQL, and those with a long string may be.
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
			h.count(file, func(c *tally) { c.longLines++ })
			h.fault(file, line, "%d columns", n)
		}
	}
}

// span returns how many lines a node takes.
func span(files *token.FileSet, n ast.Node) int {
	return files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1
}

// largestList returns how many lines the largest list or raw string in f takes.
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

// survey counts the whole repository. It returns the number of test files in cmd/pawl, too.
func survey(t *testing.T) (code, docs *house, commandTests int) {
	t.Helper()
	code = &house{t: t, rooms: map[string]*tally{}}
	docs = &house{t: t, rooms: map[string]*tally{}}
	root := os.DirFS(filepath.Join("..", ".."))
	types := map[string]int{} // methods by directory and type
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name == "testdata" || name == ".git" || name == ".pawl" {
				return fs.SkipDir
			}
			return nil
		case strings.HasSuffix(name, "_test.go"):
			if path.Dir(file) == "cmd/pawl" {
				commandTests++
			}
			return nil
		}
		content, err := fs.ReadFile(root, file)
		switch path.Ext(name) {
		case ".go":
			for name, n := range code.source(file, content) {
				types[path.Join(path.Dir(file), name)] += n
			}
		case ".md":
			docs.document(file, string(content))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range types {
		if n > methods {
			code.count(name, func(c *tally) { c.largeTypes++ })
			code.fault(name, 1, "%d methods", n)
		}
	}
	return code, docs, commandTests
}

// report logs a row for each room and one for their sum.
func (h *house) report(title string) {
	rows := []string{fmt.Sprintf("%-34s %6s %9s %8s %8s %6s %6s %6s %6s", title, "lines", "sentences", "fronted", "relative", "long", "funcs", "files", "types")}
	row := func(name string, c tally) {
		rows = append(rows, fmt.Sprintf("%-34s %6d %9d %7.1f%% %7.1f%% %6d %6d %6d %6d", name, c.lines, c.sentences,
			c.percent(c.fronted), c.percent(c.relative), c.longLines, c.longFunctions, c.longFiles, c.largeTypes))
	}
	for _, name := range slices.Sorted(maps.Keys(h.rooms)) {
		row(name, *h.rooms[name])
	}
	row("all", h.all)
	h.t.Log("\n" + strings.Join(rows, "\n"))
}

func TestHouse(t *testing.T) {
	code, docs, commandTests := survey(t)
	code.report("Go outside tests")
	docs.report("docs")
	t.Logf("test files in cmd/pawl: %d", commandTests)
	hold(t, "percent of comment sentences do not begin with their subject", code.all.percent(code.all.fronted), ceilings.frontedComments)
	hold(t, "percent of comment sentences have a relative construction", code.all.percent(code.all.relative), ceilings.relativeComments)
	hold(t, "percent of sentences in docs do not begin with their subject", docs.all.percent(docs.all.fronted), ceilings.frontedDocs)
	hold(t, "percent of sentences in docs have a relative construction", docs.all.percent(docs.all.relative), ceilings.relativeDocs)
	hold(t, "lines are longer than 120 columns", code.all.longLines, ceilings.longLines)
	hold(t, "functions are longer than 60 lines", code.all.longFunctions, ceilings.longFunctions)
	hold(t, "files are longer than 400 lines", code.all.longFiles, ceilings.longFiles)
	hold(t, "types have more than 40 methods", code.all.largeTypes, ceilings.largeTypes)
	hold(t, "test files are in cmd/pawl", commandTests, ceilings.commandTestFiles)
	hold(t, "lines of Go are outside tests", code.all.lines, ceilings.lines)
}

func hold[N cmp.Ordered](t *testing.T, what string, got, ceiling N) {
	t.Helper()
	if got > ceiling {
		t.Errorf("%v %s; the ceiling is %v", got, what, ceiling)
	}
}
