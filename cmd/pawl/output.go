package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// writeJSON writes v as a result. What a terminal would obey in its strings is escaped.
func (a *app) writeJSON(v any) error { return a.encode(v, "  ") }

// writeLine writes v as writeJSON does, in one line.
func (a *app) writeLine(v any) error { return a.encode(v, "") }

func (a *app) encode(v any, indent string) error {
	var encoded strings.Builder
	enc := json.NewEncoder(&encoded)
	enc.SetIndent("", indent)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(a.out, escapeJSON(encoded.String()))
	return err
}

// escapeJSON escapes the hidden characters in JSON's strings. What stands between strings has none but line feeds.
func escapeJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// table writes rows in columns; the first one is the heading.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = clean(cell)
		}
		if _, err := fmt.Fprintln(tw, strings.TrimRight(strings.Join(row, "\t"), "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// tables writes tables below each other; one with a heading alone is left out, unless it is the first.
func tables(w io.Writer, parts ...[][]string) error {
	for i, rows := range parts {
		if i > 0 && len(rows) == 1 {
			continue
		}
		if err := table(w, rows); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return nil
}

// clean shows control characters instead of sending them to the terminal: event IDs, types and
// errors come from outside.
func clean(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch _, size := utf8.DecodeRuneInString(s[i:]); {
		// no UTF-8; 0x9b is a control character alone, and 0xff one of tabwriter's
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports whether r moves the cursor, or the text around it (bidirectional marks).
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// clock is a time in a table.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }

func plural(n int, noun string) string {
	if n != 1 && strings.HasSuffix(noun, "y") {
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	}
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
