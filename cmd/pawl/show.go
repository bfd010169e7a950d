package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/cmd/internal/output"
)

// show makes cmd a command that reads a T from the database and writes it: as JSON with --json, else by write.
func show[T any](a *app, cmd *cobra.Command, read func(ctx context.Context, s *session, args []string) (T, error),
	write func(a *app, v T) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var v T
		if err := a.asking(cmd.Context(), func(ctx context.Context, s *session) (err error) {
			v, err = read(ctx, s, args)
			return err
		}); err != nil {
			return err
		}
		return emit(a, v, write)
	}
	return cmd
}

// emit writes a result: as JSON with --json, else by write.
func emit[T any](a *app, v T, write func(a *app, v T) error) error {
	return a.Emit(v, func() error { return write(a, v) })
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
func limitFlag(cmd *cobra.Command, n *int, most int) {
	*n = most
	cmd.Flags().Var(&checked{"int", fmt.Sprint(most), func(text string) error {
		if _, err := fmt.Sscanf(text+" ", "%d ", n); err != nil || *n < 1 {
			return fmt.Errorf("write a number from 1")
		}
		return nil
	}}, "limit", "how many at most")
}

// oneOfFlag gives a command a flag that takes one of some words, or none.
func oneOfFlag(cmd *cobra.Command, value *string, name, usage string, words ...string) {
	cmd.Flags().Var(&checked{kind: "string", parse: func(text string) error {
		for _, word := range words {
			if text == word {
				*value = text
				return nil
			}
		}
		return fmt.Errorf("use %s", output.OneOf(words))
	}}, name, usage)
}

// modeFlag gives a command --mode.
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

// newest returns the first limit rows, if one more was asked for, and says when there are more. after
// is the flag that goes on behind the last one; nil for a list that cannot.
func newest[T any](a *app, found []T, limit int, after func(T) string) []T {
	if len(found) <= limit {
		return found
	}
	more := "use --limit"
	if after != nil {
		more += ", or go on with " + after(found[limit-1])
	}
	fmt.Fprintf(a.err, "there are more than these %d: %s\n", limit, more)
	return found[:limit]
}

// oneMore is the limit that tells whether there are more than limit.
func oneMore(limit int) int { return max(limit, limit+1) }

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
