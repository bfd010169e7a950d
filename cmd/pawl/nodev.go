//go:build nodev

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
)

// The tag nodev leaves out `pawl dev` and `pawl send`. The image is built with it: its binary contains no
// code that signs events with the secrets of a source, and no sandbox.

func devCommand(*command.App) *cobra.Command  { return leftOut("dev") }
func sendCommand(*command.App) *cobra.Command { return leftOut("send") }

// leftOut returns a command that fails. The error names the command that works in a checkout.
func leftOut(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("this binary was built without `pawl %s`: use the binary of a release, or in a checkout "+
				"go run ./cmd/pawl %[1]s", name)
		},
	}
}
