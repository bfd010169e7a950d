package internal_test

import (
	"errors"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/template"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// records lists files that describe an earlier state, and the files that must contain retired names.
var records = regexp.MustCompile(`^docs/benchmarks/|^docs/CHANGELOG\.md$|(^|/)retired(_test)?\.go$`)

// pathOf returns an expression for the text of a retired key: sinks.finance.places, sinks.NAME.places.
func pathOf(r config.RetiredKey) string {
	switch {
	case strings.HasPrefix(r.New, r.Old+"."):
		return "`" + r.Old + ": "
	case !strings.Contains(r.Old, "."):
		return "`" + r.Old + "[.:]" // the word alone is not a key
	}
	return `(?:^|[^\w.-])` + strings.ReplaceAll(regexp.QuoteMeta(r.Old), "NAME", `[\w-]+`) + `\b`
}

// TestHouse_RetiredKeys finds retired keys of the configuration in documents, help texts, messages and comments.
func TestHouse_RetiredKeys(t *testing.T) {
	var paths []string
	for _, r := range config.Retired {
		paths = append(paths, pathOf(r))
	}
	retired := regexp.MustCompile("(?m)" + strings.Join(paths, "|"))
	walk(t, func(file string, content []byte) {
		if records.MatchString(file) || filepath.Ext(file) == ".sum" || !retired.Match(content) {
			return
		}
		for line, text := range texts(file, content) {
			if key := retired.FindString(text); key != "" {
				t.Errorf("%s:%d: the key %q is retired. Its successor is in cmd/internal/config/retired.go.", file, line, key)
			}
		}
	})
}

// texts returns the lines of a file that people read, by number: of Go code, the strings and comments.
func texts(file string, content []byte) map[int]string {
	found := map[int]string{}
	if filepath.Ext(file) != ".go" {
		for i, line := range strings.Split(string(content), "\n") {
			found[i+1] = line
		}
		return found
	}
	files := token.NewFileSet()
	positions := files.AddFile(file, -1, len(content))
	var s scanner.Scanner
	s.Init(positions, content, nil, scanner.ScanComments)
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			return found
		}
		if kind == token.STRING || kind == token.COMMENT {
			for i, line := range strings.Split(literal, "\n") {
				found[positions.Line(at)+i] += " " + line
			}
		}
	}
}

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	// commented matches a setting in a comment.
	commented = regexp.MustCompile(`(?m)^( *)# ( *(?:- |[a-z_]+:( |$)))`)
)

// TestHouse_RetiredKeysInFiles loads the configuration files that people copy. It also reads their comments.
func TestHouse_RetiredKeysInFiles(t *testing.T) {
	sinks := template.InitParams{WorkspacesURL: "http://w.test", FinanceURL: "http://f.test", SMTP: "m.test:25", From: "a@b.test"}
	examples := map[string][]string{
		"pawl init":       {string(template.Init(template.InitParams{Thin: true}))},
		"pawl init SINKS": {string(template.Init(sinks))},
		"pawl dev": {string(template.Dev(template.DevParams{Day: "2s", EventsURL: "http://e.test", EventTypes: "access.changed", RelayedURL: "http://r.test", Relayed: "github",
			Sources: []template.DevSource{{Name: "github", Provider: "github", Mode: webhook.Test}}}))},
	}
	walk(t, func(file string, content []byte) {
		switch {
		case records.MatchString(file):
		case filepath.Ext(file) == ".md":
			for _, block := range yamlBlock.FindAllSubmatch(content, -1) {
				examples[file] = append(examples[file], string(block[1]))
			}
		case strings.HasPrefix(file, "deploy/compose/") && filepath.Base(file) == "pawl.yaml":
			examples[file] = []string{string(content)}
		}
	})
	if len(examples) < 6 {
		t.Errorf("read only %d files", len(examples))
	}
	for name, all := range examples {
		for _, example := range all {
			path := filepath.Join(t.TempDir(), "pawl.yaml")
			if err := os.WriteFile(path, commented.ReplaceAll([]byte(example), []byte("$1$2")), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(path, os.LookupEnv, nil)
			var faults config.Faults
			errors.As(err, &faults)
			for _, f := range faults {
				fragment := f.Problem == "is not a known key" && !strings.Contains(f.Key, ".")
				if f.Key == "" || !fragment && slices.ContainsFunc([]string{"is now ", "is not a known key", "is not a mapping"},
					func(problem string) bool { return strings.HasPrefix(f.Problem, problem) }) {
					t.Errorf("%s: %v in\n%s", name, f, example)
				}
			}
		}
	}
}
