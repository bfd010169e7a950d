package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/cli"
	"github.com/pawlhq/pawl/cmd/internal/command"
)

// program returns the binary: its commands and its providers. Flows are listed in package workflows.
func program() command.Program {
	return command.Program{Version: readBuild().String(), Providers: providers(), Commands: commands, Retired: retired}
}

// commands returns all commands of the binary. The commands of operators are listed in package cli.
func commands(a *command.App) []*cobra.Command {
	return slices.Concat([]*cobra.Command{
		initCommand(a),
		devCommand(a),
		ingressCommand(a),
		workerCommand(a), consoleCommand(a), temporalUICommand(a),
		command.Group("temporal", "The Temporal namespace", temporalSetup(a)),
		command.Group("config", "The configuration", configCheck(a)),
		flowsCommand(a),
		migrateCommand(a),
		healthcheckCommand(a),
		doctorCommand(a),
		providersCommand(a),
		sendCommand(a),
		verifyCommand(a),
		versionCommand(a),
	}, cli.Commands(a))
}
