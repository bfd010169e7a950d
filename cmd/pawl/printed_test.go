package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/operator"
)

// span matches a command in a text that pawl prints.
var span = regexp.MustCompile("`pawl ([^`]+)`")

// Each command that pawl prints in errors, advice, help, pages and decisions is valid, because operators copy it.
func TestPrinted_Commands_AreUnderstood(t *testing.T) {
	t.Parallel()
	found := 0
	understand := func(where string, words ...string) {
		t.Helper()
		found++
		if i := slices.Index(words, "--mode"); i >= 0 && i+1 < len(words) && words[i+1] == "X" {
			words[i+1] = "live" // the mode is not constant, and X is not a mode
		}
		if i := slices.Index(words, "X"); i == 0 || i == 1 && words[0] == "events" {
			return // the words are not constant, for example in the verbs below
		}
		// a printed command may omit the ID
		if err := commandtest.Understood(program(), words); err != nil && commandtest.Understood(program(), append(words, "X")) != nil {
			t.Errorf("%s: pawl %s: %v", where, strings.Join(words, " "), err)
		}
	}
	for where, file := range sourceFiles(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit: // the words of a command in a decide.Choice
				words := make([]string, len(n.Elts))
				for i, e := range n.Elts {
					if _, pair := e.(*ast.KeyValueExpr); !pair {
						words[i] = printedText(e)
					}
				}
				if _, list := n.Type.(*ast.ArrayType); list && len(words) > 1 && words[0] == "pawl" {
					understand(where, words[1:]...)
				}
			case *ast.BinaryExpr, *ast.BasicLit:
				for _, m := range span.FindAllStringSubmatch(printedText(n.(ast.Expr)), -1) {
					if words := printedWords(m[1]); len(words) > 0 {
						understand(where, words...)
					}
				}
				return false
			}
			return true
		})
	}
	for _, v := range operator.Verbs {
		if v.Command == "" {
			continue
		}
		words := append(strings.Fields(v.Command), "X", "--reason", "REASON")
		for _, f := range v.Flags {
			if f.Required {
				words = append(words, "--"+f.Name, "X")
			}
		}
		understand("the verb "+v.Name, words...)
	}
	if found < 70 { // TestConditions checks the commands of conditions
		t.Errorf("found %d commands: the reader of this test no longer finds them", found)
	}
}

func TestPrinted_Commands_WrongOnesCaught(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"sinks", "checks"}, {"doctor", "finance", "mail"}, {"events", "retry", "X", "--because", "Y"}} {
		if commandtest.Understood(program(), words) == nil {
			t.Errorf("%q is taken for a good command", words)
		}
	}
}

// sourceFiles parses all Go files except tests.
func sourceFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
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
		files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// printedText returns the text of an expression, with X in place of each part that is not constant.
func printedText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return printedText(e.X) + printedText(e.Y)
		}
	}
	return "X"
}

// printedWords returns the words of a command in a text, without a final placeholder: "…" or a formatting verb.
func printedWords(command string) (words []string) {
	for _, word := range strings.Fields(command) {
		if strings.HasPrefix(word, "…") || strings.HasPrefix(word, "...") {
			break
		}
		words = append(words, strings.ReplaceAll(word, "%s", "X"))
	}
	return words
}
