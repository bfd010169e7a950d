package console

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/timeline"
)

// when is a time that a page shows relative to the present. The page shows the exact time on hover.
type when struct{ At, now time.Time }

// Machine formats the time for programs.
func (w when) Machine() string { return w.At.UTC().Format(time.RFC3339Nano) }

// Exact is the time to the second. Every page uses the time zone of the console.
func (w when) Exact() string { return w.At.Local().Format("Mon 2 Jan 2006 15:04:05 MST") }

// dateFrom is the distance from which a time is shown as a date.
const dateFrom = 48 * time.Hour

// Relative returns how long ago the time was, or how far in the future it is. It returns the date of a time that is
// more than two days away.
func (w when) Relative() string {
	d := w.At.Sub(w.now)
	switch {
	case d.Abs() >= dateFrom:
		return w.At.Local().Format("2 Jan 2006")
	case d > 0:
		return "in " + output.Roughly(d)
	}
	return output.Roughly(-d) + " ago"
}

// shownTable is a table on a page.
type shownTable struct {
	Head []string
	Rows [][]cell
}

// cell is a text in a table. It can be a link, a time or a badge.
type cell struct {
	Head, Text, Href string
	When             *when
	// Badge is the class of a colored word. Code is the stored word, which the page shows on hover.
	Badge, Code string
	// Copies is set for an ID, which gets a button to copy it.
	Copies bool
	// Parts are the parts of a sentence that contains times.
	Parts []cell
}

// timeInWords matches a time in a sentence, in the formats of tables and of messages.
var timeInWords = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)? ?(Z|UTC|[+-]\d\d:\d\d)`)

// durationAfter matches the duration that texts for a terminal add to a future time. A page shows the time itself as a
// duration.
var durationAfter = regexp.MustCompile(`^ \(in [0-9hms]+\)`)

// sentence splits text at its times.
func sentence(text string) (parts []cell) {
	from := 0
	for _, at := range timeInWords.FindAllStringIndex(text, -1) {
		t, is := output.ParseTime(text[at[0]:at[1]])
		if !is {
			continue
		}
		parts = append(parts, cell{Text: text[from:at[0]]}, cell{When: &when{t, time.Now()}})
		from = at[1] + len(durationAfter.FindString(text[at[1]:]))
	}
	if from == 0 {
		return nil
	}
	return append(parts, cell{Text: text[from:]})
}

// newTable returns a table for a page. Links, times and badges come from the types of the cells.
func newTable(rows output.Table) shownTable {
	if len(rows) == 0 {
		return shownTable{}
	}
	var t shownTable
	for _, heading := range rows[0] {
		t.Head = append(t.Head, output.Text(heading))
	}
	if len(rows) == 1 && len(rows[0]) == 1 { // a sentence in place of a table
		return t
	}
	for _, row := range rows[1:] {
		cells := make([]cell, 0, len(row))
		for i, value := range row {
			head := ""
			if i < len(t.Head) {
				head = t.Head[i]
			}
			cells = append(cells, newCell(head, value))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// cells returns the cells of a line, such as a heading.
func cells(parts []any) (line []cell) {
	for _, part := range parts {
		line = append(line, newCell("", part))
	}
	return line
}

// without removes a column.
func (t shownTable) without(heading string) shownTable {
	i := slices.Index(t.Head, heading)
	if i < 0 {
		return t
	}
	t.Head = slices.Delete(slices.Clone(t.Head), i, i+1)
	for n, row := range t.Rows {
		if i < len(row) {
			t.Rows[n] = slices.Delete(slices.Clone(row), i, i+1)
		}
	}
	return t
}

// with adds a column.
func (t shownTable) with(heading string, column []cell) shownTable {
	if len(t.Rows) == 0 {
		return t
	}
	t.Head = append(t.Head, heading)
	for i := range t.Rows {
		column[i].Head = heading
		t.Rows[i] = append(t.Rows[i], column[i])
	}
	return t
}

// pairs returns the cells of rows with a name and a value. A value of several cells is a sentence.
func pairs(rows output.Table) (cells [][2]cell) {
	for _, row := range rows {
		value := cell{}
		for i, part := range row[1:] {
			c := newCell("", part)
			if len(row) == 2 {
				value = c
				break
			}
			if i > 0 {
				value.Parts = append(value.Parts, cell{Text: " "})
			}
			value.Parts = append(value.Parts, c)
		}
		cells = append(cells, [2]cell{{Text: output.Text(row[0])}, value})
	}
	return cells
}

// badges maps words to the class of their color.
var badges = map[string]string{
	"processed": "good", "done": "good", "up": "good", "active": "good", "limited": "wait", "on hold": "bad",
	"running":  "calm",
	"finished": "good",
	"received": "calm", "processing": "calm", "retrying": "wait", "needs_review": "ask",
	"dead": "bad", "ignored": "dim",
	"compensated": "dim", "failed": "bad", "uncertain": "ask", "skipped": "dim", "claimed": "calm", "down": "bad",
	"still down": "bad",
	"paused":     "wait", "suspended": "bad", "none": "dim", "not begun": "dim",
	"page": "bad", "ticket": "wait", "info": "calm",
	"test": "test", "refused": "ask", "cancelled": "dim", "tried again": "wait",
	"sent": "good", "waiting": "wait", "unclear": "ask", "taken_back": "dim",
	"accepted": "good", "revoked": "dim", "expired": "dim", "removed": "dim",
}

func newCell(head string, value any) cell {
	c := cell{Head: head, Text: tables.GroupMoney(output.Text(value))}
	if c.Text == "" {
		return c
	}
	switch value := value.(type) {
	case time.Time:
		c.When = &when{value, time.Now()}
	case *time.Time:
		c.When = &when{*value, time.Now()}
	case output.Link:
		c.Href, c.Copies = hrefOf(value), true
	case output.Badge:
		c.Badge, c.Code, c.Text = badges[string(value)], c.Text, label.Word(c.Text)
	default:
		switch head {
		case "REASON":
			c.Text = label.Explain(c.Text)
		case "CLASS":
			c.Text = label.Refusal(c.Text)
		case "WHAT":
			c.Text = label.Entry(c.Text)
		}
		if strings.Contains(c.Text, " ") {
			c.Parts = sentence(c.Text)
		}
	}
	return c
}

// hrefOf returns the path of a link's page. An account without a mode is searched for.
func hrefOf(l output.Link) string {
	id := url.PathEscape(l.ID)
	switch {
	case l.To == output.Event:
		return "/events/" + id
	case l.To == output.Job:
		return "/jobs/" + id
	case l.To == output.Task:
		return "/tasks/" + id
	case l.To == output.Account && l.Mode != "":
		return accountHref(l.Mode, l.ID)
	}
	return "/find?q=" + url.QueryEscape(l.ID)
}

func accountHref(mode, id string) string { return "/accounts/" + mode + "/" + url.PathEscape(id) }

// newReceipts returns a table of events.
func newReceipts(receipts []timeline.Receipt) shownTable {
	t := newTable(tables.Receipts(receipts))
	t.markNotGranted(receipts)
	return t
}

// markNotGranted changes the status of events that are done if the customer did not get the ordered access.
func (t shownTable) markNotGranted(receipts []timeline.Receipt) {
	for i, row := range t.Rows {
		for j := range row {
			if c := &row[j]; c.Head == "STATUS" && event.NotGranted(&receipts[i]) {
				c.Badge, c.Text = "wait", "Not granted"
			}
		}
	}
}

// button is an action: a link to its preview, or a command for a terminal.
type button struct {
	Label, Effect, Href, Command string
	// Verb is the verb of the button. It is empty for a link or a command.
	Verb string
	// Grave is set if the action compensates an effect or may repeat one.
	Grave bool
	// Denied is the reason why the person may not use the button, or "".
	Denied string
}

func buttons(choices []decide.Choice) (all []button) {
	for _, c := range choices {
		all = append(all, newButton(c))
	}
	return all
}

// permitted disables the buttons of the actions that the person has no right to.
func permitted(p *decide.Person, all []button) []button {
	for i, b := range all {
		if b.Verb != "" {
			if rights := operator.Verbs.Named(b.Verb).Rights(); !p.May(rights...) {
				all[i].Denied = decide.NeedsRole(rights...)
			}
		}
	}
	return all
}

func newButton(c decide.Choice) button {
	d := c.Decision
	if d == nil {
		return button{Label: c.Line(), Effect: c.Effect, Command: c.Line()}
	}
	text := label.Verb(d.Verb)
	if kind, _, _ := strings.Cut(d.Effect, ":"); kind != "" {
		text = label.Step(d.Verb, kind)
	}
	return button{Label: text, Effect: c.Effect, Verb: d.Verb, Href: decideHref(*d),
		Grave: d.Verb == event.Compensate.Name || d.Verb == event.Resend.Name}
}

// decideHref returns the link to the preview of a decision.
func decideHref(d decide.Decision) string {
	q := url.Values{"verb": {d.Verb}, "target": {d.Target}}
	for _, f := range operator.Verbs.Named(d.Verb).Flags {
		if value := *f.Value(&d.Args); value != "" {
			q.Set(f.Name, value)
		}
	}
	return "/decide?" + q.Encode()
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
