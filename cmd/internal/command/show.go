package command

import (
	"context"

	"github.com/spf13/cobra"
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

// Emit prints a result: as JSON with --json, otherwise with write.
func Emit[T any](a *App, v T, write func(a *App, v T)) error {
	return a.Emit(v, func() { write(a, v) })
}
