package resource

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
)

// If a description lacked one of these parts, the list would be incomplete on a surface.
func TestAll_Complete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, l := range All {
		about := l.About()
		for _, part := range []string{about.Name, about.Title, about.Command, about.Path, about.Short, about.Empty, string(about.Right)} {
			if part == "" {
				t.Errorf("%s lacks a part: %+v", about.Name, about)
			}
		}
		for _, unique := range []string{"name " + about.Name, "title " + about.Title, "command " + about.Command, "path " + about.Path} {
			if seen[unique] {
				t.Errorf("two lists have the %s", unique)
			}
			seen[unique] = true
		}
		if !strings.HasPrefix(about.Path, "/") || l.Item().Kind() != reflect.Struct {
			t.Errorf("%s has the path %q and items of type %v", about.Name, about.Path, l.Item())
		}
		for _, f := range about.Filters {
			if f.Usage == "" || f.Name == "limit" || f.Name == "cursor" {
				t.Errorf("%s has the filter %q with the usage %q", about.Name, f.Name, f.Usage)
			}
		}
		if about.Totals != "" && (Named(about.Totals) == nil || !reflect.DeepEqual(Named(about.Totals).About().Filters, about.Filters)) {
			t.Errorf("%s has the totals %q, which have other filters", about.Name, about.Totals)
		}
		if about.Continues && !about.Paged {
			t.Errorf("%s continues without pages", about.Name)
		}
	}
}

// Each column that a list omits on a narrow terminal is a column of the list.
func TestAll_DroppedColumnsExist(t *testing.T) {
	t.Parallel()
	for _, l := range All {
		var heads []string
		for _, head := range l.(interface{ headings() []any }).headings() {
			heads = append(heads, output.Text(head))
		}
		for _, head := range l.About().Drops {
			if !slices.Contains(heads, head) {
				t.Errorf("%s omits %q, and has %q", l.About().Name, head, heads)
			}
		}
	}
}

func (l *list[T]) headings() []any { return l.table(nil)[0] }

func TestQuery_WrongValue_Refused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ list, filter, value, message string }{
		{"tasks", "mode", "dead", "mode: \"dead\" is not valid: use live or test"},
		{"events", "since", "yesterday", "since: \"yesterday\" is not a time"},
		{"sources", "unused_for", "0s", "unused_for: write a duration"},
		{"sources", "unused_for", "x", "unused_for: write a duration"},
	} {
		_, err := Named(c.list).About().Query(func(name string) string {
			return map[string]string{c.filter: c.value}[name]
		}, "", 1)
		fault, is := errors.AsType[*decide.Fault](err)
		if !is || fault.Kind != decide.Invalid || !strings.HasPrefix(fault.Message, c.message) {
			t.Errorf("%s=%s: %v, want %s", c.filter, c.value, err, c.message)
		}
	}
	q, err := Named("tasks").About().Query(func(name string) string { return map[string]string{"kind": " dispute "}[name] }, "c", 2)
	if err != nil || q.Text("kind") != "dispute" || q.Values("cursor", "d").Encode() != "cursor=d&kind=dispute" {
		t.Errorf("got %+v, %v", q, err)
	}
}

// Read cuts a page after the limit, and the cursor continues after its last item.
func TestList_Read_Page(t *testing.T) {
	t.Parallel()
	l := &list[int]{
		Description: Description{Paged: true},
		table:       func(items []int) output.Table { return output.Rows("N", items, func(n int) []any { return []any{n} }) },
		cursor:      func(n int) string { return output.Text(n) },
	}
	for _, c := range []struct {
		stored, limit, items int
		more                 bool
		next                 string
	}{{0, 2, 0, false, ""}, {2, 2, 2, false, ""}, {3, 2, 2, true, "2"}} {
		l.read = numbers(c.stored)
		p, err := l.Read(t.Context(), Env{}, Query{Limit: c.limit})
		if err != nil {
			t.Fatal(err)
		}
		if items := p.Items.([]int); items == nil || len(items) != c.items || len(p.Table) != c.items+1 || p.More != c.more || p.Next != c.next {
			t.Errorf("%d stored: %+v", c.stored, p)
		}
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"90m": now.Add(-90 * time.Minute), "7d": now.AddDate(0, 0, -7), "2026-11-22T08:00:00Z": time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC),
		"2026-11-22": time.Date(2026, 11, 22, 0, 0, 0, 0, time.Local), "22.11.2026": time.Date(2026, 11, 22, 0, 0, 0, 0, time.Local),
		"2026-11-22 08:30": time.Date(2026, 11, 22, 8, 30, 0, 0, time.Local), "2026-11-22T08:30": time.Date(2026, 11, 22, 8, 30, 0, 0, time.Local), "2026-11-22 08:00:00.5 +01:00": time.Date(2026, 11, 22, 7, 0, 0, 5e8, time.UTC),
	} {
		if got, err := Moment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("Moment(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]time.Time{"90m": now.Add(90 * time.Minute), "7d": now.AddDate(0, 0, 7), "2026-11-22T08:00:00Z": time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)} {
		if got, err := moment(text, now, 1); err != nil || !got.Equal(want) {
			t.Errorf("ahead: moment(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "-1h", "-1d", "d", "1 d", "11/22/2026", "2026-13-01", "1x"} {
		if got, err := Moment(text, now); err == nil {
			t.Errorf("Moment(%q) = %v, want an error", text, got)
		}
	}
}

// A filter that looks ahead is read with ahead. Otherwise a duration would count into the past.
func TestQuery_Ahead(t *testing.T) {
	t.Parallel()
	value := func(name string) string { return map[string]string{"until": "12h"}[name] }
	q, err := Named("scheduled").About().Query(value, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(q.ahead("until")); left <= 11*time.Hour || left > 12*time.Hour || !q.ahead("since").IsZero() {
		t.Errorf("until is in %v, since is %v", left, q.ahead("since"))
	}
}

func numbers(n int) func(context.Context, Env, Query) ([]int, error) {
	return func(_ context.Context, _ Env, q Query) (found []int, _ error) {
		for i := 1; i <= min(n, q.Limit); i++ {
			found = append(found, i)
		}
		return found, nil
	}
}

// A file contains all pages of a list, and is refused if the list has more rows.
func TestCSV_AllPagesOrNone(t *testing.T) {
	t.Parallel()
	const stored = 2*rowsAtOnce + 7
	l := &list[int]{
		Description: Description{Name: "numbers", Paged: true},
		read: func(_ context.Context, _ Env, q Query) (found []int, _ error) {
			after, _ := strconv.Atoi(q.Cursor)
			for n := after + 1; n <= stored && len(found) < q.Limit; n++ {
				found = append(found, n)
			}
			return found, nil
		},
		table:  func(items []int) output.Table { return output.Rows("N", items, func(n int) []any { return []any{n} }) },
		cursor: func(n int) string { return output.Text(n) },
	}
	for _, most := range []int{stored, stored + 1, 5 * stored} {
		var file bytes.Buffer
		if err := CSV(t.Context(), l, Env{}, Query{Cursor: "", Limit: 1}, most, &file); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Split(strings.TrimSpace(file.String()), "\n"); len(lines) != stored+1 || lines[0] != "n" || lines[stored] != strconv.Itoa(stored) {
			t.Errorf("at most %d: %d lines, the last one %q", most, len(lines), lines[len(lines)-1])
		}
	}
	err := CSV(t.Context(), l, Env{}, Query{}, stored-1, io.Discard)
	if fault, is := errors.AsType[*decide.Fault](err); !is || fault.Kind != decide.Invalid {
		t.Errorf("a list with one row too many: %v", err)
	}
	l.cursor = nil // a list that cannot be continued is read at once
	var file bytes.Buffer
	if err := CSV(t.Context(), l, Env{}, Query{}, stored, &file); err != nil || strings.Count(file.String(), "\n") != stored+1 {
		t.Errorf("%d lines, %v", strings.Count(file.String(), "\n"), err)
	}
}
