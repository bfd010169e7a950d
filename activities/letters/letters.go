// Package letters renders the e-mails to customers. There is a template for each e-mail and language.
//
// A template is a text/template that is executed with a [Content]. Its first line is the subject, and the rest is the
// text. English templates are built in. A file NAME.LANGUAGE.txt in the configured directory overrides a template.
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

// These are the names of the e-mails.
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

// Names lists all e-mails.
func Names() []string {
	return []string{Receipt, Correction, Order, OrderCorrection, ActionRequired, Dunning, TrialEnding,
		SubscriptionChanged, SubscriptionEnded, AccessEnding, AccessEnded}
}

// English is the language of the built-in templates.
const English = "en"

//go:embed templates/*.txt
var builtIn embed.FS

// Content is the data of a template. Fields that an e-mail does not use are empty.
type Content struct {
	Account string
	// Number is the number of the invoice, or the ID of the object.
	Number string
	Plan   string
	// Amount is formatted for people: "49.00 USD".
	Amount   string
	Quantity int64
	// URL is the page on which the customer can view and pay the invoice.
	URL                                        string
	PeriodStart, PeriodEnd, EndsAt, OccurredAt time.Time
	// Reason is the reason why access ends: the subscription is "unpaid", "ended" or "paused"; the payment was
	// "refunded", "disputed" or "lost"; or a person has "held" the account.
	Reason string
	// Unpaid is the outcome of a trial without a payment method: "cancel", "pause", or "" if it continues.
	Unpaid string
	// DueAt is the due date of an invoice without an attempt to pay it. It is zero in other e-mails.
	DueAt time.Time
}

// sample is the data with which Load tests each template.
var sample = Content{
	Account: "acme", Number: "A-1", Plan: "pro", Amount: "49.00 USD", Quantity: 3,
	URL:         "https://invoice.stripe.com/i/1",
	PeriodStart: time.Unix(1772323200, 0).UTC(), PeriodEnd: time.Unix(1775001600, 0).UTC(),
	EndsAt: time.Unix(1775001600, 0).UTC(), OccurredAt: time.Unix(1772323260, 0).UTC(),
	DueAt: time.Unix(1772323200, 0).UTC(), Unpaid: "cancel", Reason: "ended",
}

// Set contains the templates of one language.
type Set struct {
	templates map[string]*template.Template
	off       []string
}

// Load reads the templates of a language. Files in dir override the built-in templates; dir may be "". An e-mail that
// is switched off needs no template. The error lists every problem, one per line.
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

// unknownFiles returns an error for files that match no e-mail, because a misspelt file would have no effect.
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
			errs = append(errs, fmt.Errorf("%s is not an e-mail template: the templates are %s", e.Name(),
				strings.Join(Names(), ", ")))
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
	tried := []Content{sample, {}, {Unpaid: "pause", Reason: "paused"}}
	for _, because := range []string{"unpaid", "refunded", "disputed", "lost", "held"} {
		tried = append(tried, Content{Reason: because})
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
		return nil, fmt.Errorf("%s is missing, and only English templates are built in", file)
	}
	return text, err
}

// Off reports whether an e-mail is switched off.
func (s *Set) Off(name string) bool { return slices.Contains(s.off, name) }

// Write renders an e-mail. It applies [Line] to values that come from customers and outside systems.
func (s *Set) Write(name string, c Content) (subject, text string, err error) {
	t, known := s.templates[name]
	if !known {
		return "", "", fmt.Errorf("unknown e-mail template %q", name)
	}
	for _, value := range []*string{&c.Account, &c.Number, &c.Plan, &c.Amount, &c.URL, &c.Reason, &c.Unpaid} {
		*value = Line(*value)
	}
	return write(t, c)
}

// Line makes text from customers and outside systems safe within a line. It replaces characters that end the line,
// are invisible, or reverse text. It keeps a zero-width joiner between letters, because Persian and other scripts
// need it.
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
		return "", "", fmt.Errorf("%s: the subject (the first line) or the text (the rest) is empty", t.Name())
	}
	return subject, text, nil
}
