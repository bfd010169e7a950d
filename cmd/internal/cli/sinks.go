package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/resource"
	"github.com/pawlhq/pawl/cmd/internal/sinkcheck"
)

func sinks(a *command.App) *cobra.Command {
	cmd := listCommand(a, resource.Named("sinks"))
	cmd.AddCommand(append(verbsOf(a, "sinks"), sinksCheck(a))...)
	return cmd
}

func sinksCheck(a *command.App) *cobra.Command {
	var yes, write bool
	cmd := &cobra.Command{
		Use: "check [NAME]...", Short: "Check the access to each sink, and whether it honours idempotency keys",
		Args: cobra.ArbitraryArgs,
		Long: `Check the named sinks and destinations, or all of them: each must be reachable and accept the credentials of pawl. An
API must also return the same answer to the same Idempotency-Key, and 409 if it repeats with another body. The command
signs in at the mail server and sends no email.

The requests concern the account ` + sinkcheck.Account + ` and have the header ` + sinkcheck.Header + `: true. A sink that supports the header changes
and books nothing. A sink that ignores it would store the request; the command therefore asks you first, unless you add
--yes. The exit code is 1 if a check fails.

With --write, the requests to the named APIs have no such header, and the APIs execute them: a repeat, a repeated key with
another body, 16 concurrent requests with the same key, and, for workspaces, a late request with an older version. The
last line of an API describes the state that you must find in it. Use --write in a test system.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			return runSinksCheck(cmd.Context(), a, names, yes, write)
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "let the named APIs execute the requests, also concurrent ones")
	cmd.Flags().BoolVar(&yes, "yes", false, "send all checks without a confirmation")
	return cmd
}

func runSinksCheck(ctx context.Context, a *command.App, names []string, yes, write bool) error {
	cfg, err := a.Load()
	if err != nil {
		return err
	}
	plans := sinkcheck.Plans(cfg)
	if len(plans) == 0 {
		return fmt.Errorf("no sink is configured: there is nothing to check")
	}
	if plans, err = named(plans, names); err != nil {
		return err
	}
	if plans, err = writing(plans, names, write); err != nil {
		return err
	}
	if yes = yes || mayCheck(a, plans, write); write && !yes {
		return errors.New("nothing was checked: confirm the requests, or add --yes")
	}
	findings := checkedSinks{}
	for _, p := range plans {
		if p.Stays != "" && !yes {
			findings = append(findings, sinkcheck.Finding{Sink: p.Sink, Check: "all", Result: sinkcheck.Note,
				Found: "not checked", Do: "run the check with --yes"})
			continue
		}
		findings = append(findings, p.Run(ctx)...)
	}
	return command.Emit(a, findings, func(a *command.App, found checkedSinks) {
		a.Table(output.Rows("SINK|CHECK|RESULT|FOUND|WHAT TO DO", found, func(f sinkcheck.Finding) []any {
			return []any{f.Sink, f.Check, f.Result, f.Found, f.Do}
		}))
	})
}

// named returns the plans of the named sinks in both modes, or all plans if no name is given.
func named(plans []sinkcheck.Plan, names []string) (chosen []sinkcheck.Plan, err error) {
	if len(names) == 0 {
		return plans, nil
	}
	for _, name := range names {
		found := len(chosen)
		for _, p := range plans {
			if p.Sink == name || strings.HasPrefix(p.Sink, name+":") {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) == found {
			return nil, command.Usagef("unknown sink %q: `pawl sinks` lists all sinks", name)
		}
	}
	return chosen, nil
}

// writing returns the checks with requests that the named sinks execute, if write is set.
func writing(plans []sinkcheck.Plan, names []string, write bool) ([]sinkcheck.Plan, error) {
	if !write {
		return plans, nil
	}
	if len(names) == 0 {
		return nil, command.Usagef("--write needs the names of sinks, because they execute the requests: pawl sinks check finance --write")
	}
	for i, p := range plans {
		if !slices.Contains(names, p.Sink) {
			return nil, command.Usagef("--write needs one mode, because the sink executes the requests: pawl sinks check %s --write", p.Sink)
		}
		var ok bool
		if plans[i], ok = p.Writing(); !ok {
			return nil, command.Usagef("--write is not possible for %s: pawl has such requests only for workspaces and finance", p.Sink)
		}
	}
	return plans, nil
}

// checkedSinks are the findings about the sinks.
type checkedSinks []sinkcheck.Finding

// Failed reports whether a check fails.
func (c checkedSinks) Failed() bool {
	return slices.ContainsFunc(c, func(f sinkcheck.Finding) bool { return f.Result == sinkcheck.Fails })
}

// mayCheck asks for a confirmation before it sends requests that a sink could store. If there is no answer, it does
// not send them.
func mayCheck(a *command.App, plans []sinkcheck.Plan, write bool) bool {
	asked, warning := false, "A sink that does not support the header "+sinkcheck.Header+" stores these requests:"
	if write {
		warning = "The sinks execute these requests:"
	}
	for _, p := range plans {
		if p.Stays == "" {
			continue
		}
		if !asked {
			fmt.Fprintln(a.Err, warning)
			asked = true
		}
		fmt.Fprintf(a.Err, "  %-24s %s\n", output.Clean(p.Sink), p.Stays)
	}
	if !asked {
		return true
	}
	said := strings.ToLower(a.Ask("Send it? [y/N]: "))
	return said == "y" || said == "yes"
}
