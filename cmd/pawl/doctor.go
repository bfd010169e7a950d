package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/doctor"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema"
)

func doctorCommand(a *command.App) *cobra.Command {
	d := doctor.Doctor{Providers: providers()}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check everything that pawl relies on, and print how to fix each problem",
		Args: command.NoArgument,
		Long: `Check everything that pawl relies on, and print how to fix each problem: the database (role, migrations, what a crash
would cost, size, growth, transactions, connections), Temporal (namespace, retention, search attributes, workers), the sinks'
breakers, the clock, the sources' secrets, and their endpoints as Stripe knows them.

Run it with the database role of a worker or of an operator. The exit code is 1 if a check has failed, else 0.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := examineAll(cmd.Context(), a, &d)
			if err != nil {
				return err
			}
			return command.Emit(a, found, writeFindings)
		},
	}
	return cmd
}

func examineAll(ctx context.Context, a *command.App, d *doctor.Doctor) (_ *doctor.Report, err error) {
	if d.Config, err = a.Load(); err != nil {
		return nil, err
	}
	if d.Pool, err = process.OpenPool(ctx, d.Config, schema.Asking, process.CommandConns); err != nil {
		return nil, err
	}
	// Closing a pool waits for its connections, and a server that has stopped never answers them.
	defer func() { go d.Pool.Close() }()
	node, err := process.New(ctx, d.Config, providers(), a.Log)
	if err != nil {
		return nil, err
	}
	defer func() { go node.Close() }()
	d.File, d.Temporal, d.Rules = a.ConfigFile, node.Temporal, process.BillingPolicy(d.Config)
	return d.Examine(ctx), nil
}

// writeFindings writes a line for each finding, followed by the recommended action if there is one.
func writeFindings(a *command.App, r *doctor.Report) {
	rows, counts := output.Table{}, map[doctor.Level]int{}
	for _, f := range r.Findings {
		counts[f.Level]++
		rows = append(rows, []any{string(f.Level), f.Area, f.Check, f.Found})
		if f.Do != "" {
			rows = append(rows, []any{"", "", "", "→ " + f.Do})
		}
	}
	a.Table(rows)
	fmt.Fprintf(a.Out, "\n%d ok, %d to know, %d failed\n", counts[doctor.OK], counts[doctor.Warn],
		counts[doctor.Fail])
}
