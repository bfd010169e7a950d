// Package letters has the texts of the letters to customers: a template for each letter and language.
//
// A template is a text/template that is filled with a [Content]. Its first line is the subject, what follows is the
// text. English ones are built in; a file NAME.LANGUAGE.txt in a directory of the configuration's stands in for them.
package letters

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode"
	"unicode/utf8"
)

// The letters that there are.
const (
	Receipt             = "receipt"
	Correction          = "correction"
	Order               = "order"
	OrderCorrection     = "order-correction"
	ActionRequired      = "action-required"
	Dunning             = "dunning"
	TrialEnding         = "trial-ending"
	SubscriptionChanged = "subscription-changed"
	SubscriptionEnded   = "subscription-ended"
	AccessEnding        = "access-ending"
	AccessEnded         = "access-ended"
)

// Names lists them.
func Names() []string {
	return []string{Receipt, Correction, Order, OrderCorrection, ActionRequired, Dunning, TrialEnding,
		SubscriptionChanged, SubscriptionEnded, AccessEnding, AccessEnded}
}

// English is the language of the built-in letters.
const English = "en"

//go:embed templates/*.txt
var builtIn embed.FS

// Content fills a template. Fields that a letter does not use are empty.
type Content struct {
	Account string
	// Number is the invoice's own, else the ID of the object.
	Number string
	Plan   string
	// Amount is written for people: "49.00 USD".
	Amount   string
	Quantity int64
	// URL is the page where the customer sees and pays the invoice.
	URL                                        string
	PeriodStart, PeriodEnd, EndsAt, OccurredAt time.Time
	// Because is why access ends: "unpaid", "ended" or "paused", "refunded", "disputed" or "lost" for its payment, or
	// "held" by a person.
	Because string
	// Unpaid is what becomes of a trial that has no payment method by its end: "cancel", "pause", or "" if it goes on.
	Unpaid string
	// DueAt is the due date of an invoice without an attempt to pay it. It is zero in other letters.
	DueAt time.Time
}

// sample is what each template is tried with before any letter is sent.
var sample = Content{
	Account: "acme", Number: "A-1", Plan: "pro", Amount: "49.00 USD", Quantity: 3,
	URL:         "https://invoice.stripe.com/i/1",
	PeriodStart: time.Unix(1772323200, 0).UTC(), PeriodEnd: time.Unix(1775001600, 0).UTC(),
	EndsAt: time.Unix(1775001600, 0).UTC(), OccurredAt: time.Unix(1772323260, 0).UTC(),
	DueAt: time.Unix(1772323200, 0).UTC(), Unpaid: "cancel", Because: "ended",
}

// Set holds the letters of one language.
type Set struct {
	templates map[string]*template.Template
	off       []string
}

// Load reads the letters of a language, those in dir before the built-in ones; dir may be "". A letter that is off
// needs no template. The error joins everything that is wrong, one line each.
func Load(dir, language string, off []string) (*Set, error) {
	s := &Set{templates: map[string]*template.Template{}, off: off}
	errs := []error{unknownFiles(dir)}
	for _, name := range Names() {
		if slices.Contains(off, name) {
			continue
		}
		parsed, err := load(dir, name+"."+language+".txt")
		errs = append(errs, err)
		s.templates[name] = parsed
	}
	return s, errors.Join(errs...)
}

// unknownFiles tells of files that no letter is written with: a misspelt one would be without effect.
func unknownFiles(dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		if strings.HasSuffix(e.Name(), ".txt") && !slices.Contains(Names(), name) {
			errs = append(errs, fmt.Errorf("%s is no letter: letters are %s", e.Name(), strings.Join(Names(), ", ")))
		}
	}
	return errors.Join(errs...)
}

func load(dir, file string) (*template.Template, error) {
	text, err := read(dir, file)
	if err != nil {
		return nil, err
	}
	t, err := template.New(file).Parse(string(text))
	if err != nil {
		return nil, err
	}
	tried := []Content{sample, {}, {Unpaid: "pause", Because: "paused"}}
	for _, because := range []string{"unpaid", "refunded", "disputed", "lost", "held"} {
		tried = append(tried, Content{Because: because})
	}
	for _, c := range tried {
		if _, _, err = write(t, c); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func read(dir, file string) ([]byte, error) {
	if dir != "" {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
	}
	text, err := builtIn.ReadFile("templates/" + file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing, and only English letters are built in", file)
	}
	return text, err
}

// Off reports whether a letter is not sent.
func (s *Set) Off(name string) bool { return slices.Contains(s.off, name) }

// Write fills a letter's template. What others have said stands in it as [Line] makes it.
func (s *Set) Write(name string, c Content) (subject, text string, err error) {
	t, known := s.templates[name]
	if !known {
		return "", "", fmt.Errorf("there is no letter %q", name)
	}
	for _, said := range []*string{&c.Account, &c.Number, &c.Plan, &c.Amount, &c.URL, &c.Because, &c.Unpaid} {
		*said = Line(*said)
	}
	return write(t, c)
}

// Line makes what others have said a part of a line that reads as it is: without characters that end the line, hide, or
// turn round the text beside them. A joiner between letters stays: words of Persian and other scripts need it.
func Line(text string) string {
	line := []rune(text)
	letter := func(i int) bool { return i >= 0 && i < len(line) && unicode.In(line[i], unicode.L, unicode.M) }
	for i, r := range line {
		switch {
		case unicode.IsSpace(r):
			line[i] = ' '
		case unicode.Is(unicode.Join_Control, r) && letter(i-1) && letter(i+1):
		case !unicode.IsPrint(r):
			line[i] = utf8.RuneError
		}
	}
	return string(line)
}

func write(t *template.Template, c Content) (subject, text string, err error) {
	var out bytes.Buffer
	if err := t.Execute(&out, c); err != nil {
		return "", "", err
	}
	subject, text, _ = strings.Cut(out.String(), "\n")
	subject, text = strings.TrimSpace(subject), strings.TrimLeft(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if subject == "" || strings.TrimSpace(text) == "" {
		return "", "", fmt.Errorf("%s: the first line is the subject and what follows the text: one of them is empty", t.Name())
	}
	return subject, text, nil
}
