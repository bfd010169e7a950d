// Package output writes what a command came to: as JSON, or for a person in tables and words.
package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printer writes results to Out: as JSON where JSON is set, else as a command writes them for a person. An Out that can
// fail is a [Terminal], which keeps the error.
type Printer struct {
	Out  io.Writer
	JSON bool
	// Columns is how wide lists may be, 0 for any width.
	Columns int
}

// failing is a result that ends its command with exit code 1.
type failing interface{ Failed() bool }

// ErrFailed ends a command with exit code 1 when its output has already said why.
var ErrFailed = errors.New("the output says why")

// Emit writes v as JSON, or calls show to write it for a person. It returns [ErrFailed] for a result that has failed.
func (p *Printer) Emit(v any, show func()) error {
	if p.JSON {
		if err := p.Value(v); err != nil {
			return err
		}
	} else {
		show()
	}
	if f, ok := v.(failing); ok && f.Failed() {
		return ErrFailed
	}
	return nil
}

// Value writes v as JSON. Characters in its strings that a terminal would obey are escaped.
func (p *Printer) Value(v any) error { return p.encode(v, "  ") }

// EmitLine writes v as one line of JSON, and returns what [Printer.Emit] does.
func (p *Printer) EmitLine(v any) error {
	err := p.encode(v, "")
	return cmp.Or(err, (&Printer{}).Emit(v, func() {}))
}

func (p *Printer) encode(v any, indent string) error {
	var encoded strings.Builder
	enc := json.NewEncoder(&encoded)
	enc.SetIndent("", indent)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	fmt.Fprint(p.Out, escapeJSON(encoded.String()))
	return nil
}

// escapeJSON escapes the hidden characters in JSON's strings. Between strings there are line feeds only.
func escapeJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || !Hidden(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(Escape(r))
		}
	}
	return b.String()
}

// Escape shows a character by its number, as JSON does.
func Escape(r rune) string {
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Table writes rows in columns; the first one is the heading.
func (p *Printer) Table(rows [][]string) {
	tw := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Clean(cell)
		}
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	_ = tw.Flush() // the terminal keeps its error
}

// Rows makes a table of a list: its headings, which stand between bars, and a row of each element. A cell is text, a
// number, a time, or one of the provider's (a *time.Time, nil for none).
func Rows[T any](headings string, list []T, row func(T) []any) [][]string {
	rows := [][]string{strings.Split(headings, "|")}
	for _, element := range list {
		var cells []string
		for _, cell := range row(element) {
			switch at := cell.(type) {
			case time.Time:
				cell = Time(at)
			case *time.Time:
				cell = Date(at)
			}
			cells = append(cells, fmt.Sprint(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// Tables writes tables below each other. It leaves out one with a heading alone, unless that is the first.
func (p *Printer) Tables(parts ...[][]string) {
	for i, rows := range parts {
		if i == 0 || len(rows) != 1 {
			p.Table(rows)
			fmt.Fprintln(p.Out)
		}
	}
}

// Clean shows control characters instead of sending them to the terminal: event IDs, types and
// errors come from outside.
func Clean(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, Hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch _, size := utf8.DecodeRuneInString(s[i:]); {
		// no UTF-8; 0x9b is a control character alone, and 0xff one of tabwriter's
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case Hidden(r):
			b.WriteString(Escape(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Hidden reports whether r moves the cursor, or the text around it (bidirectional marks), or cannot be seen.
func Hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// Terminal writes text to a terminal, or what may become one. It shows hidden characters instead of sending them,
// except the ends of lines and tabs: whatever a command, an error or a log says, it says it as text. JSON stays the same
// JSON. After an error it writes nothing more.
type Terminal struct {
	To io.Writer
	// Err is the error of a write.
	Err error
}

func (t *Terminal) Write(text []byte) (int, error) {
	var clean bytes.Buffer
	for line := range bytes.SplitAfterSeq(text, []byte("\n")) {
		kept := bytes.TrimRight(line, "\n")
		for i, part := range bytes.Split(kept, []byte("\t")) {
			if i > 0 {
				clean.WriteByte('\t')
			}
			clean.WriteString(Clean(string(part)))
		}
		clean.Write(line[len(kept):])
	}
	if t.Err == nil {
		_, t.Err = t.To.Write(clean.Bytes())
	}
	return len(text), t.Err
}
