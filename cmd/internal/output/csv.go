package output

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"time"
)

// Money is an amount of money in a table, for example 49.00 and USD. An empty number means that there is no amount.
type Money struct{ Number, Currency string }

func (m Money) String() string { return strings.TrimSpace(m.Number + " " + m.Currency) }

// CSV writes the pages of one list as a CSV file with one row of headings, in UTF-8. A column of [Money] becomes two
// columns, a number and the currency. Times are in UTC. Text that a spreadsheet would execute as a formula begins with
// an apostrophe.
type CSV struct {
	out *csv.Writer
	// columns describes the columns. It is nil before the first page.
	columns []csvColumn
}

type csvColumn struct{ money bool }

// NewCSV returns a writer of a CSV file to out.
func NewCSV(out io.Writer) *CSV { return &CSV{out: csv.NewWriter(out)} }

// Page writes the rows of a page. The first page also determines which columns contain money and times.
func (c *CSV) Page(t Table) error {
	if c.columns == nil {
		c.heads(t)
	}
	for _, row := range t[1:] {
		var record []string
		for i, column := range c.columns {
			var cell any
			if i < len(row) {
				cell = row[i]
			}
			if m, is := cell.(Money); is {
				record = append(record, m.Number, csvText(m.Currency))
				continue
			}
			if record = append(record, csvText(cell)); column.money {
				record = append(record, "")
			}
		}
		_ = c.out.Write(record) // Error returns its error
	}
	c.out.Flush()
	return c.out.Error()
}

func (c *CSV) heads(t Table) {
	var heads []string
	for i, head := range t[0] {
		column, timed := csvColumn{}, false
		for _, row := range t[1:] {
			if i < len(row) {
				switch row[i].(type) {
				case Money:
					column.money = true
				case time.Time, *time.Time:
					timed = true
				}
			}
		}
		name := strings.ToLower(Text(head))
		switch {
		case column.money:
			heads = append(heads, name, name+" currency")
		case timed:
			heads = append(heads, name+" (UTC)")
		default:
			heads = append(heads, name)
		}
		c.columns = append(c.columns, column)
	}
	_ = c.out.Write(heads) // Error returns its error
}

// csvTime is a layout that spreadsheets parse as a time.
const csvTime = "2006-01-02 15:04:05"

// csvText returns a cell as text. Only text can begin with a character that starts a formula: numbers stay numbers.
func csvText(cell any) string {
	switch cell := cell.(type) {
	case nil:
		return ""
	case int, int32, int64, float64:
		return fmt.Sprint(cell)
	case time.Time:
		return cell.UTC().Format(csvTime)
	case *time.Time:
		if cell == nil {
			return ""
		}
		return cell.UTC().Format(csvTime)
	}
	text := Text(cell)
	if strings.HasPrefix(strings.TrimLeft(text, " "), "=") || text != "" && strings.ContainsRune("+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}
