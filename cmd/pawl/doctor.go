package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/doctor"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema"
)

func doctorCommand(a *app) *cobra.Command {
	d := doctor.Doctor{Providers: providers()}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Examine everything that pawl relies on, and say what to do about it", Args: noArgument,
		Long: `Examine everything that pawl relies on, and say what to do about it: the database (role, migrations, what a crash
would cost, size, transactions, connections), Temporal (namespace, retention, search attributes, workers), the sinks'
breakers, the clock, the sources' secrets, and their endpoints as Stripe knows them.

--probe also sends each source a signed request through its public URL (url, or ingress.public_url). It goes the whole
way of a delivery, is kept for a day as a probe, and runs nothing. Only who has the source's secret can make one. A
provider that signs with a key of its own cannot be probed.

Run it as a worker's role, or whoever operates pawl. The exit code is 1 where something has failed, else 0.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (d.URL != "" || d.Source != "") && !d.Probe {
				return usagef("--url and --source are about the probe: add --probe")
			}
			if d.URL != "" && !isURL(d.URL) {
				return usagef("--url: %q is no http or https URL: write it whole, such as https://hooks.example.com", d.URL)
			}
			found, err := examineAll(cmd.Context(), a, &d)
			if err != nil {
				return err
			}
			return emit(a, found, writeFindings)
		},
	}
	cmd.Flags().BoolVar(&d.Probe, "probe", false, "send a signed request through the public URL of each source")
	cmd.Flags().StringVar(&d.URL, "url", "", "where the probe goes, in place of the public URL: the `base` before /hooks/SOURCE")
	cmd.Flags().StringVar(&d.Source, "source", "", "probe this source alone")
	return cmd
}

func examineAll(ctx context.Context, a *app, d *doctor.Doctor) (_ *doctor.Report, err error) {
	if d.Config, err = a.config(); err != nil {
		return nil, err
	}
	if d.Pool, err = process.OpenPool(ctx, d.Config, schema.Asking, askingConns); err != nil {
		return nil, err
	}
	// Closing a pool waits for connections, which a server that has stopped never answers.
	defer func() { go d.Pool.Close() }()
	node, err := process.New(ctx, d.Config, providers(), a.log)
	if err != nil {
		return nil, err
	}
	defer func() { go node.Close() }()
	d.File, d.Temporal, d.Meaning = a.configFile, node.Temporal, process.BillingPolicy(d.Config)
	return d.Examine(ctx)
}

// writeFindings writes a line for each finding, and below those that ask for something what that is.
func writeFindings(a *app, r *doctor.Report) {
	rows, counts := [][]string{}, map[doctor.Level]int{}
	for _, f := range r.Findings {
		counts[f.Level]++
		rows = append(rows, []string{string(f.Level), f.Area, f.Check, f.Found})
		if f.Do != "" {
			rows = append(rows, []string{"", "", "", "→ " + f.Do})
		}
	}
	a.Table(rows)
	fmt.Fprintf(a.out, "\n%d ok, %d to know, %d failed\n", counts[doctor.OK], counts[doctor.Warn],
		counts[doctor.Fail])
}
