package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/output"
)

// Show makes cmd read a T from the database and print it: as JSON with --json, otherwise with write.
func Show[T any](a *App, cmd *cobra.Command, read func(ctx context.Context, s *Session, args []string) (T, error),
	write func(a *App, v T)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.Asking(cmd.Context(), func(ctx context.Context, s *Session) error {
			v, err := read(ctx, s, args)
			if err != nil {
				return err
			}
			return Emit(a, v, write)
		})
	}
	return cmd
}

// Listing is a list of rows in the database.
type Listing[T any] struct {
	Read  func(ctx context.Context, s *Session, limit int) ([]T, error)
	Table func([]T) output.Table
	// After returns the flag that continues the list after a row. It is nil for a list without such a flag.
	After func(T) string
	// Drops are the columns that a narrow terminal leaves out, in this order.
	Drops []string
}

// List makes cmd print a list of at most --limit rows. It reports if there are more.
func List[T any](a *App, cmd *cobra.Command, l Listing[T]) *cobra.Command {
	limit := LimitFlag(cmd, 50)
	return Show(a, cmd, func(ctx context.Context, s *Session, _ []string) ([]T, error) {
		found, err := l.Read(ctx, s, max(*limit, *limit+1)) // one more row shows that there are more
		if len(found) <= *limit {
			return append([]T{}, found...), err // an empty list in JSON, not null
		}
		more := "use --limit"
		if l.After != nil {
			more += ", or continue with " + l.After(found[*limit-1])
		}
		fmt.Fprintf(a.Err, "there are more than these %d: %s\n", *limit, more)
		return found[:*limit], err
	}, func(a *App, found []T) { a.List(l.Table(found), l.Drops...) })
}

// Emit prints a result: as JSON with --json, otherwise with write.
func Emit[T any](a *App, v T, write func(a *App, v T)) error {
	return a.Emit(v, func() { write(a, v) })
}
