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

// show makes cmd a command that reads a T from the database and writes it: as JSON with --json, else by write.
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
	// after is the flag that goes on behind a row; nil for a list that cannot.
	after func(T) string
	// drops are the columns that a narrow terminal does without, the first one first.
	drops []string
}

// list makes cmd a command that writes a list, up to its flag --limit, and says where there are more.
func list[T any](a *app, cmd *cobra.Command, l listing[T]) *cobra.Command {
	limit := limitFlag(cmd, 50)
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]T, error) {
		found, err := l.read(ctx, s, max(*limit, *limit+1)) // one more tells that there are more
		if len(found) <= *limit {
			return append([]T{}, found...), err // in JSON, none is an empty list
		}
		more := "use --limit"
		if l.after != nil {
			more += ", or go on with " + l.after(found[*limit-1])
		}
		fmt.Fprintf(a.err, "there are more than these %d: %s\n", *limit, more)
		return found[:*limit], err
	}, func(a *app, found []T) { a.List(l.table(found), l.drops...) })
}

// emit writes a result: as JSON with --json, else by write.
func emit[T any](a *app, v T, write func(a *app, v T)) error {
	return a.Emit(v, func() { write(a, v) })
}

// checked is a flag's value that is checked when it is read, so that a wrong one is a call that cannot be understood.
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

// limitFlag gives a command --limit, a number from 1.
func limitFlag(cmd *cobra.Command, most int) *int {
	n := most
	cmd.Flags().Var(&checked{"int", strconv.Itoa(most), func(text string) (err error) {
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			return errors.New("write a number from 1")
		}
		return nil
	}}, "limit", "how many at most")
	return &n
}

// oneOfFlag gives a command a flag that takes one of some words, or none.
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

// timeFlag gives a command a flag that is a time, or how long ago it was.
func timeFlag(flags *pflag.FlagSet, at *time.Time, name, usage string) {
	flags.Var(&checked{kind: "time", parse: func(text string) (err error) {
		*at, err = moment(text, time.Now())
		return err
	}}, name, usage)
}

// moment reads a time: a date, a time, or how long ago it was.
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
	return time.Time{}, fmt.Errorf("%q is no time: write how long ago, as 90m or 7d, or a time, as 2026-11-22 or 2026-11-22T08:00:00Z", text)
}

// progressEvery is how often a command that takes long says how far it is.
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
