// Package output writes the result of a command, either as JSON or as tables and text for people.
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
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printer writes results to Out, as JSON if JSON is set and otherwise as text. If a write to Out can fail, Out must be
// a [Terminal], which stores the error.
type Printer struct {
	Out  io.Writer
	JSON bool
	// Columns is the maximum width of lists; 0 means no limit.
	Columns int
}

// failing is implemented by a result that can make the command end with exit code 1.
type failing interface{ Failed() bool }

// ErrFailed makes a command end with exit code 1 without another message, because the output contains the reason.
var ErrFailed = errors.New("the output contains the reason")

// Emit writes v as JSON, or calls show to write it as text. It returns [ErrFailed] if v implements failing and has
// failed.
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

// Value writes v as JSON. It escapes characters that could control a terminal.
func (p *Printer) Value(v any) error { return p.encode(v, "  ") }

// EmitLine writes v as one line of JSON. It returns the same errors as [Printer.Emit].
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

// escapeJSON escapes hidden characters in JSON strings. Outside of strings, the JSON contains only line feeds.
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

// Escape returns a character in the notation of JSON, for example \u001b.
func Escape(r rune) string {
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Table writes a table in columns.
func (p *Printer) Table(t Table) { p.write(t.text()) }

func (p *Printer) write(rows [][]string) {
	tw := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	_ = tw.Flush() // Out stores an error
}

// Tables writes several tables, one below the other. It omits a table without rows, unless the table is the first.
func (p *Printer) Tables(parts ...Table) {
	for i, t := range parts {
		if i == 0 || len(t) != 1 {
			p.Table(t)
			fmt.Fprintln(p.Out)
		}
	}
}

// Clean escapes control characters. Event IDs, types and errors may contain them, because they come from other systems.
func Clean(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, Hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch _, size := utf8.DecodeRuneInString(s[i:]); {
		// invalid UTF-8; the byte 0x9b is a control character, and text/tabwriter treats 0xff specially
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

// Hidden reports whether r is invisible, moves the cursor, or changes the direction of the text.
func Hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// Terminal writes text to a terminal, or to a file that may be shown on one. It escapes control characters and
// invisible characters, except for newlines and tabs, so that no value can control the terminal. JSON remains valid and
// keeps its meaning. After an error, Terminal writes nothing more.
type Terminal struct {
	To io.Writer
	// Err is the first error of a write.
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
