// Package resource describes each list of pawl once: its name, right, filters, query and columns. The command line,
// the API, its OpenAPI document and the console iterate over [All], so a list that is added here appears on all of
// them.
package resource

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/role"
)

// List is a list of pawl with items of any type.
type List interface {
	// About returns the description of the list.
	About() *Description
	// Read returns a page. It returns an error for a cursor or a value that the filters do not accept.
	Read(context.Context, Env, Query) (*Page, error)
	// Item is the type of an item, for its JSON schema.
	Item() reflect.Type
}

// Description describes a list.
type Description struct {
	// Name is unique, and the operationId of the API. Title is the title of the page.
	Name, Title string
	// Command is the command that prints the list, without "pawl".
	Command string
	// Path is the path below the prefix of the API, and the path in the console.
	Path string
	// Short describes the list in one line, Long in a paragraph. Both are used by all surfaces.
	Short, Long string
	// Empty is the text that the console shows instead of an empty list.
	Empty   string
	Right   role.Right
	Filters []Filter
	// Paged reports whether a page has a limit. Otherwise every page is the whole list.
	Paged bool
	// Continues reports whether a page can be continued with a cursor.
	Continues bool
	// Drops lists the columns that a narrow terminal omits, in this order.
	Drops []string
	// Totals is the name of a list with totals of this one, or "". It has the same filters. The console shows both on
	// one page.
	Totals string
	// Beside is the name of another list, or "". It has the same filters. The console shows its totals on the page of
	// this list, with a link, unless they are empty.
	Beside string
	// Part reports whether the list belongs to another one, which links to it, so that the navigation omits it.
	Part bool
	// Renews reports whether the console reloads the page, because the list changes without a decision.
	Renews bool
}

// Filter restricts a list.
type Filter struct {
	// Name is the name in JSON and in a query. The flag has the same name, with hyphens.
	Name string
	// Usage describes the filter. A word in backquotes is the placeholder of the flag's value.
	Usage string
	// Values lists the accepted values. A filter without values accepts any text.
	Values []string
	// Default is the value of a filter that is not given. If it is "", the list then contains all values.
	Default string
	// Kind is the type of the value.
	Kind Kind
	// Ahead reports whether a duration as the value of a [Time] counts from now into the future, not into the past.
	Ahead bool
}

// Kind is the type of a filter's value.
type Kind string

// The kinds.
const (
	Text     Kind = ""
	Time     Kind = "time"     // as [Moment] parses it
	Duration Kind = "duration" // in the format of Go, for example 168h
)

// Env contains the sources of all lists.
type Env struct {
	Operator *decide.Operator
	Config   *config.Config
}

// Query selects a page of a list.
type Query struct {
	values map[string]string
	// Cursor is the Next of the previous page, or "".
	Cursor string
	// Limit is the maximum number of items of the page. It is at least 1.
	Limit int
}

// Page is a page of a list. Items is a slice, which is not nil.
type Page struct {
	Items any
	Table output.Table
	// More reports whether further items exist. Next is the cursor of the next page. It is empty on the last page,
	// and if the list cannot be continued.
	More bool
	Next string
}

// Query returns the query for values by the names of filters. A missing value is "". It returns a [decide.Fault] for a
// value that a filter does not accept.
func (d *Description) Query(value func(name string) string, cursor string, limit int) (Query, error) {
	q := Query{map[string]string{}, cursor, limit}
	for _, f := range d.Filters {
		text := strings.TrimSpace(value(f.Name))
		if text == "" {
			continue
		}
		if err := f.Check(text); err != nil {
			return q, err
		}
		q.values[f.Name] = text
	}
	return q, nil
}

// Check returns a [decide.Fault] if the filter does not accept a value.
func (f Filter) Check(text string) error {
	switch {
	case f.Values != nil && !slices.Contains(f.Values, text):
		return decide.Invalidf("%s: %.40q is not valid: use %s", f.Name, text, output.OneOf(f.Values))
	case f.Kind == Time:
		if _, err := Moment(text, time.Now()); err != nil {
			return decide.Invalidf("%s: %v", f.Name, err)
		}
	case f.Kind == Duration:
		if d, err := time.ParseDuration(text); err != nil || d <= 0 {
			return decide.Invalidf("%s: write a duration of more than 0, such as 168h", f.Name)
		}
	}
	return nil
}

// Example returns an example of a time or a duration. It returns "" for a filter of another kind.
func (f Filter) Example() string {
	switch {
	case f.Kind == Time && f.Ahead:
		return "7d or 2026-12-24"
	case f.Kind == Time:
		return "7d or 2026-11-22"
	case f.Kind == Duration:
		return "168h"
	}
	return ""
}

// Text returns the value of a filter, or "".
func (q Query) Text(name string) string { return q.values[name] }

// Values returns the values of all filters and further parameters, given as names and values.
func (q Query) Values(further ...string) url.Values {
	values := url.Values{}
	for pair := range slices.Chunk(further, 2) {
		values.Set(pair[0], pair[1])
	}
	for filter, text := range q.values {
		values.Set(filter, text)
	}
	return values
}

// time returns the value of a filter of kind [Time], or the zero time.
func (q Query) time(name string) time.Time {
	if q.values[name] == "" {
		return time.Time{}
	}
	at, _ := Moment(q.values[name], time.Now()) // checked by Query
	return at
}

// ahead returns the value of a filter of kind [Time] with Ahead, or the zero time.
func (q Query) ahead(name string) time.Time {
	if q.values[name] == "" {
		return time.Time{}
	}
	at, _ := moment(q.values[name], time.Now(), 1) // checked by Query
	return at
}

// TimeUsage describes what [Moment] accepts.
const TimeUsage = "90m, 7d, 2026-11-22, 2026-11-22 08:00 or 2026-11-22T08:00:00Z"

// Moment parses a time, a date, or a duration before now. A time without a zone is local.
func Moment(text string, now time.Time) (time.Time, error) { return moment(text, now, -1) }

// Fix replaces the values of since and until, which [Moment] accepts, by times of RFC 3339.
func Fix(criteria map[string]string, now time.Time) error {
	for _, name := range []string{"since", "until"} {
		if criteria[name] == "" {
			continue
		}
		at, err := Moment(criteria[name], now)
		if err != nil {
			return decide.Invalidf("%s: %s", name, err)
		}
		criteria[name] = at.UTC().Format(time.RFC3339Nano)
	}
	return nil
}

// layouts are the accepted forms of a time, with and without a zone and seconds.
var layouts = []string{time.RFC3339, "2006-01-02 15:04:05 Z07:00", time.DateTime, "2006-01-02T15:04:05",
	"2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly, "2.1.2006 15:04", "2.1.2006"}

// moment is [Moment] for a duration before now if sign is -1, and for a duration after now if sign is 1.
func moment(text string, now time.Time, sign int) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, sign*n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(time.Duration(sign) * d), nil
	}
	for _, layout := range layouts {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time: write a duration before now, such as 90m or 7d, or a time, such as 2026-11-22 or 2026-11-22T08:00:00Z", text)
}

// duration returns the value of a filter of kind [Duration], or 0.
func (q Query) duration(name string) time.Duration {
	d, _ := time.ParseDuration(q.values[name]) // checked by Query
	return d
}

func noCursor() error { return decide.Invalidf("cursor: use the next of a page") }

// timeCursor returns the cursor of an item in a list that is ordered by time, and then by key.
func timeCursor(at time.Time, key string) string {
	return at.UTC().Format(time.RFC3339Nano) + "/" + key
}

// after parses a cursor of [timeCursor]. It returns zero values without a cursor.
func (q Query) after() (at time.Time, key string, err error) {
	if q.Cursor == "" {
		return at, "", nil
	}
	text, key, _ := strings.Cut(q.Cursor, "/")
	if at, err = time.Parse(time.RFC3339Nano, text); err != nil || key == "" {
		return at, "", noCursor()
	}
	return at, key, nil
}

// list implements [List] for items of type T.
type list[T any] struct {
	Description
	// read returns the items of a page. A paged list returns one more than the limit if another page exists.
	read func(ctx context.Context, e Env, q Query) ([]T, error)
	// cursor returns the cursor that continues the list after an item. It is nil if the list cannot be continued.
	cursor func(T) string
	table  func([]T) output.Table
}

// About returns the description.
func (l *list[T]) About() *Description {
	about := l.Description
	about.Continues = l.cursor != nil
	return &about
}

// Item returns the type of an item.
func (l *list[T]) Item() reflect.Type { return reflect.TypeFor[T]() }

// Read returns a page.
func (l *list[T]) Read(ctx context.Context, e Env, q Query) (*Page, error) {
	limit := q.Limit
	q.Limit++ // a further item shows that another page exists
	found, err := l.read(ctx, e, q)
	if err != nil {
		return nil, err
	}
	p := &Page{}
	if l.Paged && len(found) > limit {
		found, p.More = found[:limit], true
		if l.cursor != nil {
			p.Next = l.cursor(found[limit-1])
		}
	}
	if found == nil {
		found = []T{}
	}
	p.Items, p.Table = found, l.table(found)
	return p, nil
}

// MostRows is the maximum number of rows in a CSV file, unless the person chooses another number.
const MostRows = 100_000

// rowsAtOnce is the number of rows that CSV reads at once.
const rowsAtOnce = 1000

// CSV writes the items of a list that match q as a CSV file, with the columns of its table. It ignores the limit of q
// and writes at most most rows. If there are more, it returns a [decide.Fault], because an incomplete file looks like a
// complete one.
func CSV(ctx context.Context, l List, e Env, q Query, most int, out io.Writer) error {
	file, about := output.NewCSV(out), l.About()
	for left := most; ; {
		if q.Limit = left; about.Continues {
			q.Limit = min(left, rowsAtOnce)
		}
		p, err := l.Read(ctx, e, q)
		if err != nil {
			return err
		}
		if err := file.Page(p.Table); err != nil {
			return err
		}
		if left -= len(p.Table) - 1; !p.More {
			return nil
		}
		if left <= 0 || p.Next == "" {
			return decide.Invalidf("more than %d rows match: choose fewer with the filters, for example one month",
				most)
		}
		q.Cursor = p.Next
	}
}

// Named returns the list with a name, or nil.
func Named(name string) List {
	for _, l := range All {
		if l.About().Name == name {
			return l
		}
	}
	return nil
}
