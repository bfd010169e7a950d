package output

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Columns returns the width for lists on out: the variable COLUMNS, or else the width of the terminal. It returns 0 for
// a file or a pipe, which means that the width is not limited.
func Columns(out io.Writer, env func(string) (string, bool)) int {
	said, _ := env("COLUMNS")
	if n, err := strconv.Atoi(said); err == nil && n > 0 {
		return n
	}
	if t, ok := out.(*Terminal); ok {
		out = t.To
	}
	if f, ok := out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return columns
		}
	}
	return 0
}

const (
	// gap is the number of spaces between two columns.
	gap = 2
	// leastText is the number of letters to which a cell with several words may be shortened. Times, IDs and single
	// words are not shortened.
	leastText = 32
)

// List writes rows like [Printer.Table], but makes them fit the terminal. It first shortens long texts. Then it omits
// the columns with the headings in droppable, in this order. It never shortens IDs.
func (p *Printer) List(t Table, droppable ...string) {
	rows := t.text()
	if p.Columns == 0 || len(rows) < 2 {
		p.write(rows)
		return
	}
	for _, heading := range droppable {
		if _, least := widths(rows); least <= p.Columns {
			break
		}
		if i := slices.Index(rows[0], heading); i >= 0 {
			for n, row := range rows {
				rows[n] = slices.Delete(slices.Clone(row), min(i, len(row)), min(i+1, len(row)))
			}
		}
	}
	wide, _ := widths(rows)
	for over := sum(wide) - p.Columns; over > 0; over-- {
		i := widest(rows, wide)
		if wide[i] <= leastText || !hasWords(rows, i) {
			break
		}
		wide[i]--
	}
	for _, row := range rows {
		for i, cell := range row {
			if letters := []rune(cell); len(letters) > wide[i] {
				row[i] = string(letters[:wide[i]-1]) + "…"
			}
		}
	}
	p.write(rows)
}

// widths returns the width of each column, and the smallest possible width of the list.
func widths(rows [][]string) (wide []int, least int) {
	wide = make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	cut := slices.Clone(wide)
	for i := range cut {
		if hasWords(rows, i) {
			cut[i] = min(cut[i], leastText)
		}
	}
	return wide, sum(cut)
}

func sum(wide []int) int {
	total := gap * (len(wide) - 1)
	for _, w := range wide {
		total += w
	}
	return total
}

// widest returns the index of the widest column with words. If no column has words, it returns the widest column.
func widest(rows [][]string, wide []int) int {
	best := -1
	for i, w := range wide {
		if hasWords(rows, i) && (best < 0 || w > wide[best]) {
			best = i
		}
	}
	return max(best, 0)
}

// hasWords reports whether a column contains texts that may be shortened.
func hasWords(rows [][]string, i int) bool {
	return slices.ContainsFunc(rows[1:], func(row []string) bool {
		return i < len(row) && strings.Contains(row[i], " ")
	})
}
