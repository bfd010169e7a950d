package internal_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// The plain-language rule: a sentence starts with its subject and uses the verbs of software. TestProse counts the
// sentences that break it, per package and per document, in comments and long string literals of Go outside tests, in
// Markdown, and in the comments of SQL, YAML and shell. The ceilings are the counts in testdata/prose.tsv; they only fall.
//
//	go test -v -count=1 -run '^TestProse' ./cmd/internal -show schema/ledger  prints each sentence found below that path
//	go test -count=1 -run '^TestProse' ./cmd/internal -lower                   lowers the ceilings to the counts of today
//
// The rule is only an indicator. A sentence that avoids the listed words but must be read twice is no better.
var constructions = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`^(of|what|whoever|whatever)\b`,
	`\b(says?|said|saying|tells?|told|telling|stands?|stood)\b`,
	`\b(nobody|somebody|whoever|whatever|anew)\b`,
	`\b(is|are|was|were|be|been) asked\b`,
	`\bfor none\b|\b(is|are|has) none\b`,
	`\bone that\b|\bthose (that|of)\b|\bthat of\b|\bof which\b|\bwhose\b|\bof whom\b|\bbut for\b`,
	`\bgo(es)? on\b|\b(come|comes|came) (to|of)\b`,
	`\bwhat (it|is|are|was|were|has|have|they|he|a|the|an|can|did|does|do|may|must|no|comes?)\b`,
}, "|"))

const (
	proseCeilings = "testdata/prose.tsv"
	proseWords    = 3 // a shorter text is no sentence
	literalWords  = 5 // a shorter string literal is a name or a fragment
)

var (
	show  = flag.String("show", "", "print each sentence found in files below this path of the repository")
	lower = flag.Bool("lower", false, "lower the ceilings of the plain-language rule to the counts of today")

	sentenceEnd = regexp.MustCompile(`[.!?:;|]\s+`)
	codeSpan    = regexp.MustCompile("`[^`]*`")
	codeBlock   = regexp.MustCompile("(?s)```.*?```")
	blankLine   = regexp.MustCompile(`\n\s*\n`)
)

// prose counts faults by package or document.
type prose map[string]int

// text counts the faults in a text of the file.
func (p prose) text(file, room, text string) {
	for _, sentence := range sentenceEnd.Split(text, -1) {
		sentence = strings.TrimLeftFunc(sentence, func(r rune) bool { return !unicode.IsLetter(r) })
		if len(strings.Fields(sentence)) < proseWords {
			continue
		}
		if found := constructions.FindString(sentence); found != "" {
			p[room]++
			if *show != "" && strings.HasPrefix(file, strings.TrimPrefix(*show, "./")) {
				fmt.Printf("%s: %q: %s\n", file, found, sentence)
			}
		}
	}
}

// goSource counts the comments and the long string literals of a Go file.
func (p prose) goSource(t *testing.T, file string, content []byte) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	room := path.Dir(file)
	for _, group := range parsed.Comments {
		for _, paragraph := range blankLine.Split(group.Text(), -1) {
			p.text(file, room, strings.ReplaceAll(paragraph, "\n", " "))
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && len(strings.Fields(text)) >= literalWords {
				p.text(file, room, codeSpan.ReplaceAllString(strings.ReplaceAll(text, "\n", " "), "X"))
			}
		}
		return true
	})
}

// comments counts the lines of a file that begin with a mark, joined where they follow each other.
func (p prose) comments(file, mark string, content []byte) {
	var block []string
	flush := func() {
		p.text(file, file, strings.Join(block, " "))
		block = nil
	}
	for line := range strings.Lines(string(content)) {
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), mark); ok {
			block = append(block, strings.TrimSpace(comment))
		} else {
			flush()
		}
	}
	flush()
}

// count counts the whole repository.
func (p prose) count(t *testing.T) {
	walk(t, func(file string, content []byte) {
		switch ext := path.Ext(file); {
		case ext == ".go" && !strings.HasSuffix(file, "_test.go"):
			p.goSource(t, file, content)
		case ext == ".md":
			text := codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(string(content), ""), "X")
			for _, paragraph := range blankLine.Split(text, -1) {
				p.text(file, file, strings.ReplaceAll(paragraph, "\n", " "))
			}
		case ext == ".sql":
			p.comments(file, "--", content)
		case ext == ".yaml" || ext == ".yml" || ext == ".sh" || path.Dir(file) == ".ci" && ext == "":
			p.comments(file, "#", content)
		}
	})
}

// readCeilings returns the ceilings by package or document.
func readCeilings(t *testing.T) prose {
	t.Helper()
	content, err := os.ReadFile(proseCeilings)
	if err != nil {
		t.Fatal(err)
	}
	ceilings := prose{}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		room, number, found := strings.Cut(lines.Text(), "\t")
		n, err := strconv.Atoi(number)
		if !found || err != nil {
			t.Fatalf("%s: %q is not a path, a tab and a number", proseCeilings, lines.Text())
		}
		ceilings[room] = n
	}
	return ceilings
}

func TestProse(t *testing.T) {
	counts, ceilings := prose{}, readCeilings(t)
	counts.count(t)
	sum, bound := 0, 0
	for room, n := range counts {
		sum += n
		if n > ceilings[room] {
			t.Errorf("%s: %d sentences break the plain-language rule; the ceiling is %d.\n\tThe rule is in cmd/internal/prose_test.go, "+
				"the ceiling in cmd/internal/%s. List the sentences with\n\t\tgo test -v -count=1 -run '^TestProse' ./cmd/internal -show %s",
				room, n, ceilings[room], proseCeilings, room)
		}
	}
	for _, n := range ceilings {
		bound += n
	}
	t.Logf("%d sentences break the rule; the ceilings add up to %d", sum, bound)
	if !*lower {
		return
	}
	var lowered strings.Builder
	for _, room := range slices.Sorted(maps.Keys(ceilings)) {
		if n := min(counts[room], ceilings[room]); n > 0 {
			fmt.Fprintf(&lowered, "%s\t%d\n", filepath.ToSlash(room), n)
		}
	}
	if err := os.WriteFile(proseCeilings, []byte(lowered.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProse_Finds(t *testing.T) {
	for sentence, faults := range map[string]int{
		"Claim inserts the row. A retry opens a new round.":                      0,
		"What is left is told to nobody.":                                        1,
		"rateOf is the rate of a form, 0 for what is no number.":                 1,
		"Settled reports whether another run settled the effects before this.":   0,
		"The amount is that of the invoice; those that wait are asked for anew.": 2,
	} {
		counts := prose{}
		counts.text("a.md", "a.md", sentence)
		if counts["a.md"] != faults {
			t.Errorf("%q: got %d faults, want %d", sentence, counts["a.md"], faults)
		}
	}
}
