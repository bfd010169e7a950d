package output

import (
	"fmt"
	"strings"
	"time"
)

// Table is a list for people. The first row contains the headings. A cell is a text, a number, a time.Time, a
// *time.Time for a time of the provider, which may be nil, a [Link] or a [Badge]. A terminal shows the text of each
// cell. The console shows a link as a link, a time relative to now, and a badge in color.
type Table [][]any

// Link is the ID of an object with its own page in the console.
type Link struct {
	To Target
	ID string
	// Mode is set if the link leads to an account, because accounts of both modes may have the same ID.
	Mode string
}

func (l Link) String() string { return l.ID }

// Target is the kind of a [Link].
type Target string

// The targets.
const (
	Event   Target = "event"
	Account Target = "account"
	Job     Target = "job"
	Task    Target = "task"
	// Object is an object of the provider, the key of an effect, or a workflow ID. Its link is a search.
	Object Target = "object"
)

// Badge is a status: one word of a fixed set.
type Badge string

// Rows returns a list as a table. headings contains the headings, separated by "|". row returns the cells of an
// element.
func Rows[T any](headings string, list []T, row func(T) []any) Table {
	var head []any
	for heading := range strings.SplitSeq(headings, "|") {
		head = append(head, heading)
	}
	t := Table{head}
	for _, element := range list {
		t = append(t, row(element))
	}
	return t
}

// Text returns the text of a cell, in one line and without control characters.
func Text(cell any) string {
	switch cell := cell.(type) {
	case nil:
		return ""
	case time.Time:
		return Time(cell)
	case *time.Time:
		return Date(cell)
	}
	return Clean(fmt.Sprint(cell))
}

// text returns the text of all cells.
func (t Table) text() [][]string {
	rows := make([][]string, len(t))
	for i, row := range t {
		for _, cell := range row {
			rows[i] = append(rows[i], Text(cell))
		}
	}
	return rows
}
