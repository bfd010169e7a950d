package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/cmd/internal/output"
)

// show makes cmd read a T from the database and print it: as JSON with --json, otherwise with write.
func show[T any](a *app, cmd *cobra.Command, read func(ctx context.Context, s *session, args []string) (T, error),
	write func(a *app, v T)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.asking(cmd.Context(), func(ctx context.Context, s *session) error {
			v, err := read(ctx, s, args)
			if err != nil {
				return err
			}
			return emit(a, v, write)
		})
	}
	return cmd
}

// listing is a list of rows in the database.
type listing[T any] struct {
	read  func(ctx context.Context, s *session, limit int) ([]T, error)
	table func([]T) [][]string
	// after returns the flag that continues the list after a row. It is nil for a list without such a flag.
	after func(T) string
	// drops are the columns that a narrow terminal leaves out, in this order.
	drops []string
}

// list makes cmd print a list of at most --limit rows. It reports if there are more.
func list[T any](a *app, cmd *cobra.Command, l listing[T]) *cobra.Command {
	limit := limitFlag(cmd, 50)
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]T, error) {
		found, err := l.read(ctx, s, max(*limit, *limit+1)) // one more row shows that there are more
		if len(found) <= *limit {
			return append([]T{}, found...), err // an empty list in JSON, not null
		}
		more := "use --limit"
		if l.after != nil {
			more += ", or continue with " + l.after(found[*limit-1])
		}
		fmt.Fprintf(a.err, "there are more than these %d: %s\n", *limit, more)
		return found[:*limit], err
	}, func(a *app, found []T) { a.List(l.table(found), l.drops...) })
}

// emit prints a result: as JSON with --json, otherwise with write.
func emit[T any](a *app, v T, write func(a *app, v T)) error {
	return a.Emit(v, func() { write(a, v) })
}

// checked is the value of a flag that is validated when it is parsed, so that a wrong value is a usage error.
type checked struct {
	kind  string
	text  string
	parse func(text string) error
}

func (c *checked) String() string { return c.text }
func (c *checked) Type() string   { return c.kind }

func (c *checked) Set(text string) error {
	if err := c.parse(text); err != nil {
		return err
	}
	c.text = text
	return nil
}

// limitFlag adds --limit, a number of at least 1.
func limitFlag(cmd *cobra.Command, most int) *int {
	n := most
	cmd.Flags().Var(&checked{"int", strconv.Itoa(most), func(text string) (err error) {
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			return errors.New("write a number from 1")
		}
		return nil
	}}, "limit", "the highest number of rows")
	return &n
}

// oneOfFlag adds a flag that accepts one of the words.
func oneOfFlag(cmd *cobra.Command, value *string, name, usage string, words ...string) {
	cmd.Flags().Var(&checked{kind: "string", parse: func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("use %s", output.OneOf(words))
		}
		*value = text
		return nil
	}}, name, usage)
}

func modeFlag(cmd *cobra.Command, mode *string, usage string) {
	oneOfFlag(cmd, mode, "mode", usage, "live", "test")
}

const sinceUsage = "this `time`: 90m, 7d, 2026-11-22 or 2026-11-22T08:00:00Z"

// timeFlag adds a flag that accepts a time or a duration before now.
func timeFlag(flags *pflag.FlagSet, at *time.Time, name, usage string) {
	flags.Var(&checked{kind: "time", parse: func(text string) (err error) {
		*at, err = moment(text, time.Now())
		return err
	}}, name, usage)
}

// moment parses a date, a time, or a duration before now.
func moment(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 Z07:00", time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write a duration before now, such as 90m or 7d, or a time, such as 2026-11-22 or 2026-11-22T08:00:00Z", text)
}

// progressEvery is the interval between progress lines of a long command.
const progressEvery = 2 * time.Second

// progress returns a function that prints the progress of a long command on standard error. It prints nothing at first,
// and then at most once in progressEvery.
func (a *app) progress() func(format string, args ...any) {
	last := time.Now()
	return func(format string, args ...any) {
		if now := time.Now(); now.Sub(last) >= a.progressEvery {
			last = now
			fmt.Fprintln(a.err, output.Clean(fmt.Sprintf(format, args...)))
		}
	}
}
